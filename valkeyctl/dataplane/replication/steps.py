"""The steps of a plan for one dataset: frozen records that say what to do at which member, and describe themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.steps import AtMember

HANDOVER_TIMEOUT_MS = 5000
"""After so long a primary gives up a handover that its replica doesn't catch up for, and takes writes again."""


@dataclass(frozen=True)
class Announce(AtMember):
    """Have a server tell others its name in the place of its address, which changes with its Pod."""

    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: announce its name"


@dataclass(frozen=True)
class Promote(AtMember):
    """Make a replica the primary, where there is none.

    Only after a second look: members are asked at the same time and answer one after the other, so that a role that
    changes hands meanwhile may seem to be with nobody.
    """

    settles_in_s: ClassVar[float] = 1.0
    sure_in_s: ClassVar[float] = 0.2

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: become the primary"


@dataclass(frozen=True)
class Replicate(AtMember):
    """Make a replica, or a server that holds nothing, a replica of another.

    `to` names that one's server for good: it is a DNS name wherever there are any.
    """

    primary: Member
    to: Address
    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: replicate {self.primary}"


@dataclass(frozen=True)
class Demote(AtMember):
    """Make a primary that isn't the one that stays a replica of that one. What it took by itself is dropped.

    Not at once, so that it is told before, and isn't done for what another look doesn't confirm. `own_bytes` is how
    much it took since the two parted, for people: it may grow from look to look, and the step is the same.
    """

    primary: Member
    to: Address
    own_bytes: int = field(default=0, compare=False)
    settles_in_s: ClassVar[float] = 1.0
    sure_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        told = f"{self.member}: stop being a second primary, and replicate {self.primary}"
        if not self.own_bytes:
            return told
        return f"{told}; THE {self.own_bytes:,} BYTES OF WRITES THAT IT TOOK BY ITSELF since they parted ARE DROPPED"


@dataclass(frozen=True)
class HandOver(AtMember):
    """Have the primary, `member`, hand its role over to a replica in sync.

    It takes no writes until the replica has all of them, so that nothing acknowledged is lost. `to` is the replica as
    the primary lists it.
    """

    heir: Member
    to: Address
    settles_in_s: ClassVar[float] = 1.0 + HANDOVER_TIMEOUT_MS / 1000

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: hand the primary's role over to {self.heir}"


@dataclass(frozen=True)
class AbortHandOver(AtMember):
    """Have a primary give up a handover that doesn't end, so that it takes writes again.

    One with a timeout ends before this is sure; without it, or when the replica vanished at the last moment, none does.
    """

    settles_in_s: ClassVar[float] = 1.0
    sure_in_s: ClassVar[float] = 3.0 + HANDOVER_TIMEOUT_MS / 1000

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: give up a handover that doesn't end"


Action: TypeAlias = Announce | Promote | Replicate | Demote | HandOver | AbortHandOver
