"""What to do next: a pure function of what is declared and what was seen."""

from __future__ import annotations

from dataclasses import dataclass

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Spec
from valkeyctl.dataplane.plan_anew import start_anew
from valkeyctl.dataplane.plan_forget import forget_the_gone
from valkeyctl.dataplane.plan_guard import refuse_foreign
from valkeyctl.dataplane.plan_handover import hand_over
from valkeyctl.dataplane.plan_introduce import introduce_members, remind_of_slots
from valkeyctl.dataplane.plan_leave import release_members
from valkeyctl.dataplane.plan_members import await_members, await_service
from valkeyctl.dataplane.plan_moves import move_slots
from valkeyctl.dataplane.plan_open import close_open_slots
from valkeyctl.dataplane.plan_replicas import attach_replicas
from valkeyctl.dataplane.plan_slots import assign_slots, settle_claims
from valkeyctl.dataplane.plan_timeout import end_the_wait
from valkeyctl.dataplane.rounds import Blocked, Done, together
from valkeyctl.dataplane.shards import decide_shards
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.steps import Action, Step, Wait
from valkeyctl.dataplane.view import View


@dataclass(frozen=True)
class Steps:
    """What to do now. Any part of it may be carried out and the rest left: the state in between is safe.

    `blocked` is what will be left for a person when all else is done. `to_move` are the slots that have yet to be
    moved from one living shard to another.
    """

    steps: tuple[Step, ...]
    blocked: Blocked | None = None
    to_move: SlotSet = EMPTY

    @property
    def actions(self) -> tuple[Action, ...]:
        """What there is to do."""
        return tuple(step for step in self.steps if not isinstance(step, Wait))

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What there is only to wait for."""
        return tuple(step for step in self.steps if isinstance(step, Wait))

    def describe(self) -> tuple[str, ...]:
        """One line for a person per step."""
        return tuple(step.describe() for step in self.steps)


Plan = Done | Blocked | Steps


def plan(spec: Spec, view: View) -> Plan:
    """What to do next to get from what was seen to what is declared. Pure and deterministic; Done at the goal.

    Steps are those that can be taken from this view; after them the caller observes and plans again. What can't be
    decided or repaired in one shard keeps nothing from being done in the others (report C9). Blocked only when nothing
    else is left to do or to wait for.
    """
    k = Knowledge(spec, view)
    found = Findings()
    refuse_foreign(k, found)
    if found.problems:
        return together(found.problems)
    shards = decide_shards(k)
    await_members(k, found)
    settle_claims(k, shards, found)
    apart = start_anew(k, shards, found)
    assign_slots(k, shards, found, apart=apart)
    introduce_members(k, shards, found, apart=apart)
    attach_replicas(k, shards, found)
    forget_the_gone(k, shards, found)
    close_open_slots(k, shards, found)
    move_slots(k, shards, found)
    release_members(k, shards, found)
    agreed = remind_of_slots(k, shards, found)
    await_service(k, found)
    end_the_wait(k, found, settled=agreed and all(shard.primary is not None for shard in shards))
    hand_over(k, shards, found)
    blocked = together(found.problems) if found.problems else None
    if found.actions or found.waits:
        return Steps((*found.actions, *found.waits), blocked, found.to_move)
    if blocked:
        return blocked
    return Steps(tuple(found.symptoms), to_move=found.to_move) if found.symptoms else Done()
