"""Components: Valkey in any Pulumi program. Installed as `valkey_components`."""

from valkeyctl.lifecycle import Connection, Namespace

from .args import Agent, AgentResources, Amounts, Auth, ClusterArgs, Persistence, Resources, SecretKey
from .cluster import ValkeyCluster
from .dataset_args import AutomaticFailover, FailoverArgs, Handover, ReplicaArgs
from .failover import ValkeyFailover
from .make import make
from .provider import ManagedProvider
from .replica import ValkeyReplica
from .sentinel import ValkeySentinel
from .sentinel_args import Sentinel, SentinelArgs, SentinelReference

__all__ = [
    "Agent",
    "AgentResources",
    "Amounts",
    "Auth",
    "AutomaticFailover",
    "ClusterArgs",
    "Connection",
    "FailoverArgs",
    "Handover",
    "ManagedProvider",
    "Namespace",
    "Persistence",
    "ReplicaArgs",
    "Resources",
    "SecretKey",
    "Sentinel",
    "SentinelArgs",
    "SentinelReference",
    "ValkeyCluster",
    "ValkeyFailover",
    "ValkeyReplica",
    "ValkeySentinel",
    "make",
]
