"""Members that some may have forgotten take slots under a new id only; slots that change hands aren't free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.test_moves import formed, target
from tests.unit.dataplane.test_properties import finish
from tests.unit.dataplane.views import change
from tests.unit.dataplane.world import PHASES, World
from valkeyctl.dataplane import Blocked, Done, Member, SlotSet, Spec, Steps, plan, planned_layout
from valkeyctl.dataplane.steps import (
    Action,
    AssignSlots,
    DropSlots,
    Introduce,
    Leave,
    MigrateSlots,
    MoveKeys,
    StartAnew,
)
from valkeyctl.dataplane.view import Job, JobState, View

FOUR = Spec("t", 4, 0, planned_layout(4, None), formed=True)
LEAVING = Member(3, 0)


def drained(spec: Spec = FOUR) -> World:
    """A scale-in in which who leaves has given all its slots, and nothing else has been done."""
    world = formed(spec)
    world.become(target(spec.shards - 1, spec.replicas, spec.layout))
    while any(world.at(member).slots for member in world.spec.leaving):
        what = plan(world.spec, world.view())
        assert isinstance(what, Steps)
        for step in what.actions:
            world.take(step)
        world.settle()
    return world


def banned_by_one(world: World, member: Member) -> None:
    """By hand: one of the others is told to forget a member."""
    one = world.at(Member(0, 0))
    del one.known[world.at(member).node_id]
    one.banned.add(world.at(member).node_id)


def actions(world: World) -> tuple[Action, ...]:
    what = plan(world.spec, world.view())
    assert isinstance(what, Steps)
    return what.actions


def test_who_leaves_gets_a_new_id_before_anybody_forgets_the_former_one() -> None:
    """However few steps of it were taken: back at once, nobody bans it (the model sees to that)."""
    for taken in range(8):
        world = drained()
        before = world.at(LEAVING).node_id
        for _ in range(taken):
            left = actions(world) if plan(world.spec, world.view()) != Done() else ()
            if left:
                world.take(left[0])
        if taken:
            assert world.at(LEAVING).node_id != before
        world.become(FOUR)
        assert finish(world) == Done()
        world.check_served()


@pytest.mark.parametrize("settled", range(4))
def test_an_empty_member_that_one_bans_takes_slots_under_a_new_id(settled: int) -> None:
    """Whether it is known to all at the moment, since it has introduced itself again, or not."""
    world = drained()
    before = world.at(LEAVING).node_id
    banned_by_one(world, LEAVING)
    for _ in range(settled):
        world.settle()
    world.new_run()
    world.become(FOUR)
    todo = actions(world)
    assert StartAnew(LEAVING) in todo
    assert not [step for step in todo if isinstance(step, Introduce) and LEAVING in (step.member, step.to)]
    assert finish(world) == Done()
    assert world.at(LEAVING).node_id != before
    world.check_served()


def test_one_that_is_banned_while_it_is_introduced_starts_anew_too() -> None:
    three = Spec("t", 3, 0, planned_layout(3), formed=True)
    world = formed(three)
    world.become(target(4, 0, three.layout))
    for step in actions(world):
        world.take(step)
    first = world.view().nodes[LEAVING]
    assert first.fresh
    banned_by_one(world, LEAVING)
    world.settle()
    assert not world.view().nodes[LEAVING].fresh
    assert StartAnew(LEAVING) in actions(world)
    while plan(world.spec, world.view()) != Done():
        for step in actions(world):
            world.take(step)
        world.settle()
    assert world.at(LEAVING).node_id != first.node_id
    world.check_served()


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_new_member_keeps_its_id_in_one_run_and_gets_another_in_the_next(replicas: int) -> None:
    three = Spec("t", 3, replicas, planned_layout(3), formed=True)
    four = target(4, replicas, three.layout)
    world = formed(three)
    world.become(four)
    before = world.at(LEAVING).node_id
    taken: list[Action] = []
    while not any(isinstance(step, MigrateSlots) for step in actions(world)):
        for step in actions(world):
            taken.append(step)
            world.take(step)
        world.settle()
    assert not any(isinstance(step, StartAnew) for step in taken)
    world.new_run()
    todo = actions(world)
    assert StartAnew(LEAVING) in todo
    assert not any(isinstance(step, MigrateSlots) for step in todo)
    assert finish(world) == Done()
    assert world.at(LEAVING).node_id != before
    world.check_served()


def test_who_is_given_nothing_keeps_its_id() -> None:
    """What an agent may not move it makes nobody ready for."""
    three = Spec("t", 3, 0, planned_layout(3), formed=True)
    world = formed(three)
    world.become(replace(target(4, 0, three.layout), may_move=False))
    finish(world)
    before = world.at(LEAVING).node_id
    assert isinstance(finish(world), Blocked)
    assert world.at(LEAVING).node_id == before


def test_slots_that_were_begun_go_on_to_where_their_keys_are() -> None:
    three = Spec("t", 3, 0, planned_layout(3), formed=True)
    world = formed(three, since_9=False)
    world.become(target(4, 0, three.layout))
    world.phases = lambda: 3
    while not any(isinstance(step, MoveKeys) for step in actions(world)):
        for step in actions(world):
            world.take(step)
        world.settle()
    for step in actions(world):
        world.take(step)
    before = world.at(LEAVING).node_id
    world.phases = lambda: PHASES
    assert finish(world) == Done()
    assert world.at(LEAVING).node_id == before
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
    """A scale-out that was killed while members met, and reverted: MEET goes on, whoever is reset meanwhile."""
    world = drained()
    view = world.view()
    assert actions(world) == (Leave(LEAVING),)
    one = Member(1, 0)
    met = replace(next(iter(view.nodes[one].peers.values())), node_id="f" * 40, handshake=True)
    there = view.nodes[LEAVING].endpoint
    met = replace(met, address=there.address, port=there.port, slots=SlotSet())
    still = change(view, one, peers={**view.nodes[one].peers, met.node_id: met})
    what = plan(world.spec, still)
    assert isinstance(what, Steps)
    assert not what.actions
    assert "nobody is being introduced to it any more" in "; ".join(what.describe())


def test_a_shard_that_is_empty_for_a_moment_while_it_exchanges_slots_keeps_its_id() -> None:
    """The run has seen it own slots: nobody bans it. Started anew, it would tell clients that the cluster is down."""
    first, second, third = planned_layout(3, None)
    three = Spec("t", 3, 0, (first, second, third), formed=True)
    world = formed(three)
    world.new_run()
    before = {member: world.at(member).node_id for member in three.members}
    world.become(replace(three, layout=(second, third, first), explicit=True))
    assert finish(world) == Done()
    assert {member: world.at(member).node_id for member in three.members} == before
    world.check_served()
