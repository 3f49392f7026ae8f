"""Namespace: created where it is absent, deleted only where it is ours and nothing that must stay is in it."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.props import CONNECTION_KEYS, changed, place_of
from valkeyctl.lifecycle.provider import WRITE_PATIENCE_S, Props, Provider


class NamespaceProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Another name is another namespace, which is made before the former goes."""
        replaces = changed(olds, news, ("namespace",))
        differs = changed(olds, news, ("owner", *CONNECTION_KEYS))
        return dynamic.DiffResult(changes=bool(replaces or differs), replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Creates it, or uses the one that is there."""
        return dynamic.CreateResult(str(props["namespace"]), self.update_it({}, props))

    def read_it(self, id_: str, props: Props) -> dynamic.ReadResult:
        """Gone is only what the API server says is gone."""
        from valkeyctl.dataplane.errors import ValkeyctlError  # noqa: PLC0415
        from valkeyctl.kube.access import path_of  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(props)
        try:
            known = api_of(place).find(path_of("v1", "namespaces", None, place.namespace))
        except ValkeyctlError as error:
            engine().warn(str(error))
            return dynamic.ReadResult(id_, props)
        return dynamic.ReadResult(id_ if known is not None else None, props)

    def update_it(self, olds: Props, news: Props) -> Props:
        """As create; a namespace of the stack's former name is taken along."""
        from valkeyctl.kube.namespaces import ensure_namespace  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(news)
        former = [str(olds["owner"])] if olds.get("owner") else []
        ensure_namespace(
            api_of(place, patience_s=WRITE_PATIENCE_S), place.namespace, place.owner, engine().progress, former=former
        )
        return dict(news)

    def delete_it(self, props: Props) -> None:
        """Deletes what is ours, unless something in it has to stay; says what."""
        from valkeyctl.kube.namespaces import delete_namespace  # noqa: PLC0415
        from valkeyctl.lifecycle.session import api_of  # noqa: PLC0415

        place = place_of(props)
        told = delete_namespace(api_of(place), place.namespace, place.owner, engine().progress)
        if told:
            engine().info(told)


class Namespace(dynamic.Resource, module="valkey", name="Namespace"):
    """The namespace of one or more instances.

    An absent one is created, marked with its owner, and held to the `restricted` Pod Security Standard. One that exists
    already is used as it is. Deleted is only what this stack created, and only once nothing else is in it: a retained
    volume claim, or anything of somebody else, keeps it.
    """

    namespace: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        namespace: pulumi.Input[str],
        owner: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: dict[str, Any] = {**connection.props(), "namespace": namespace, "owner": owner}
        super().__init__(NamespaceProvider(), name, props, options(opts))
