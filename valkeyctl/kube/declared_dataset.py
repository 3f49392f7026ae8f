"""The declared state of a dataset (`replica` or `failover`), in the ConfigMap that a cluster has its own in.

See `declared`: only `up` writes it, under the Lease and before it acts; agents read it before they heal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valkeyctl.dataplane.model import CLIENT_PORT, MAX_REPLICAS, Address, Member
from valkeyctl.kube.declared_text import FORMAT, KEY, read_text
from valkeyctl.kube.labels import FAILOVER, REPLICA, declared_name

if TYPE_CHECKING:
    # The agent reads what is declared before what speaks to the API server is imported (ADR 0051).
    from valkeyctl.kube.access import Api, Object

DATASETS = (REPLICA, FAILOVER)


@dataclass(frozen=True)
class DeclaredSentinels:
    """The Sentinels that watch a dataset under `name`, and how. `sentinels` are their addresses, in order of ordinals.

    Times in milliseconds.
    """

    name: str
    sentinels: tuple[Address, ...]
    quorum: int
    down_after_ms: int
    failover_timeout_ms: int
    parallel_syncs: int = 1


@dataclass(frozen=True)
class DeclaredDataset:
    """What a dataset is to be, without consent to a loss of data.

    `formed`: it was Ready before. `primary` is a person's wish which ordinal is to have the role (None: whoever has
    it). `automatic_failover_s` is the duration of the Lease by which agents fail over, None where they don't.
    `sentinels` is None unless Sentinels decide. `heal` and `paused` as for a cluster.
    """

    owner: str
    instance: str
    architecture: str
    replicas: int
    formed: bool = False
    persistent: bool = False
    port: int = CLIENT_PORT
    heal: bool = True
    paused: bool = False
    primary: int | None = None
    automatic_failover_s: int | None = None
    sentinels: DeclaredSentinels | None = None

    def __post_init__(self) -> None:
        if self.architecture not in DATASETS:
            raise ValueError(f"a dataset is {' or '.join(DATASETS)}, not {self.architecture!r}")
        if not 0 <= self.replicas <= MAX_REPLICAS:
            raise ValueError(f"replicas must be 0 to {MAX_REPLICAS}, got {self.replicas}")
        if self.primary is not None and not 0 <= self.primary <= self.replicas:
            raise ValueError(f"there is no member {Member(0, self.primary)} to be the primary")

    @property
    def may_heal(self) -> bool:
        """Whether agents may do anything about what differs from it."""
        return self.heal and not self.paused

    @property
    def members(self) -> tuple[Member, ...]:
        """Every declared member, by ordinal."""
        return tuple(Member(0, ordinal) for ordinal in range(self.replicas + 1))


def read_declared_dataset(api: Api, namespace: str, instance: str) -> DeclaredDataset | None:
    """What is declared; None where nothing is (yet, or any more). Errors: DeclaredUnreadable, those of the API."""
    from valkeyctl.kube.access import path_of  # noqa: PLC0415 - see above

    known = api.find(path_of("v1", "configmaps", namespace, declared_name(instance)))
    return None if known is None else parse_declared_dataset(known, instance)


def write_declared_dataset(api: Api, namespace: str, state: DeclaredDataset) -> None:
    """Says what is declared. Idempotent; to be called by who holds the Lease. Errors: those of the API."""
    from valkeyctl.kube.declared import put_declared  # noqa: PLC0415 - see above

    data = {KEY: render_declared_dataset(state)}
    put_declared(api, namespace, state.instance, state.owner, data, architecture=state.architecture)


def render_declared_dataset(state: DeclaredDataset) -> str:
    """The text under `declared.json`: equal states give equal texts. Pure."""
    lease_s, watched = state.automatic_failover_s, state.sentinels
    told: dict[str, Any] = {
        "format": FORMAT,
        "architecture": state.architecture,
        "replicas": state.replicas,
        "formed": state.formed,
        "persistent": state.persistent,
        "port": state.port,
        "heal": state.heal,
        "paused": state.paused,
        "primary": state.primary,
        "automaticFailover": None if lease_s is None else {"leaseDurationSeconds": lease_s},
        "sentinel": None
        if watched is None
        else {
            "name": watched.name,
            "sentinels": [{"host": at.host, "port": at.port} for at in watched.sentinels],
            "quorum": watched.quorum,
            "downAfterMs": watched.down_after_ms,
            "failoverTimeoutMs": watched.failover_timeout_ms,
            "parallelSyncs": watched.parallel_syncs,
        },
    }
    return json.dumps(told, indent=1, sort_keys=True)


def parse_declared_dataset(known: Object, instance: str) -> DeclaredDataset | None:
    """What a ConfigMap declares; None where it is still empty. Unknown keys are passed over. Pure.

    Errors: DeclaredUnreadable, also for what declares a cluster.
    """
    return read_text(known, instance, _state)


def _state(told: Mapping[str, Any], instance: str, owner: str) -> DeclaredDataset:
    failover, sentinel, primary = told.get("automaticFailover"), told.get("sentinel"), told.get("primary")
    return DeclaredDataset(
        owner=owner,
        instance=instance,
        architecture=str(told["architecture"]),
        replicas=int(told["replicas"]),
        formed=bool(told.get("formed")),
        persistent=bool(told.get("persistent")),
        port=int(told.get("port") or CLIENT_PORT),
        heal=told.get("heal") is not False,
        paused=told.get("paused") is True,
        primary=None if primary is None else int(primary),
        automatic_failover_s=None if failover is None else int(failover["leaseDurationSeconds"]),
        sentinels=None if sentinel is None else _sentinels(sentinel),
    )


def _sentinels(told: Mapping[str, Any]) -> DeclaredSentinels:
    return DeclaredSentinels(
        name=str(told["name"]),
        sentinels=tuple(Address(str(at["host"]), int(at["port"])) for at in told["sentinels"]),
        quorum=int(told["quorum"]),
        down_after_ms=int(told["downAfterMs"]),
        failover_timeout_ms=int(told["failoverTimeoutMs"]),
        parallel_syncs=int(told.get("parallelSyncs") or 1),
    )
