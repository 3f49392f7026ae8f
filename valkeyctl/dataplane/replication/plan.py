"""What to do next for one dataset: a pure function of what is declared and what was seen."""

from __future__ import annotations

from collections.abc import Collection

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.knowledge import NEEDS_A_PERSON, Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan_attach import announce_names, attach_replicas, make_a_primary
from valkeyctl.dataplane.replication.plan_guard import refuse_foreign
from valkeyctl.dataplane.replication.plan_handover import await_handover, hand_over
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Gathered, Plan
from valkeyctl.dataplane.view import Absent


def plan(spec: ReplicationSpec, view: ReplicationView) -> Plan[Action]:
    """What to do next to get from what was seen to what is declared. Pure and deterministic; Done at the goal.

    Steps are those that can be taken from this view; after them the caller observes and plans again. A round promotes
    at most one server, and only where no server that answers is the primary and none that doesn't may be; whoever is to
    follow it is told so in a later round, when it is seen to be the primary. Blocked only when nothing else is left to
    do or to wait for.
    """
    k = Knowledge(spec, view)
    found = Gathered[Action]()
    refuse_foreign(k, found)
    if found.problems:
        return found.plan()
    if await_handover(k, found):
        _await_members(k, (), found)
        return found.plan()
    choice = decide_primary(k)
    _await_members(k, {member for member, _ in choice.waits}, found)
    announce_names(k, found)
    if choice.primary is None:
        make_a_primary(k, choice, found)
    else:
        attach_replicas(k, choice.primary, found)
        hand_over(k, choice.primary, found)
    return found.plan()


def _await_members(k: Knowledge, but: Collection[Member], found: Gathered[Action]) -> None:
    """Wait for the declared members that didn't answer, `but` for those that are waited for anyway."""
    for member, outcome in k.view.missing.items():
        if member in but or member in k.spec.leaving:
            continue
        if isinstance(outcome, Absent):
            found.wait(member, "it has a running Pod")
        elif outcome.why in NEEDS_A_PERSON:
            found.refuse(outcome.detail, "", member)
        else:
            found.wait(member, f"it answers ({outcome.detail})")
