"""What to do next: a pure function of what is declared and what was seen."""

from __future__ import annotations

from dataclasses import dataclass

from valkeyctl.dataplane.model import Member, Spec
from valkeyctl.dataplane.steps import Step
from valkeyctl.dataplane.view import View


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
class Steps:
    """What to do now. Any part of it may be carried out and the rest left: the state in between is safe."""

    steps: tuple[Step, ...]

    def describe(self) -> tuple[str, ...]:
        """One line for a person per step."""
        return tuple(step.describe() for step in self.steps)


Plan = Done | Blocked | Steps


def plan(spec: Spec, view: View) -> Plan:
    """What to do next to get from what was seen to what is declared. Pure and deterministic; Done at the goal.

    Steps are those that can be taken from this view; after them the caller observes and plans again. Blocked only when
    nothing else is left to do or to wait for.
    """
    raise NotImplementedError
