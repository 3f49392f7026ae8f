"""What is declared of a set of Sentinels, for one monitored name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from valkeyctl.dataplane.model import Address, Endpoint, Member

SENTINEL_PORT = 26379
DEFAULT_PRIORITY = 100
"""The servers' own default for `replica-priority`."""

# What Sentinel itself takes is wider; RESET reads its argument as a pattern, so nothing that could be one.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_ID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, order=True)
class Sentinel(Member):
    """One of the Sentinels, by its ordinal. No member of the dataset, though asked over the same kind of links."""

    def __str__(self) -> str:
        return f"sentinel-{self.ordinal}"


def sentinel(ordinal: int) -> Sentinel:
    """The Sentinel with an ordinal."""
    return Sentinel(0, ordinal)


@dataclass(frozen=True)
class Parameters:
    """How Sentinels watch and fail over: Sentinel's own settings of these names, times in milliseconds.

    `down_after_ms`: how long a server is silent until a Sentinel calls it down. `failover_timeout_ms`: how long the
    parts of a failover may take. `parallel_syncs`: how many replicas turn to a new primary at a time.
    """

    down_after_ms: int = 5_000
    failover_timeout_ms: int = 60_000
    parallel_syncs: int = 1


@dataclass(frozen=True)
class SentinelSpec:
    """The declared state of one monitored name at a set of Sentinels.

    `name` is the monitored name: unique among all that share the Sentinels and among all Sentinels that could meet.
    `servers` are the declared members of the dataset and their names. `primary` is the one of them that is the primary
    as far as the caller knows; it counts only where neither the Sentinels nor the servers say more.

    `sentinels` is how many Sentinels there are, with the ordinals from 0; `leaving` those that exist and aren't
    declared any more. `quorum` is how many of them have to call the primary down; less than a majority is refused
    unless `any_quorum`. `ids` are the fixed ids of Sentinels, by ordinal; those are verified here, and given in their
    files.

    `user` is whom the Sentinels sign in at the servers as (None: the default user); `authenticated` says that there is
    a password, which is handed over when steps are carried out and is no part of any declaration.

    `wanted` is the member that is to have the primary's role; None leaves it wherever it is. `priorities` are the
    members' declared `replica-priority` values where they aren't the default. `handover_timeout_ms` is how long a
    planned handover may keep writes waiting before the primary goes on instead.
    """

    name: str
    servers: Mapping[Member, Address] = field(hash=False)
    sentinels: int
    quorum: int
    primary: Member | None = None
    parameters: Parameters = Parameters()
    user: str | None = None
    authenticated: bool = False
    any_quorum: bool = False
    ids: Mapping[int, str] = field(default_factory=dict[int, str], hash=False)
    leaving: tuple[Sentinel, ...] = ()
    wanted: Member | None = None
    priorities: Mapping[Member, int] = field(default_factory=dict[Member, int], hash=False)
    handover_timeout_ms: int = 2_000

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} can't be a monitored name: letters, digits, '.', '_' and '-' only")
        if not self.servers:
            raise ValueError("there are no servers to monitor")
        if self.sentinels < 1:
            raise ValueError(f"there must be at least one Sentinel, got {self.sentinels}")
        if not 1 <= self.quorum <= self.sentinels:
            raise ValueError(f"the quorum must be 1 to {self.sentinels}, got {self.quorum}")
        if self.quorum < majority(self.sentinels) and not self.any_quorum:
            raise ValueError(f"the quorum must be at least {majority(self.sentinels)} of {self.sentinels} Sentinels")
        if min(self.parameters.down_after_ms, self.parameters.failover_timeout_ms, self.parameters.parallel_syncs) < 1:
            raise ValueError(f"the parameters must be at least 1 each, got {self.parameters}")
        for member in (self.primary, self.wanted, *self.priorities):
            if member is not None and member not in self.servers:
                raise ValueError(f"{member} is no declared server")
        if any(ordinal.ordinal < self.sentinels for ordinal in self.leaving):
            raise ValueError("a Sentinel can't be declared and leaving")
        if any(not _ID.fullmatch(declared) for declared in self.ids.values()):
            raise ValueError("a Sentinel's id has 40 hexadecimal digits")
        if len(set(self.ids.values())) < len(self.ids):
            raise ValueError("two Sentinels can't have the same id")

    @cached_property
    def declared(self) -> tuple[Sentinel, ...]:
        """Every declared Sentinel, by ordinal."""
        return tuple(sentinel(ordinal) for ordinal in range(self.sentinels))

    @cached_property
    def everybody(self) -> tuple[Sentinel, ...]:
        """The declared Sentinels, and those that are leaving."""
        return self.declared + self.leaving

    def priority(self, member: Member) -> int:
        """A member's declared `replica-priority`."""
        return self.priorities.get(member, DEFAULT_PRIORITY)

    def is_at(self, address: Address, member: Member, endpoint: Endpoint | None = None) -> bool:
        """Whether an address is a member's: by its declared name, or by the address that its Pod has now."""
        if self.servers[member].is_same(address):
            return True
        return endpoint is not None and Address(endpoint.address, endpoint.port).is_same(address)


def majority(count: int) -> int:
    """The smallest number that is more than half."""
    return count // 2 + 1
