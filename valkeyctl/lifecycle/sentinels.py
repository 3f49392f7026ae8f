"""Sentinels: the Pods of a set of Sentinels run, all of the newest template; whom they monitor is each Dataset's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.engine import engine
from valkeyctl.lifecycle.props import CONNECTION_KEYS, changed, is_unknown
from valkeyctl.lifecycle.provider import Props, Provider

#: What a change of is an update that has something to do.
DECLARED_KEYS = (
    "owner",
    "namespace",
    "set_name",
    "replicas",
    "port",
    "credentials",
    "timeout_s",
    "workload_revision",
    "paused",
    *CONNECTION_KEYS,
)


class SentinelsProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""

    def diff_it(self, olds: Props, news: Props) -> dynamic.DiffResult:
        """Compares what is declared, and looks at the Pods: one of a former template is an update."""
        from valkeyctl.lifecycle.sentinel_pods import to_do  # noqa: PLC0415

        replaces = changed(olds, news, ("namespace", "set_name"))
        if replaces or is_unknown([news.get(key) for key in DECLARED_KEYS]):
            return dynamic.DiffResult(changes=True, replaces=replaces)
        differs = bool(changed(olds, news, DECLARED_KEYS))
        lines = to_do(news, new_template=bool(changed(olds, news, ("workload_revision",))))
        for line in lines:
            engine().info(f"to do: {line}")
        return dynamic.DiffResult(changes=differs or bool(lines), replaces=replaces)

    def create_it(self, props: Props) -> dynamic.CreateResult:
        """Waits until every Sentinel answers."""
        return dynamic.CreateResult(f"{props['namespace']}/{props['set_name']}", self.update_it({}, props))

    def update_it(self, olds: Props, news: Props) -> Props:  # noqa: ARG002
        """Replaces the Pods of a former template, one at a time, each while the others have a quorum of all names."""
        from valkeyctl.lifecycle.sentinel_pods import roll  # noqa: PLC0415

        roll(news, engine(), engine().progress)
        return dict(news)


class Sentinels(dynamic.Resource, module="valkey", name="Sentinels"):
    """One a set of Sentinels; depends on its StatefulSet. A `Dataset` that is monitored by the set depends on it."""

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        owner: pulumi.Input[str],
        namespace: pulumi.Input[str],
        set_name: str,
        replicas: pulumi.Input[int],
        port: pulumi.Input[int] = 26379,
        credentials: Mapping[str, pulumi.Input[str] | None] | None = None,
        timeout_s: pulumi.Input[float] = 600,
        workload_revision: pulumi.Input[str] = "",
        paused: pulumi.Input[bool] = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`set_name`: the StatefulSet, whose update strategy is OnDelete. `credentials`, `{"user", "secretName",
        "key"}`: how to sign in at the Sentinels. `workload_revision`: any string that changes when the Pod template
        does. `paused`: no Pod is to run, and nothing is waited for.
        """
        props: dict[str, Any] = {
            **connection.props(),
            "owner": owner,
            "namespace": namespace,
            "set_name": set_name,
            "replicas": replicas,
            "port": port,
            "credentials": dict(credentials) if credentials is not None else None,
            "timeout_s": timeout_s,
            "workload_revision": workload_revision,
            "paused": paused,
        }
        super().__init__(SentinelsProvider(), name, props, options(opts))
