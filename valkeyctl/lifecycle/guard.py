"""ShardGuard: stands between `pulumi` and a shard's StatefulSet, and lets it go only when its data is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.props import CONNECTION_KEYS, changed, place_of
from valkeyctl.lifecycle.provider import Props, Provider


class ShardGuardProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """A guard of the same shard is only told anew how to look at it."""
        replaces = changed(olds, news, ("namespace", "instance", "shard"))
        differs = changed(olds, news, ("credentials", *CONNECTION_KEYS))
        return dynamic.DiffResult(changes=bool(replaces or differs), replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Writes nothing: a guard only refuses to go."""
        return dynamic.CreateResult(f"{props['namespace']}/{props['instance']}/s{int(props['shard'])}", dict(props))

    def update_it(self, olds: Props, news: Props) -> Props:  # noqa: ARG002
        """Remembers the new inputs."""
        return dict(news)

    def delete_it(self, props: Props) -> None:
        """Lets the shard go, or refuses. Errors: ShardStillNeeded."""
        from valkeyctl.lifecycle.release import require_release  # noqa: PLC0415

        credentials = props.get("credentials")
        require_release(place_of(props), int(props["shard"]), credentials)


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
