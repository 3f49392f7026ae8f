"""Members that some have forgotten don't come back under the same id; slots that change hands aren't free."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.dataplane.test_moves import formed, target
from tests.unit.dataplane.test_properties import finish
from tests.unit.dataplane.views import change
from tests.unit.dataplane.world import World
from valkeyctl.dataplane import Done, Member, SlotSet, Spec, Steps, plan, planned_layout
from valkeyctl.dataplane.steps import AssignSlots, DropSlots, Forget, Introduce, MigrateSlots, StartAnew
from valkeyctl.dataplane.view import Job, JobState, View

FOUR = Spec("t", 4, 0, planned_layout(4, None), formed=True)
LEAVING = Member(3, 0)


def forgotten_by_one() -> World:
    """A scale in that was stopped after the first of the others has forgotten who leaves."""
    world = formed(FOUR)
    world.become(target(3, 0, FOUR.layout))
    while True:
        what = plan(world.spec, world.view())
        assert isinstance(what, Steps)
        for step in what.actions:
            world.take(step)
            if isinstance(step, Forget):
                return world
        world.settle()


def test_a_reverted_scale_in_begins_with_a_new_id() -> None:
    world = forgotten_by_one()
    before = world.at(LEAVING).node_id
    world.become(FOUR)
    what = plan(world.spec, world.view())
    assert isinstance(what, Steps)
    assert StartAnew(LEAVING) in what.actions
    assert not [step for step in what.actions if isinstance(step, Introduce) and LEAVING in (step.member, step.to)]
    assert finish(world) == Done()
    assert world.at(LEAVING).node_id != before
    world.check_served()


def test_slots_that_change_hands_while_all_are_asked_are_nobody_elses() -> None:
    world = formed(FOUR)
    world.become(target(3, 0, FOUR.layout))
    what = plan(world.spec, world.view())
    assert isinstance(what, Steps)
    moves = [step for step in what.actions if isinstance(step, MigrateSlots)]
    for step in moves:
        world.take(step)
    early = world.view()
    world.settle()
    late = world.view()
    taker = moves[0].to
    torn = View({**late.outcomes, taker: replace(early.nodes[taker])})
    what = plan(world.spec, torn)
    assert isinstance(what, Steps)
    assert not [step for step in what.actions if isinstance(step, AssignSlots | DropSlots)]


def test_slots_that_came_back_long_ago_arent_on_their_way() -> None:
    """Servers remember ended moves: one that was undone since must not keep slots from whom lost them later."""
    world = formed(FOUR)
    owner, other = Member(0, 0), Member(1, 0)
    gone = SlotSet.span(0, 9)
    world.at(owner).slots -= gone
    there = Job("1", gives=True, other_id=world.at(other).node_id, slots=gone, state=JobState.DONE)
    back = Job("2", gives=False, other_id=world.at(other).node_id, slots=gone, state=JobState.DONE)
    view = change(world.view(), owner, jobs=(back, there))
    there_there = replace(there, gives=False, other_id=world.at(owner).node_id)
    view = change(view, other, jobs=(replace(back, gives=True, other_id=world.at(owner).node_id), there_there))
    what = plan(world.spec, view)
    assert isinstance(what, Steps)
    assert [step.slots for step in what.actions if isinstance(step, AssignSlots)] == [gone]


def test_who_is_being_introduced_isnt_let_go_before_that_has_ended() -> None:
    """A scale-out that was killed while members met, and reverted: MEET goes on, whatever is forgotten meanwhile."""
    world = formed(FOUR)
    world.become(target(3, 0, FOUR.layout))
    while world.at(LEAVING).slots:
        what = plan(world.spec, world.view())
        assert isinstance(what, Steps)
        for step in what.actions:
            world.take(step)
        world.settle()
    view = world.view()
    what = plan(world.spec, view)
    assert isinstance(what, Steps)
    assert [step for step in what.actions if isinstance(step, Forget)]
    one = Member(1, 0)
    met = replace(next(iter(view.nodes[one].peers.values())), node_id="f" * 40, handshake=True)
    there = view.nodes[LEAVING].endpoint
    met = replace(met, address=there.address, port=there.port, slots=SlotSet())
    still = change(view, one, peers={**view.nodes[one].peers, met.node_id: met})
    what = plan(world.spec, still)
    assert isinstance(what, Steps)
    assert not what.actions
    assert "nobody is being introduced to it any more" in "; ".join(what.describe())
