"""A primary with its replicas, that the agents fail over by themselves: a dataset without Sentinels."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi import ResourceOptions

from valkeyctl.kube.labels import REPLICA

from .dataset import ValkeyDataset
from .dataset_args import ReplicaArgs


class ValkeyReplica(ValkeyDataset):
    """One dataset with `args.replicas` replicas; with none it is a single server.

    `name` is the instance's. Its objects in Kubernetes are called `<name>-…`, so it is a DNS label of at most 47
    characters. Clients write through the Service `<name>-rw` and read through `<name>-ro`.
    """

    def __init__(self, name: str, args: ReplicaArgs | None = None, opts: ResourceOptions | None = None) -> None:
        """Raises pulumi.RunError when `name` can't name an instance."""
        self._replica = args or ReplicaArgs()
        super().__init__(REPLICA, name, self._replica, opts)

    def _environment(self) -> Mapping[str, str]:
        lease_s = self._replica.lease_duration_s
        return {**super()._environment(), **({"VALKEY_AUTOMATIC_FAILOVER": str(lease_s)} if lease_s else {})}
