"""The steps of a plan: frozen records that say what to do at which member, and describe themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, SlotSet


@dataclass(frozen=True)
class AtMember:
    """What all steps have in common.

    `member` is where a step is carried out. `settles_in_s` is how long its effect may take to show: a converge doesn't
    repeat the very same step before that. `sure_in_s` is for how long it has to be called for before it is carried out.
    """

    member: Member
    settles_in_s: ClassVar[float] = 0.0
    sure_in_s: ClassVar[float] = 0.0


@dataclass(frozen=True)
class SetEpoch(AtMember):
    """Give a node that knows no other its config epoch, so that no two primaries ever have to sort out equal ones."""

    epoch: int

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: set config epoch {self.epoch}"


@dataclass(frozen=True)
class AssignSlots(AtMember):
    """Give slots that nobody owns to a primary.

    `raise_epoch` makes its claim the newest of all, so that it outweighs what is remembered of a lost owner. `lost`
    says that their former owner is gone with its data.
    """

    slots: SlotSet
    raise_epoch: bool = False
    lost: bool = False

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: assign slots {self.slots}{', whose owner is gone with its data' if self.lost else ''}"


@dataclass(frozen=True)
class DropSlots(AtMember):
    """Take slots from a node that holds no key, because another node owns them or is to own them."""

    slots: SlotSet

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: drop its empty claim to slots {self.slots}"


@dataclass(frozen=True)
class Introduce(AtMember):
    """Make two members known to each other, at the address that `to` has now."""

    to: Member
    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: meet {self.to}"


@dataclass(frozen=True)
class Remind(AtMember):
    """Have a primary tell its slots at once to a member that knows it already."""

    to: Member
    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: tell its slots to {self.to}"


@dataclass(frozen=True)
class Replicate(AtMember):
    """Make a member a replica of its shard's primary."""

    primary: Member
    primary_id: str

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: replicate {self.primary}"


@dataclass(frozen=True)
class Detach(AtMember):
    """Make a replica, whose primary lives elsewhere and keeps the data, an empty primary."""

    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: stop replicating a node of another shard"


@dataclass(frozen=True)
class Promote(AtMember):
    """Have the primaries elect a replica whose primary is gone for good, where the replica would not ask for it."""

    settles_in_s: ClassVar[float] = 6.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: ask to be elected primary, its primary is gone"


@dataclass(frozen=True)
class TakeOver(AtMember):
    """Have a replica take the slots of its lost primary without an election, which no majority is there to hold.

    What the lost primary took and this copy has not is lost, and if that primary lives on out of sight, it serves the
    same slots until it hears of the newer claim. So it is done only as a person declared, and said loudly.
    """

    settles_in_s: ClassVar[float] = 3.0

    def describe(self) -> str:
        """One line for a person."""
        return (
            f"{self.member}: TAKE OVER WITHOUT AN ELECTION, as declared under `takeover`: the majority of the "
            "primaries is gone, and with them what only they had"
        )


@dataclass(frozen=True)
class HandOver(AtMember):
    """Have a replica in sync take over from its primary, with that one's help.

    The primary stops taking writes until the replica has all of them, so that nothing acknowledged is lost. The server
    gives up by itself after 5 s.
    """

    primary: Member
    settles_in_s: ClassVar[float] = 6.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: take the primary's role over from {self.primary}"


@dataclass(frozen=True)
class Forget(AtMember):
    """Remove a node that exists no more from a member's table. `who` names it for people."""

    node_id: str
    who: str

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: forget {self.who} ({self.node_id[:8]})"


@dataclass(frozen=True)
class CloseSlot(AtMember):
    """Return an open slot to stable, where no key has moved."""

    slot: int

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: close slot {self.slot}"


@dataclass(frozen=True)
class MigrateSlots(AtMember):
    """Have a primary give slots to another by itself, while both serve; it tells later how that ended.

    `first`: the other owned no slots so far, and gets the functions first.
    """

    to: Member
    to_id: str
    slots: SlotSet
    first: bool = False

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: move {counted(self.slots)} to {self.to}"


@dataclass(frozen=True)
class MoveKeys(AtMember):
    """Open slots between two primaries, send their keys, and give them over; as far as it gets in a moment.

    What isn't done then stays open, which serves clients that follow redirections, and is gone on with. `begun` are
    those of the slots that are open already. `first` as for MigrateSlots, `pipeline` as for Migration.
    """

    member_id: str
    to: Member
    to_id: str
    slots: SlotSet
    begun: SlotSet = EMPTY
    first: bool = False
    pipeline: int = 1000

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: move slots to {self.to}, key by key"


@dataclass(frozen=True)
class Leave(AtMember):
    """Make a member that has given all it had an empty node that knows nobody, with a new id."""

    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: leave the cluster"


@dataclass(frozen=True)
class StartAnew(AtMember):
    """Give an empty member, whose id some others may have banned, a new one."""

    settles_in_s: ClassVar[float] = 1.0

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: start anew, under an id that nobody has forgotten"


def counted(slots: SlotSet) -> str:
    """Slots for people: how many, and which where that is short."""
    word = "slot" if len(slots) == 1 else "slots"
    return f"{word} {slots}" if len(slots.ranges) <= 2 else f"{len(slots)} {word} from {slots.ranges[0][0]} on"


@dataclass(frozen=True)
class SetNodeTimeout(AtMember):
    """Set the live `cluster-node-timeout`: short while an empty node waits to serve its first slots, or as declared."""

    timeout_ms: int

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: set the node timeout to {self.timeout_ms} ms"


@dataclass(frozen=True)
class Wait(AtMember):
    """Nothing to do but to look again: the servers, or Kubernetes, are at it themselves."""

    what: str

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.member}: wait until {self.what}"


Action = (
    SetEpoch
    | AssignSlots
    | DropSlots
    | Introduce
    | Remind
    | Replicate
    | Detach
    | Promote
    | TakeOver
    | HandOver
    | Forget
    | CloseSlot
    | MigrateSlots
    | MoveKeys
    | Leave
    | StartAnew
    | SetNodeTimeout
)
Step = Action | Wait

_TOGETHER: dict[type[Action], str] = {
    SetEpoch: "set the config epochs of",
    AssignSlots: "assign slots to",
    DropSlots: "drop empty claims to slots of",
    Introduce: "introduce to the others",
    Remind: "tell the others the slots of",
    Replicate: "attach to their primaries",
    Detach: "detach",
    Promote: "ask to be elected",
    TakeOver: "without an election, as declared under `takeover`, the majority being gone, TAKE OVER at",
    HandOver: "take the primaries' roles over at",
    Forget: "forget nodes that are gone at",
    CloseSlot: "close slots of",
    MigrateSlots: "move slots from",
    MoveKeys: "move slots from",
    Leave: "make leave the cluster",
    StartAnew: "start anew, under ids that nobody has forgotten,",
    SetNodeTimeout: "set the node timeouts of",
}
_MOST_LINES = 4


def describe_all(done: Iterable[Action]) -> tuple[str, ...]:
    """What was done, for people: a line a step, and one line for many steps of a kind, so that logs stay readable."""
    by_kind: dict[type[Action], list[Action]] = {}
    for step in done:
        by_kind.setdefault(type(step), []).append(step)
    lines: list[str] = []
    for kind, alike in by_kind.items():
        if len(alike) <= _MOST_LINES:
            lines += [step.describe() for step in alike]
            continue
        members = sorted({step.member for step in alike})
        more = f" and {len(members) - 8} more" if len(members) > 8 else ""
        lines.append(f"{_TOGETHER[kind]} {', '.join(map(str, members[:8]))}{more}")
    return tuple(lines)
