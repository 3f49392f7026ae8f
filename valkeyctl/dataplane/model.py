"""What is declared, and where its members are: members, endpoints, the specification of one instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from valkeyctl.dataplane.errors import InvalidSlots
from valkeyctl.dataplane.slots import Layout, uncovered

MAX_SHARDS = 128
MAX_REPLICAS = 5
CLIENT_PORT = 6379
BUS_PORT = 16379


@dataclass(frozen=True, order=True)
class Member:
    """One place in an instance: the Pod `<instance>-s<shard>-<ordinal>`. Says nothing about its role (report C7)."""

    shard: int
    ordinal: int

    def __str__(self) -> str:
        return f"s{self.shard}-{self.ordinal}"


@dataclass(frozen=True)
class Endpoint:
    """Where a member is now, as Kubernetes says.

    `pod` names the Pod, `host` is the DNS name that its server announces, `address` the Pod's IP at this moment, `port`
    and `bus_port` the ports for clients and for the cluster bus.
    """

    member: Member
    pod: str
    host: str
    address: str
    port: int = CLIENT_PORT
    bus_port: int = BUS_PORT


@dataclass(frozen=True)
class Address:
    """A server by the DNS name (or IP address) and the port that somebody else knows it under. Never connected to."""

    host: str
    port: int = CLIENT_PORT

    def is_same(self, other: Address) -> bool:
        """Whether both name the same place; names don't depend on their case."""
        return self.port == other.port and self.host.rstrip(".").lower() == other.host.rstrip(".").lower()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Directory = Callable[[], Mapping[Member, Endpoint]]
"""The Pods of the instance that exist now and have an address; asked anew on every call (reports C1, C2)."""


@dataclass(frozen=True)
class Migration:
    """How slots are moved from shard to shard.

    `max_parallel` shards give slots away at a time. `method`: "atomic" lets the servers do it (Valkey 9.0 and newer),
    "keys" sends keys in batches, "auto" takes the first where both servers can. `pipeline` is how many keys such a
    batch has at most; it has fewer where they are large.
    """

    max_parallel: int = 16
    method: Literal["auto", "atomic", "keys"] = "auto"
    pipeline: int = 1000


@dataclass(frozen=True)
class Spec:
    """The declared state of one instance.

    `shards` times (1 + `replicas`) members; `layout` gives each shard its slots.

    `explicit` says that a person declared the layout, so that it has to be met to the slot. Otherwise it is a proposal
    for slots that nobody owns yet, and any assignment of all slots within one of equal that is found is kept.

    `formed` says that the instance has been Ready before: slots whose every copy is gone may then have held data.
    `accept_data_loss` is a person's consent to give such slots to empty nodes.

    `node_timeout_ms` is the `cluster-node-timeout` that the servers are configured with. When it is known, a new
    cluster serves at once, where it otherwise waits for that time (at most 5 s), and a timeout that was changed live is
    set back. None leaves it alone.

    `persistent` says that the members have volumes: empty disks on every one of them are then no fresh start but a
    loss, where without volumes it is what is left when all Pods have gone.

    `takeover_after_s` is a person's consent, given beforehand, to what is left when a majority of the primaries is gone
    for good, or has been silent for so many seconds: the best copy of each lost shard takes over without an election.
    Whoever is silent may be alive elsewhere and serve; what it took since is lost then. None: never.

    `primaries` gives, by shard, the ordinal of the member that is to have the primary's role: it is moved there as soon
    as that member is in sync. Shards that it doesn't name keep theirs wherever it is.

    `leaving` are members that exist and aren't declared any more. What slots their shards own goes to the declared
    shards; then they are forgotten, and empty nodes that know nobody.

    `may_move` is a person's consent to move slots between shards that are alive: who has it has seen where to. Without
    it only moves that were begun are brought to an end. `migration` says how it is done.
    """

    instance: str
    shards: int
    replicas: int
    layout: Layout
    explicit: bool = False
    formed: bool = False
    accept_data_loss: bool = False
    node_timeout_ms: int | None = None
    persistent: bool = False
    takeover_after_s: float | None = None
    primaries: Mapping[int, int] = field(default_factory=dict[int, int], hash=False)
    leaving: tuple[Member, ...] = ()
    may_move: bool = True
    migration: Migration = Migration()

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= MAX_SHARDS:
            raise ValueError(f"shards must be 1 to {MAX_SHARDS}, got {self.shards}")
        if not 0 <= self.replicas <= MAX_REPLICAS:
            raise ValueError(f"replicas must be 0 to {MAX_REPLICAS}, got {self.replicas}")
        for shard, ordinal in self.primaries.items():
            if not (0 <= shard < self.shards and 0 <= ordinal <= self.replicas):
                raise ValueError(f"there is no member {Member(shard, ordinal)} to be a primary")
        if len(self.layout) != self.shards:
            raise InvalidSlots(f"the layout has {len(self.layout)} shards where {self.shards} are declared")
        problem = uncovered(self.layout)
        if problem:
            raise InvalidSlots(problem)

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """Every declared member, by shard and ordinal."""
        return tuple(Member(s, o) for s in range(self.shards) for o in range(self.replicas + 1))

    @cached_property
    def everybody(self) -> tuple[Member, ...]:
        """The declared members, and those that are leaving."""
        return self.members + self.leaving

    @cached_property
    def leaving_shards(self) -> tuple[int, ...]:
        """The shards that are leaving, by number."""
        return tuple(sorted({member.shard for member in self.leaving} - set(range(self.shards))))

    @cached_property
    def span(self) -> int:
        """How many shards there are, counted up to the last one that is leaving; some in between may have gone."""
        return max((self.shards, *(shard + 1 for shard in self.leaving_shards)))

    def shard_members(self, shard: int) -> tuple[Member, ...]:
        """The declared members of one shard, by ordinal; of a shard that is leaving, those that exist."""
        if shard >= self.shards:
            return tuple(member for member in self.leaving if member.shard == shard)
        return tuple(Member(shard, o) for o in range(self.replicas + 1))


def pod_name(instance: str, member: Member) -> str:
    """The name of a member's Pod: `<instance>-s<shard>-<ordinal>`."""
    return f"{instance}-{member}"


def member_of_host(instance: str, host: str) -> Member | None:
    """The member whose Pod announces `host` as its DNS name; None when the name isn't one of this instance's Pods.

    Only the first label is looked at; whether the rest fits is the caller's to judge. The member found may be one that
    isn't declared (any more).
    """
    match = re.fullmatch(rf"{re.escape(instance)}-s(\d+)-(\d+)", host.split(".", 1)[0])
    return Member(int(match[1]), int(match[2])) if match else None
