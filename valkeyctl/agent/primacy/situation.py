"""All that an arbiter goes by when it decides, and all that it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from valkeyctl.agent.primacy.choice import EndpointOf, address_of
from valkeyctl.agent.primacy.timing import SOFT_S, Timing
from valkeyctl.agent.primacy.word import Word
from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.primary_lease import PrimaryLease, Seat


@dataclass(frozen=True)
class Seen:
    """The Lease as it was read last; this very version of it was seen first at `since`."""

    lease: PrimaryLease
    since: float


@dataclass(frozen=True)
class Situation:
    """All times are of `boot_time`, in seconds.

    `own` is this member's own word, from a look at its server that isn't old. `until` is the end of the time in which
    that may take writes, None where it may not. `renewed_at` is when the last renewal that went well was sent, and
    `tried_at` when the last request to the API server was. `busy` says that such a request is under way.

    `handed_since` is when the Lease was first seen to name this seat while its former holder may still take writes.

    `words` are those of the other members that were asked just now; None where nobody was asked yet. `in_sync` are the
    replicas that the own server had in sync when it was last seen to be the primary.

    `candidates` are all that may take over from this seat while it holds the Lease.

    `stands_still`: it is declared that agents don't fail over (any more); this one is there until its Pod is replaced.

    `leave` says that the own server is about to be stopped and the role is to be handed over. `not_again_before` keeps
    a handover that failed from being tried again at once.
    """

    now: float
    me: Seat
    timing: Timing
    endpoint_of: EndpointOf
    spec: ReplicationSpec | None
    own: Word
    stands_still: bool = False
    seen: Seen | None = None
    until: float | None = None
    renewed_at: float = float("-inf")
    tried_at: float = float("-inf")
    sought_at: float = float("-inf")
    handed_since: float | None = None
    busy: bool = False
    words: Mapping[Member, Word] | None = None
    in_sync: frozenset[Member] = field(default_factory=frozenset[Member])
    candidates: frozenset[Member] = field(default_factory=frozenset[Member])
    promised_until: float = 0.0
    leave: bool = False
    not_again_before: float = float("-inf")

    @property
    def lease(self) -> PrimaryLease | None:
        return self.seen.lease if self.seen else None

    @property
    def holds(self) -> bool:
        """Whether the Lease names this seat, or this member where `up` appointed it."""
        return self.lease is not None and self.lease.holder in (self.me, Seat(self.me.member))

    @property
    def others(self) -> frozenset[Member]:
        """Who has to promise not to take over."""
        return self.candidates - {self.me.member}

    @property
    def members(self) -> frozenset[Member]:
        """Whom to ask: the declared ones, and those that may take over."""
        declared = frozenset(self.spec.everybody) if self.spec else frozenset[Member]()
        return (declared | self.others) - {self.me.member}

    @property
    def age_s(self) -> float:
        """For how long the Lease has been seen unchanged."""
        return self.now - self.seen.since if self.seen is not None else 0.0

    @property
    def expired(self) -> bool:
        """Whether the Lease has run out by the own clock, with some time to spare."""
        return self.age_s >= self.timing.take_s

    @property
    def left_s(self) -> float:
        """For how long the own server may take writes, before it is stopped."""
        return 0.0 if self.until is None else self.until - SOFT_S - self.now

    def is_due(self, every_s: float) -> bool:
        """Whether a request to the API server may be sent, the last one being so long ago."""
        return not self.busy and self.now - self.tried_at >= every_s

    @cached_property
    def upstream(self) -> Member | None:
        """Which member the own server is told to follow; None for a primary, and for nobody of ours."""
        return self.member_at(address_of(self.own))

    def member_at(self, at: Address | None) -> Member | None:
        """The member that servers know under a name or an address."""
        if at is None:
            return None
        for member in self.members | {self.me.member}:
            endpoint = self.endpoint_of(member)
            if at.host in (endpoint.host, endpoint.address) and at.port == endpoint.port:
                return member
        return None


@dataclass(frozen=True)
class Idle:
    """There is nothing to do, or nothing that may be done; `why` for people, "" where all is as it should be."""

    why: str = ""


@dataclass(frozen=True)
class Ask:
    """Ask all other members' agents, and decide again."""


@dataclass(frozen=True)
class Hold:
    """Write the Lease with this seat as its holder: to renew it, to take it, or to take it back.

    `after` is the former holder while that may still take writes: then the own server isn't promoted by its agent.
    """

    why: str = ""
    after: Seat | None = None


@dataclass(frozen=True)
class Give:
    """Write the Lease with another holder.

    With `yielding` the own server is the primary still, until it has handed over. Without it the own server takes no
    writes, and won't before the Lease is held again.
    """

    to: Seat
    yielding: bool
    why: str


@dataclass(frozen=True)
class SeekPromises:
    """Ask all who may take over to promise that they don't, since the Lease can't be renewed."""


@dataclass(frozen=True)
class Promote:
    """Make the own server the primary."""

    why: str


@dataclass(frozen=True)
class StopWrites:
    """Have the own server take no more writes, and follow a member (None: nobody)."""

    to: Member | None
    why: str


@dataclass(frozen=True)
class Follow:
    """Have the own server, a replica, follow a member."""

    to: Member


@dataclass(frozen=True)
class Expect:
    """The own server was made the primary by the holder's: let it take writes for a moment, until the Lease follows."""

    until: float


@dataclass(frozen=True)
class HandOver:
    """Have the own server hand its role over to the one of the holder, which is ready for it."""

    to: Member


Action: TypeAlias = Idle | Ask | Hold | Give | SeekPromises | Promote | StopWrites | Follow | Expect | HandOver
