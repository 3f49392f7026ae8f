"""The steps of a plan for Sentinels: frozen records that say what to do where, and describe themselves.

No step holds a password: whoever carries it out has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.sentinel.model import Parameters
from valkeyctl.dataplane.steps import AtMember


@dataclass(frozen=True)
class Monitor(AtMember):
    """Have a Sentinel that doesn't know the name monitor the primary, with all its parameters."""

    name: str
    address: Address
    quorum: int
    parameters: Parameters
    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: monitor {self.name} at {self.address}"


@dataclass(frozen=True)
class MonitorAnew(Monitor):
    """The same at a Sentinel that monitors another server under the name, and has forgotten that by then.

    Only after what the Sentinels tell each other every 2 s hasn't mended it.
    """

    sure_in_s: ClassVar[float] = 6.0
    settles_in_s: ClassVar[float] = 3.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: monitor {self.name} anew, at {self.address}"


@dataclass(frozen=True)
class Remove(AtMember):
    """Have a Sentinel that is leaving no longer monitor the name."""

    name: str

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: stop monitoring {self.name}"


@dataclass(frozen=True)
class Drop(Remove):
    """The same at a Sentinel that monitors a server which isn't ours and would tell that to the others."""

    sure_in_s: ClassVar[float] = 6.0


@dataclass(frozen=True)
class SetParameters(AtMember):
    """Set the parameters that differ."""

    name: str
    parameters: Parameters

    def describe(self) -> str:
        """One line for a person."""
        p = self.parameters
        return (
            f"{self.member}: set down-after {p.down_after_ms} ms, failover-timeout {p.failover_timeout_ms} ms, "
            f"parallel-syncs {p.parallel_syncs}"
        )


@dataclass(frozen=True)
class SetQuorum(AtMember):
    """Set how many Sentinels have to call the primary down."""

    name: str
    quorum: int

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: set the quorum to {self.quorum}"


@dataclass(frozen=True)
class SetAuth(AtMember):
    """Tell a Sentinel that can't reach a living primary again with what to sign in there."""

    name: str
    user: str | None
    sure_in_s: ClassVar[float] = 2.0
    settles_in_s: ClassVar[float] = 5.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: set with what it signs in to the servers{f' as {self.user}' if self.user else ''}"


@dataclass(frozen=True)
class Reset(AtMember):
    """Have a Sentinel forget all replicas and Sentinels and find the living ones anew. `stale` names who goes."""

    name: str
    stale: tuple[str, ...]
    settles_in_s: ClassVar[float] = 15.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: reset, to forget {', '.join(self.stale)}"


@dataclass(frozen=True)
class SetPriority(AtMember):
    """Set a server's `replica-priority`: for the moment of a handover, or back to what is declared."""

    priority: int
    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: set replica-priority {self.priority}"


@dataclass(frozen=True)
class Follow(AtMember):
    """Have a Sentinel promote, in its own books, the replica that is the primary already."""

    name: str
    to: Member
    settles_in_s: ClassVar[float] = 5.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: fail {self.name} over to {self.to}, which is the primary already"


@dataclass(frozen=True)
class Coordinate(AtMember):
    """Have a Sentinel of 9.0 or newer hand the role over, together with the servers."""

    name: str
    primary: Member
    to: Member
    settles_in_s: ClassVar[float] = 3.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: hand {self.name} over from {self.primary} to {self.to}, coordinated"


@dataclass(frozen=True)
class HandOver(AtMember):
    """The same with a Sentinel that can't: the servers hand over between them, then the Sentinel follows.

    `member` is the primary, which holds writes back for at most `timeout_ms` until the replica has all. `target` is how
    the primary names that replica.
    """

    name: str
    to: Member
    target: Address
    sentinel: Member
    timeout_ms: int
    settles_in_s: ClassVar[float] = 3.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: hand {self.name} over to {self.to}; {self.sentinel} follows"


Action = (
    Monitor
    | MonitorAnew
    | Remove
    | Drop
    | SetParameters
    | SetQuorum
    | SetAuth
    | Reset
    | SetPriority
    | Follow
    | Coordinate
    | HandOver
)
