"""The component of an instance, by what its arguments are."""

from __future__ import annotations

from pulumi import ResourceOptions

from .args import ClusterArgs
from .cluster import ValkeyCluster
from .dataset_args import FailoverArgs, ReplicaArgs
from .failover import ValkeyFailover
from .replica import ValkeyReplica


def make(
    name: str, args: ClusterArgs | FailoverArgs | ReplicaArgs, opts: ResourceOptions | None = None
) -> ValkeyCluster | ValkeyFailover | ValkeyReplica:
    """A `ValkeyCluster`, `ValkeyFailover` or `ValkeyReplica`. Raises as they do."""
    if isinstance(args, ClusterArgs):
        return ValkeyCluster(name, args, opts)
    return ValkeyFailover(name, args, opts) if isinstance(args, FailoverArgs) else ValkeyReplica(name, args, opts)
