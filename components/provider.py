"""How an instance reaches Kubernetes: through a provider of its own, or through the one that a program gives it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from valkeyctl.lifecycle import Connection

#: Constant, so that nothing is ever replaced because a kubeconfig changed: a renewed certificate, another file, a
#: context that is pinned at last. A stack doesn't move to another cluster; that is a new stack.
CLUSTER_IDENTIFIER = "valkey"

_TEXTS = ("cluster", "context", "kubeconfig", "namespace", "render_yaml_to_directory")
#: Arguments that travel as JSON, with what holds where the program says nothing.
_ENCODED: Mapping[str, Any] = {
    "enable_server_side_apply": True,
    "kube_client_settings": {},
    "suppress_deprecation_warnings": False,
}


class ManagedProvider(kubernetes.Provider):
    """A Kubernetes provider that changes ConfigMaps and Secrets in place, and whose behaviour no environment bends."""

    def __init__(self, name: str, connection: Connection, opts: pulumi.ResourceOptions | None = None) -> None:
        kubeconfig = connection.kubeconfig
        super().__init__(
            name,
            context=connection.context,
            # An empty text means the ambient one. With None the SDK would put $KUBECONFIG's value into the state, which
            # makes a change of every other machine that the program runs on, and breaks where it names several files.
            kubeconfig="" if kubeconfig is None else pulumi.Output.secret(kubeconfig),
            cluster_identifier=CLUSTER_IDENTIFIER,
            **_behaviour(),
            opts=opts,
        )


@dataclass(frozen=True)
class Access:
    """The ways of one instance: `objects` provides what it is made of, `files` its ConfigMaps; `connection` leads to
    the Pods.
    """

    objects: pulumi.ProviderResource
    files: pulumi.ProviderResource
    connection: Connection


def access_of(component: pulumi.ComponentResource, name: str, connection: Connection | None) -> Access:
    """The ways of the instance `name`.

    A provider that the program gives its component is used as it is, and without a `connection` tells the way to the
    Pods too. Its ConfigMaps go through a twin of it, since by default a Kubernetes provider replaces a ConfigMap whose
    data changed: for a moment there would be none, under Pods that are just starting.
    """
    given = component.get_provider("kubernetes:core/v1:ConfigMap")
    below = pulumi.ResourceOptions(parent=component)
    if given is None:
        ours = ManagedProvider(f"{name}-kubernetes", connection or Connection(), below)
        return Access(ours, ours, connection or Connection())
    if isinstance(given, ManagedProvider) or not isinstance(given, kubernetes.Provider):
        # One that isn't of this program (a reference from another language) can't be read.
        return Access(given, given, connection or Connection())
    return Access(given, _twin(given, f"{name}-kubernetes", below), connection or _connection_of(given))


def _behaviour() -> dict[str, Any]:
    """Arguments that would else come from the environment of whoever runs the program."""
    return {
        "enable_config_map_mutable": True,
        "enable_secret_mutable": True,
        "enable_server_side_apply": True,
        "delete_unreachable": False,
        "skip_update_unreachable": False,
    }


def _twin(given: kubernetes.Provider, name: str, opts: pulumi.ResourceOptions) -> kubernetes.Provider:
    known: Mapping[str, Any] = vars(given)
    texts = {field: _stated(known[field]) for field in _TEXTS if field in known}
    encoded = {
        field: _stated(known[field]).apply(partial(_decoded, otherwise=otherwise))
        for field, otherwise in _ENCODED.items()
        if field in known
    }
    arguments: dict[str, Any] = {**_behaviour(), **texts, **encoded}
    return kubernetes.Provider(name, cluster_identifier=CLUSTER_IDENTIFIER, **arguments, opts=opts)


def _connection_of(given: kubernetes.Provider) -> Connection:
    known: Mapping[str, Any] = vars(given)

    def stated(field: str) -> Any:
        return _stated(known[field]).apply(_or_none) if field in known else None

    return Connection(context=stated("context"), kubeconfig=stated("kubeconfig"))


def _stated(argument: pulumi.Output[Any]) -> pulumi.Output[Any]:
    """A provider's argument as the program gave it, None where it gave none.

    In a preview the SDK takes an argument that was not given for one that is not known yet, which would make everything
    that follows from it unknown. The two can be told apart: the latter's value is a mark of its own.
    """

    async def value() -> Any:
        return await argument.future(with_unknowns=True)

    async def is_known() -> bool:
        return not pulumi.contains_unknowns(await value())

    return pulumi.Output(argument.resources(), value(), is_known(), argument.is_secret())


def _decoded(value: Any, otherwise: Any) -> Any:
    plain = json.loads(value) if isinstance(value, str) else value
    return otherwise if plain is None else plain


def _or_none(value: str | None) -> str | None:
    return value or None
