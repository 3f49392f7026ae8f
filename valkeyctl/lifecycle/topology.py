"""Topology: makes Valkey itself what the program declares, and returns only when it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import dynamic

from valkeyctl.lifecycle.connection import Connection, options
from valkeyctl.lifecycle.provider import Provider


class TopologyProvider(Provider):
    """Pickled by reference into Pulumi's state: the path of this class may never change."""


class Topology(dynamic.Resource, module="valkey", name="Topology"):
    """One permanent resource an instance; depends on all its StatefulSets and guards."""

    phase: pulumi.Output[str]
    conditions: pulumi.Output[list[dict[str, str]]]
    endpoints: pulumi.Output[dict[str, Any]]
    layout: pulumi.Output[dict[str, str]]
    primaries: pulumi.Output[dict[str, str]]
    server_version: pulumi.Output[str]
    secret_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        connection: Connection,
        owner: pulumi.Input[str],
        namespace: pulumi.Input[str],
        instance: pulumi.Input[str],
        shards: pulumi.Input[int],
        replicas: pulumi.Input[int],
        slots: Mapping[str, str] | None = None,
        port: pulumi.Input[int] = 6379,
        tls: Mapping[str, Any] | None = None,
        credentials: Mapping[str, pulumi.Input[str] | None] | None = None,
        timeout_s: pulumi.Input[float] = 600,
        workload_revision: pulumi.Input[str] = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`slots`: an explicit layout by shard number, `{"0": "0-5460", …}`, covering 0..16383 once; None lets the
        fewest slots move. `workload_revision`: any string that changes when the Pod templates do. `timeout_s`: deadline
        of one `up` for this instance; Pulumi's custom timeouts do not reach a dynamic provider.
        """
        props: dict[str, Any] = {
            **connection.props(),
            "owner": owner,
            "namespace": namespace,
            "instance": instance,
            "shards": shards,
            "replicas": replicas,
            "slots": dict(slots) if slots is not None else None,
            "port": port,
            "tls": dict(tls) if tls is not None else None,
            "credentials": dict(credentials) if credentials is not None else None,
            "timeout_s": timeout_s,
            "workload_revision": workload_revision,
            # Outputs: named here so that the resource has attributes for them; `check` fills the layout.
            "layout": None,
            "phase": None,
            "conditions": None,
            "endpoints": None,
            "primaries": None,
            "server_version": None,
            "secret_name": None,
        }
        super().__init__(TopologyProvider(), name, props, options(opts))
