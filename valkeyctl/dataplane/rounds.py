"""What a plan says, whatever it is about: all is done, a person is needed, or one round of steps to take now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeAlias, TypeVar

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.steps import Wait


class Planned(Protocol):
    """A step of any kind: a frozen record that knows where it is carried out and describes itself.

    `steps.AtMember` has all but the description, and says what the two times mean.
    """

    settles_in_s: ClassVar[float]
    sure_in_s: ClassVar[float]

    @property
    def member(self) -> Member:
        """Where it is carried out."""
        ...

    def describe(self) -> str:
        """One line for a person."""
        ...

    def __hash__(self) -> int: ...


StepT = TypeVar("StepT", bound=Planned)


@dataclass(frozen=True)
class Done:
    """The declared state is reached, on every node."""


@dataclass(frozen=True)
class Blocked:
    """Nothing is left that may be done: `reason` says why in a sentence, `remedy` what a person can do."""

    reason: str
    remedy: str
    members: tuple[Member, ...] = ()


@dataclass(frozen=True)
class Round(Generic[StepT]):
    """What to do now, and what to wait for. Any part of it may be carried out and the rest left: that is safe.

    `blocked` is what will be left for a person when all else is done.
    """

    actions: tuple[StepT, ...]
    waits: tuple[Wait, ...] = ()
    blocked: Blocked | None = None

    def describe(self) -> tuple[str, ...]:
        """One line for a person per step."""
        return tuple(step.describe() for step in (*self.actions, *self.waits))


Plan: TypeAlias = Done | Blocked | Round[StepT]


@dataclass
class Gathered(Generic[StepT]):
    """What the rules of a plan found, filled by one rule after the other.

    `actions` can be taken now. `waits` are for what comes about by itself. `symptoms` go away when all else is right,
    so they keep nobody waiting who is blocked. `problems` are for a person.
    """

    actions: list[StepT] = field(default_factory=list[StepT])
    waits: list[Wait] = field(default_factory=list[Wait])
    symptoms: list[Wait] = field(default_factory=list[Wait])
    problems: list[Blocked] = field(default_factory=list[Blocked])

    def do(self, step: StepT) -> None:
        """A step that can be taken now."""
        self.actions.append(step)

    def wait(self, member: Member, what: str) -> None:
        """Something that comes about by itself."""
        self.waits.append(Wait(member, what))

    def symptom(self, member: Member, what: str) -> None:
        """Something that goes away when all else is right."""
        self.symptoms.append(Wait(member, what))

    def refuse(self, reason: str, remedy: str, *members: Member) -> None:
        """Something for a person."""
        self.problems.append(Blocked(reason, remedy, members))

    def plan(self) -> Plan[StepT]:
        """What follows from all that was found: Blocked only when nothing else is left to do or to wait for."""
        blocked = together(self.problems) if self.problems else None
        if self.actions or self.waits:
            return Round(tuple(self.actions), tuple(self.waits), blocked)
        if blocked:
            return blocked
        return Round((), tuple(self.symptoms)) if self.symptoms else Done()


def together(problems: Iterable[Blocked]) -> Blocked:
    """Several problems as one, each reason, remedy and member once."""
    distinct = list(dict.fromkeys(problems))
    members = sorted({member for problem in distinct for member in problem.members})
    remedies = dict.fromkeys(problem.remedy for problem in distinct if problem.remedy)
    return Blocked("; ".join(problem.reason for problem in distinct), " ".join(remedies), tuple(members))
