"""The Services: one that clients connect to, one that gives each Pod its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valkeyctl.dataplane.model import BUS_PORT, CLIENT_PORT

from .labels import selector

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ServicePortArgsDict, ServiceSpecArgsDict

_CLIENTS: ServicePortArgsDict = {"name": "valkey", "port": CLIENT_PORT, "target_port": "valkey", "protocol": "TCP"}
_BUS: ServicePortArgsDict = {"name": "bus", "port": BUS_PORT, "target_port": "bus", "protocol": "TCP"}


def service_spec(instance: str) -> ServiceSpecArgsDict:
    """Any ready member, as a first contact for clients; the cluster then tells them where each key is."""
    return {"type": "ClusterIP", "selector": selector(instance), "ports": [_CLIENTS]}


def headless_spec(instance: str) -> ServiceSpecArgsDict:
    """A DNS name for each Pod, ready or not: members must find each other before any of them can serve."""
    return {
        "type": "ClusterIP",
        "cluster_ip": "None",
        "publish_not_ready_addresses": True,
        "selector": selector(instance),
        "ports": [_CLIENTS, _BUS],
    }
