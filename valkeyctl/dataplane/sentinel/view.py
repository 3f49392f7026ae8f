"""What was seen: one record per declared Sentinel and per declared server, as each told it itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from valkeyctl.dataplane.model import Address, Endpoint, Member
from valkeyctl.dataplane.sentinel.model import Parameters, Sentinel
from valkeyctl.dataplane.view import Absent, ReplicaLink, Role, Unreachable

SILENT_MS = 2_500


@dataclass(frozen=True)
class Monitored:
    """What a Sentinel monitors under the name.

    `down`: it, or with the others (`agreed_down`), calls the primary down. `linked`: its links to the primary stand,
    though they may be new and refused in a moment. `answered_ms` ago the primary last answered well to its ping, which
    it sends every second.
    `failing_over` means that it leads a failover now, whose state it calls `failover_state` ("" otherwise).
    `config_epoch` tells which of two Sentinels with different primaries knows the newer one.
    """

    address: Address
    quorum: int
    config_epoch: int
    parameters: Parameters
    down: bool = False
    agreed_down: bool = False
    linked: bool = True
    answered_ms: int = 0
    failing_over: bool = False
    failover_state: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether the Sentinel reaches the primary, and is let in there."""
        return self.linked and not self.down and self.answered_ms <= SILENT_MS

    @property
    def is_calm(self) -> bool:
        """Whether the Sentinel sees nothing wrong with the primary."""
        return self.is_reached and not (self.agreed_down or self.failing_over)


@dataclass(frozen=True)
class KnownReplica:
    """A replica as a Sentinel knows it, from what it told it up to 10 s ago. Ages and times in milliseconds.

    `down`: it doesn't answer that Sentinel, `linked`: the links to it stand. `link_down_ms` is for how long it has had
    no link to its primary (0: it has one).
    """

    address: Address
    run_id: str
    priority: int
    offset: int
    down: bool = False
    linked: bool = True
    answered_ms: int = 0
    told_ms: int = 0
    link_down_ms: int = 0


@dataclass(frozen=True)
class KnownSentinel:
    """Another Sentinel as one knows it. `heard_ms` since it was last heard to say what it monitors, in milliseconds.

    `linked`: the link to it stands, so that it can be asked for its vote; it comes some time after it is known.
    """

    sentinel_id: str
    address: Address
    down: bool = False
    linked: bool = True
    heard_ms: int = 0


@dataclass(frozen=True)
class SentinelView:
    """One Sentinel, told by itself: `monitored` is None when it doesn't know the name.

    `reaches_quorum` is its answer to `SENTINEL CKQUORUM`, `quorum_told` its words. `in_tilt`: its clock or its process
    stood still, and it doesn't act for half a minute.
    """

    endpoint: Endpoint
    sentinel_id: str
    version: str
    monitored: Monitored | None = None
    replicas: tuple[KnownReplica, ...] = ()
    others: tuple[KnownSentinel, ...] = ()
    reaches_quorum: bool = False
    quorum_told: str = ""
    in_tilt: bool = False

    @property
    def member(self) -> Member:
        """Which Sentinel it is."""
        return self.endpoint.member

    @property
    def coordinates(self) -> bool:
        """Whether its `SENTINEL FAILOVER … COORDINATED` can be used: since 9.0; in 9.1.0 it crashed the Sentinel."""
        return int(self.version.partition(".")[0] or 0) >= 9 and self.version != "9.1.0"


@dataclass(frozen=True)
class ServerView:
    """One server of the dataset, told by itself.

    `primary` and `link` are a replica's, `followers` are the replicas that a primary counts, by the addresses that they
    gave it. `failing_over`: it is handing its role over at this moment. `priority` is its live `replica-priority`.
    """

    endpoint: Endpoint
    role: Role
    version: str
    offset: int
    priority: int
    primary: Address | None = None
    link: ReplicaLink | None = None
    followers: tuple[Address, ...] = ()
    failing_over: bool = False

    @property
    def member(self) -> Member:
        """The place in the dataset that this server has."""
        return self.endpoint.member


SentinelOutcome = SentinelView | Unreachable | Absent
ServerOutcome = ServerView | Unreachable | Absent


@dataclass(frozen=True)
class SentinelsView:
    """One observation: an outcome for every Sentinel, declared or leaving, and for every declared server."""

    outcomes: Mapping[Member, SentinelOutcome]
    servers: Mapping[Member, ServerOutcome]

    @cached_property
    def sentinels(self) -> Mapping[Sentinel, SentinelView]:
        """The Sentinels that answered."""
        return {
            member: outcome
            for member, outcome in self.outcomes.items()
            if isinstance(member, Sentinel) and isinstance(outcome, SentinelView)
        }

    @cached_property
    def nodes(self) -> Mapping[Member, ServerView]:
        """The servers that answered."""
        return {member: outcome for member, outcome in self.servers.items() if isinstance(outcome, ServerView)}
