"""The declared state of an instance, as `up` left it for the agents: the ConfigMap `<instance>-declared`.

Only `up` writes it, under the instance's Lease and before it brings Valkey there, so that an agent that goes on after
an `up` was killed goes on towards the same goal. Agents read it before they heal. It holds nothing secret, and no
consent that was given for one run (`allowDataLoss`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from valkeyctl.dataplane import Spec, describe_layout, parse_layout
from valkeyctl.dataplane.model import CLIENT_PORT
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiConflict, ApiNotFound, KubeError
from valkeyctl.kube.labels import OWNER_ANNOTATION, declared_name, instance_labels

KEY = "declared.json"
#: Raised when a reader of an older version would misunderstand what is written.
FORMAT = 1


class DeclaredUnreadable(KubeError):  # noqa: N818 - reads as what happened
    """The ConfigMap holds something that this version doesn't understand: nobody may act on a guess."""


@dataclass(frozen=True)
class DeclaredState:
    """What an instance is to be. `spec` as the data plane takes it, but without consent to a loss of data.

    `heal`: whether agents may bring it back there by themselves; if not, that is for `up` alone. `paused`: no member is
    to run, so that there is nothing to heal, also while the last of them are still about to stop.
    """

    owner: str
    spec: Spec
    port: int = CLIENT_PORT
    heal: bool = True
    paused: bool = False

    @property
    def may_heal(self) -> bool:
        """Whether agents may do anything about what differs from it."""
        return self.heal and not self.paused


def read_declared(api: Api, namespace: str, instance: str) -> DeclaredState | None:
    """What is declared; None where nothing is (yet, or any more). Errors: DeclaredUnreadable, those of the API."""
    known = api.find(path_of("v1", "configmaps", namespace, declared_name(instance)))
    return None if known is None else parse_declared(known, instance)


def write_declared(api: Api, namespace: str, instance: str, state: DeclaredState) -> None:
    """Says what is declared. Idempotent; to be called by who holds the Lease. Errors: those of the API."""
    _put(api, namespace, instance, state.owner, {KEY: render_declared(state)})


def ensure_declared(api: Api, namespace: str, instance: str, owner: str) -> None:
    """Makes the ConfigMap, empty, where there is none: agents then see that nothing is declared yet. Idempotent."""
    _put(api, namespace, instance, owner, {})


def remove_declared(api: Api, namespace: str, instance: str, owner: str) -> None:
    """Takes back what is declared, so that no agent heals what is being destroyed. No-op under another owner."""
    path = path_of("v1", "configmaps", namespace, declared_name(instance))
    known = api.find(path)
    if known is not None and (known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) in (None, "", owner):
        api.delete(path, uid=str(known["metadata"]["uid"]))


def render_declared(state: DeclaredState) -> str:
    """The text under `declared.json`: equal states give equal texts. Pure."""
    spec = state.spec
    told: dict[str, Any] = {
        "format": FORMAT,
        "shards": spec.shards,
        "replicas": spec.replicas,
        "layout": describe_layout(spec.layout),
        "explicit": spec.explicit,
        "formed": spec.formed,
        "persistent": spec.persistent,
        "nodeTimeoutMs": spec.node_timeout_ms,
        "takeoverAfterSeconds": spec.takeover_after_s,
        "port": state.port,
        "heal": state.heal,
        "paused": state.paused,
    }
    return json.dumps(told, indent=1, sort_keys=True)


def parse_declared(known: Object, instance: str) -> DeclaredState | None:
    """What a ConfigMap declares; None where it is still empty. Unknown keys are passed over. Pure.

    Errors: DeclaredUnreadable.
    """
    text = (known.get("data") or {}).get(KEY)
    if not text:
        return None
    owner = str((known["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION) or "")
    try:
        return _state(json.loads(text), instance, owner)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DeclaredUnreadable(
            f"ConfigMap {declared_name(instance)} is not understood: {type(error).__name__} {error}",
            remedy="The next `pulumi up` writes it anew.",
        ) from error


def _state(told: Mapping[str, Any], instance: str, owner: str) -> DeclaredState:
    if told["format"] != FORMAT:
        raise ValueError(f"it is of format {told['format']}, this version knows {FORMAT}")
    after = told.get("takeoverAfterSeconds")
    timeout = told.get("nodeTimeoutMs")
    spec = Spec(
        instance=instance,
        shards=int(told["shards"]),
        replicas=int(told["replicas"]),
        layout=parse_layout({int(name.removeprefix("s")): slots for name, slots in told["layout"].items()}),
        explicit=bool(told.get("explicit")),
        formed=bool(told.get("formed")),
        node_timeout_ms=None if timeout is None else int(timeout),
        persistent=bool(told.get("persistent")),
        takeover_after_s=None if after is None else float(after),
    )
    return DeclaredState(
        owner,
        spec,
        int(told.get("port") or CLIENT_PORT),
        heal=told.get("heal") is not False,
        paused=told.get("paused") is True,
    )


def _put(api: Api, namespace: str, instance: str, owner: str, data: Mapping[str, str]) -> None:
    collection = path_of("v1", "configmaps", namespace)
    path = f"{collection}/{declared_name(instance)}"
    metadata: Object = {"labels": instance_labels(instance), "annotations": {OWNER_ANNOTATION: owner}}
    patch: Object = {"metadata": metadata, **({"data": dict(data)} if data else {})}
    try:
        api.merge(path, patch)
    except ApiNotFound:
        named = {**metadata, "name": declared_name(instance), "namespace": namespace}
        try:
            api.create(collection, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": dict(data)})
        except ApiConflict:
            api.merge(path, patch)
