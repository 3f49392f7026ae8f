"""Prepare: the first resource of an instance. It refuses, before any write, objects that belong to somebody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.provider import Provider


class PrepareProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""


class Prepare(dynamic.Resource, module="valkey", name="Prepare"):
    """Looks at every object that the instance is going to write, and refuses those that others own.

    Everything else of an instance depends on it. `check` looks at preview, `create` and `update` once more just before
    the first write. Writes nothing itself but on deletion, as the last of the instance: it removes what the lifecycle
    wrote beside Pulumi's Kubernetes provider (status ConfigMap, Lease).
    """

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        owner: pulumi.Input[str],
        namespace: pulumi.Input[str],
        instance: pulumi.Input[str],
        objects: Sequence[Mapping[str, pulumi.Input[str]]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`objects`: each `{"kind": …, "apiVersion": …, "name": …}`, all of `namespace`, names known at preview."""
        props: dict[str, Any] = {
            **connection.props(),
            "owner": owner,
            "namespace": namespace,
            "instance": instance,
            "objects": [dict(entry) for entry in objects],
        }
        super().__init__(PrepareProvider(), name, props, options(opts))
