"""A Valkey cluster: the Kubernetes objects that it is made of, and the resources that make Valkey what is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import ResourceOptions

from valkeyctl.agent.rights import Rule
from valkeyctl.agent.rights import rules as agent_rules
from valkeyctl.dataplane.model import CLIENT_PORT
from valkeyctl.kube.labels import CLUSTER
from valkeyctl.lifecycle import Prepare, ShardGuard, Topology

from .args import ClusterArgs
from .config_files import node_timeout_ms, settings_input
from .instance import ValkeyInstance
from .versions import version_label


class ValkeyCluster(ValkeyInstance):
    """A Valkey cluster of `args.shards` shards, formed and healthy when its creation ends.

    `name` is the instance's. Its objects in Kubernetes are called `<name>-…`, so it is a DNS label of at most 47
    characters.

    Order: `Prepare` refuses what belongs to others before anything is written; then password, files, Services,
    policies, the agents' account and claims; then a StatefulSet and a guard for each shard; last the topology, which
    returns when Valkey itself is right. Destroyed in reverse.
    """

    layout: pulumi.Output[dict[str, str]]
    primaries: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, args: ClusterArgs | None = None, opts: ResourceOptions | None = None) -> None:
        """Raises pulumi.RunError when `name` can't name an instance."""
        self._args = args or ClusterArgs()
        super().__init__(CLUSTER, name, self._args, opts, shards=self._args.shards)
        prepare = self._prepare(opts)
        surroundings = self._surroundings(prepare)
        shards = [self._shard(shard, prepare, surroundings) for shard in range(self._args.shards)]
        topology = self._topology(prepare, [resource for shard in shards for resource in shard])

        self._tell(topology)
        self.layout = topology.layout
        self.primaries = topology.primaries
        self.register_outputs(self.summary)

    @property
    def summary(self) -> Mapping[str, pulumi.Output[Any]]:
        """All outputs under the names that a stack exports. No password is among them, only where it is."""
        return {**super().summary, "layout": self.layout, "primaries": self.primaries}

    def _allowed(self) -> Sequence[Rule]:
        return agent_rules(
            self._instance,
            shards=self._args.shards,
            replicas=self._args.replicas,
            config_map=self._names.config_map,
            secret=self._password.name,
        )

    def _shard(self, shard: int, prepare: Prepare, before: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """The StatefulSet of a shard, and the guard that must let it go after it."""
        workload = self._workload(shard, prepare, before)
        guard = ShardGuard(
            self._names.workload(shard),
            connection=self._access.connection,
            namespace=self._args.namespace,
            instance=self._instance,
            shard=shard,
            credentials=self._credentials,
            opts=self._below(workload),
        )
        return [workload, guard]

    def _topology(self, prepare: Prepare, shards: Sequence[pulumi.Resource]) -> Topology:
        args = self._args
        return Topology(
            self._instance,
            connection=self._access.connection,
            owner=self._owner,
            namespace=args.namespace,
            instance=self._instance,
            shards=args.shards,
            replicas=args.replicas,
            slots={str(shard): slots for shard, slots in sorted(args.slots.items())} if args.slots else None,
            port=CLIENT_PORT,
            credentials=self._credentials,
            timeout_s=args.timeout_s,
            allow_data_loss=args.allow_data_loss,
            node_timeout_ms=node_timeout_ms(args),
            persistent=args.persistence is not None,
            takeover_after_s=args.takeover.after_s if args.takeover else None,
            heal=args.agent.heal,
            migration=args.migration.model_dump(),
            settings=settings_input(args),
            workload_revision=self._revision(),
            version=version_label(args.server_image),
            primary_ordinals={str(shard): ordinal for shard, ordinal in args.primary_ordinals.items()} or None,
            # None where it isn't declared: an instance that was made before there was such a thing has no update to do.
            spread_primaries=args.spread_primaries or None,
            prefer_ordinal_zero=(args.spread_primaries and args.prefer_ordinal_zero) or None,
            parallel_shards=args.rollout.max_parallel_shards,
            paused=args.paused,
            opts=self._below(prepare, *shards),
        )
