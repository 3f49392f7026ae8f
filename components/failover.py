"""A primary with its replicas, that Sentinels fail over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import ResourceOptions

from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT
from valkeyctl.dataplane.sentinel.rights import OPERATOR_KEY, SENTINEL
from valkeyctl.kube.labels import FAILOVER, monitored_name, sentinel_host
from valkeyctl.lifecycle import Prepare

from .args import Persistence
from .dataset import ValkeyDataset
from .dataset_args import FailoverArgs
from .names import SentinelNames, sentinel_name_problem
from .sentinel import OfInstance, ValkeySentinel, operator_of, sentinel_objects
from .sentinel_args import SentinelArgs
from .sentinel_files import sentinel_id
from .sentinel_pod import SECRETS_DIR

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import VolumeArgsDict, VolumeMountArgsDict

_VOLUME = "sentinel"
#: What a Sentinel remembers is a few kilobytes.
STATE_SIZE = "64Mi"
#: Of a set there are always so many. Pods are told of these alone, so that none is replaced when there are more or
#: fewer; the rest is declared to the agents.
ALWAYS_THERE = 3


class ValkeyFailover(ValkeyDataset):
    """One dataset with `args.replicas` replicas, and the Sentinels that watch it unless `args.sentinel` refers to some.

    `name` is the instance's. Its objects in Kubernetes are called `<name>-…`, so it is a DNS label of at most 43
    characters (47 where it refers to Sentinels of others). Clients write through the Service `<name>-rw` and read
    through `<name>-ro`, or ask the Sentinels at `<name>-sentinel` for `<namespace>.<name>`.
    """

    def __init__(self, name: str, args: FailoverArgs | None = None, opts: ResourceOptions | None = None) -> None:
        """Raises pulumi.RunError when `name` can't name an instance."""
        self._failover = args or FailoverArgs()
        settings = self._failover.sentinel
        if settings.reference is None and (problem := sentinel_name_problem(name)):
            raise pulumi.RunError(f"instance {name}: {problem}")
        self._watching = SentinelNames(settings.owner_of(name))
        super().__init__(FAILOVER, name, self._failover, opts)

    @property
    def summary(self) -> Mapping[str, pulumi.Output[Any]]:
        """All outputs under the names that a stack exports. No password is among them, only where it is."""
        return {**super().summary, "sentinelSecretName": pulumi.Output.from_input(self._watching.everything)}

    def _sentinel(self) -> Mapping[str, Any]:
        settings, name, namespace = self._failover.sentinel, self._instance, self._failover.namespace
        members = range(settings.members)
        return {
            "name": _there(namespace, partial(monitored_name, name)),
            "set": self._watching.everything,
            "namespace": None,
            "hosts": [_there(namespace, partial(self._address, ordinal)) for ordinal in members],
            "replicas": settings.members,
            "quorum": settings.votes,
            "any_quorum": settings.allow_small_quorum,
            "down_after_ms": settings.down_after_ms,
            "failover_timeout_ms": settings.failover_timeout_ms,
            "parallel_syncs": settings.parallel_syncs,
            "port": SENTINEL_PORT,
            "ids": {
                str(n): _there(namespace, partial(sentinel_id, f"{self._watching.everything}-{n}")) for n in members
            },
            "credentials": operator_of(self._watching),
            "monitor_as": {**operator_of(self._watching), "user": SENTINEL},
            "own": settings.reference is None,
        }

    def _address(self, ordinal: int, namespace: str) -> str:
        return f"{sentinel_host(self._watching.name, namespace, ordinal)}:{SENTINEL_PORT}"

    def _watchers(self, prepare: Prepare) -> ValkeySentinel | None:
        if self._failover.sentinel.reference is not None:
            return None
        return ValkeySentinel(
            self._instance,
            self._sentinel_args(),
            ResourceOptions(parent=self),
            of=OfInstance(prepare, self._access, self._failover.paused),
        )

    def _sentinel_args(self) -> SentinelArgs:
        """Sentinels of the servers' version, on volumes where the servers are."""
        args, own = self._failover, self._failover.sentinel
        return SentinelArgs(
            replicas=own.replicas,
            image=own.image or args.server_image,
            resources=own.resources,
            persistence=self._sentinel_persistence(),
            namespace=args.namespace,
            connection=args.connection,
        )

    def _sentinel_persistence(self) -> Persistence | None:
        """What is said, and where nothing is, small volumes like those of the servers."""
        own, data = self._failover.sentinel, self._failover.persistence
        if "persistence" in own.model_fields_set or data is None:
            return own.persistence
        return data.model_copy(update={"size": STATE_SIZE})

    def _environment(self) -> Mapping[str, str]:
        hosts = (self._address(ordinal, "$(POD_NAMESPACE)") for ordinal in range(ALWAYS_THERE))
        return {
            **super()._environment(),
            "VALKEY_SENTINELS": ",".join(hosts),
            "VALKEY_SENTINEL_NAME": monitored_name(self._instance, "$(POD_NAMESPACE)"),
        }

    def _volumes(self) -> Sequence[VolumeArgsDict]:
        return [
            {
                "name": _VOLUME,
                "secret": {
                    "secret_name": self._watching.everything,
                    "items": [{"key": OPERATOR_KEY, "path": "password"}],
                    "default_mode": 0o440,
                },
            }
        ]

    def _agent_mounts(self) -> Sequence[VolumeMountArgsDict]:
        return [{"name": _VOLUME, "mount_path": SECRETS_DIR, "read_only": True}]

    def _objects(self) -> list[tuple[str, str, str]]:
        if self._failover.sentinel.reference is not None:
            return super()._objects()
        persistent = self._sentinel_persistence() is not None
        own = sentinel_objects(self._watching, self._failover.sentinel.replicas, persistent=persistent)
        return [*super()._objects(), *own]


def _there(namespace: pulumi.Input[str], say: Callable[[str], str]) -> pulumi.Input[str]:
    """What follows from the namespace: at once where it is known, so that a preview shows it."""
    return say(namespace) if isinstance(namespace, str) else pulumi.Output.from_input(namespace).apply(say)
