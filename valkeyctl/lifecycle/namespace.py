"""Namespace: created where it is absent, deleted only where it is ours and nothing that must stay is in it."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.provider import Provider


class NamespaceProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""


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
