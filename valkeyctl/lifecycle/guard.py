"""ShardGuard: stands between `pulumi` and a shard's StatefulSet, and lets it go only when its data is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.provider import Provider


class ShardGuardProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""


class ShardGuard(dynamic.Resource, module="valkey", name="ShardGuard"):
    """Depends on the StatefulSet of one shard, so it is deleted before that is.

    Its deletion is refused while the shard owns slots, or while that cannot be told, unless the whole instance is being
    destroyed (which the topology resource, deleted first, has written into the status ConfigMap).
    """

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        namespace: pulumi.Input[str],
        instance: pulumi.Input[str],
        shard: int,
        credentials: Mapping[str, pulumi.Input[str] | None] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`credentials`: `{"user": None | …, "secretName": …, "key": …}`; None where the server needs none."""
        props: dict[str, Any] = {
            **connection.props(),
            "namespace": namespace,
            "instance": instance,
            "shard": shard,
            "credentials": dict(credentials) if credentials is not None else None,
        }
        super().__init__(ShardGuardProvider(), name, props, options(opts))
