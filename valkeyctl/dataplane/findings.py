"""What the rules of a plan found, collected."""

from __future__ import annotations

from dataclasses import dataclass, field

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.shards import Problem
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.steps import Action, Wait


@dataclass
class Findings:
    """Filled by one rule after the other, in the order of the plan.

    `steps` can be taken now. `waits` are for what comes about by itself. `symptoms` go away when all else is right, so
    they keep nobody waiting who is blocked. `problems` are for a person. `to_move` are the slots that are with
    another living shard than they are to be.
    """

    steps: list[Action] = field(default_factory=list[Action])
    waits: list[Wait] = field(default_factory=list[Wait])
    symptoms: list[Wait] = field(default_factory=list[Wait])
    problems: list[Problem] = field(default_factory=list[Problem])
    to_move: SlotSet = EMPTY

    def do(self, step: Action) -> None:
        """A step that can be taken now."""
        self.steps.append(step)

    def wait(self, member: Member, what: str) -> None:
        """Something that comes about by itself."""
        self.waits.append(Wait(member, what))

    def symptom(self, member: Member, what: str) -> None:
        """Something that goes away when all else is right."""
        self.symptoms.append(Wait(member, what))

    def refuse(self, reason: str, remedy: str, *members: Member) -> None:
        """Something for a person."""
        self.problems.append(Problem(reason, remedy, members))
