"""One dataset: what `ValkeyReplica` and `ValkeyFailover` have in common, so that one can become the other in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import Alias, ResourceOptions

from valkeyctl.agent.rights import Rule, dataset_rules
from valkeyctl.dataplane.model import CLIENT_PORT
from valkeyctl.kube.labels import FAILOVER, REPLICA
from valkeyctl.lifecycle import Dataset, Prepare

from .config_files import settings_input
from .dataset_args import FailoverArgs, ReplicaArgs
from .identity import component_type
from .instance import ValkeyInstance
from .labels import NO_WAIT
from .sentinel import ValkeySentinel
from .services import role_spec
from .versions import version_label

#: The number of its only shard.
SHARD = 0


class ValkeyDataset(ValkeyInstance):
    """The base of the two. Their children have the same names, and each component is aliased to the other's type.

    Order: `Prepare` refuses what belongs to others before anything is written; then password, files, Services,
    policies, the agents' account and claims; then the StatefulSet; last the dataset, which returns when Valkey itself
    is right. Destroyed in reverse.
    """

    primary: pulumi.Output[str]

    def __init__(
        self, architecture: str, name: str, args: ReplicaArgs | FailoverArgs, opts: ResourceOptions | None
    ) -> None:
        """Raises pulumi.RunError when `name` can't name an instance."""
        self._args = args
        self._architecture = architecture
        super().__init__(architecture, name, args, _also_known(opts, architecture), shards=1)
        prepare = self._prepare(opts, architecture=architecture, sentinels=self._sentinel())
        surroundings = [*self._surroundings(prepare), *self._role_services(prepare)]
        watchers = self._watchers(prepare)
        # Neither waits for the other to run; but where all are to rest, the Sentinels stop before the servers do.
        workload = self._workload(SHARD, prepare, [*surroundings, *([watchers.workload] if watchers else [])])
        dataset = self._dataset(prepare, workload, *([watchers.pods_run] if watchers else []))

        self._tell(dataset)
        self.primary = dataset.primary
        self.register_outputs(self.summary)

    @property
    def summary(self) -> Mapping[str, pulumi.Output[Any]]:
        """All outputs under the names that a stack exports. No password is among them, only where it is."""
        return {**super().summary, "primary": self.primary}

    def _sentinel(self) -> Mapping[str, Any] | None:
        """What is declared to the Sentinels; None where there are none."""
        return None

    def _watchers(self, prepare: Prepare) -> ValkeySentinel | None:  # noqa: ARG002
        """The Sentinels that belong to the instance."""
        return None

    def _environment(self) -> Mapping[str, str]:
        """What agents and scripts are told beside what all are told."""
        return {"VALKEY_ARCHITECTURE": self._architecture}

    def _objects(self) -> list[tuple[str, str, str]]:
        services = [("v1", "Service", name) for name in (self._names.primary, self._names.replicas)]
        return [*super()._objects(), *services]

    def _allowed(self) -> Sequence[Rule]:
        return dataset_rules(
            self._instance,
            replicas=self._args.replicas,
            config_map=self._names.config_map,
            secret=self._password.name,
            automatic_failover=self._args.lease_duration_s is not None,
        )

    def _role_services(self, prepare: Prepare) -> list[pulumi.Resource]:
        """Where the primary is, and where the replicas are. Whom they lead to is written once it is known."""
        return [
            kubernetes.core.v1.Service(
                name,
                metadata=self._identity.metadata(name, annotations=NO_WAIT),
                spec=role_spec(),
                opts=self._below(prepare, provider=self._access.objects),
            )
            for name in (self._names.primary, self._names.replicas)
        ]

    def _dataset(self, prepare: Prepare, *after: pulumi.Resource) -> Dataset:
        args = self._args
        handover = args.handover
        return Dataset(
            self._instance,
            connection=self._access.connection,
            owner=self._owner,
            namespace=args.namespace,
            instance=self._instance,
            architecture=self._architecture,
            replicas=args.replicas,
            port=CLIENT_PORT,
            credentials=self._credentials,
            timeout_s=args.timeout_s,
            allow_data_loss=args.allow_data_loss,
            persistent=args.persistence is not None,
            heal=args.agent.heal,
            settings=settings_input(args),
            workload_revision=self._revision(),
            version=version_label(args.server_image),
            primary_ordinal=args.primary,
            handover={"to": str(handover.to), "token": handover.token} if handover else None,
            automatic_failover_s=args.lease_duration_s,
            sentinel=self._sentinel(),
            paused=args.paused,
            opts=self._below(prepare, *after),
        )


def _also_known(opts: ResourceOptions | None, architecture: str) -> ResourceOptions:
    """The options, and the type that the component has after, or had before, an in-place move.

    The engine takes a child by its parent's former type too, so that nothing is replaced and nothing deleted.
    """
    other = REPLICA if architecture == FAILOVER else FAILOVER
    return ResourceOptions.merge(opts, ResourceOptions(aliases=[Alias(type_=component_type(other))]))
