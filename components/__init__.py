"""Components: Valkey in any Pulumi program. Installed as `valkey_components`."""

from valkeyctl.lifecycle import Connection, Namespace

from .args import Agent, AgentResources, Amounts, Auth, ClusterArgs, Persistence, Resources, SecretKey
from .cluster import ValkeyCluster
from .provider import ManagedProvider

__all__ = [
    "Agent",
    "AgentResources",
    "Amounts",
    "Auth",
    "ClusterArgs",
    "Connection",
    "ManagedProvider",
    "Namespace",
    "Persistence",
    "Resources",
    "SecretKey",
    "ValkeyCluster",
]
