"""Whatever state a cluster is in, the planner brings it to its goal by steps each of which is safe.

The model (`world.py`) raises for every unsafe step: two owners of a slot, a primary with data demoted, the only copy
given up, a node forgotten that somebody may still take over from, strangers with data for the same slots introduced.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.world import World
from valkeyctl.dataplane import (
    Blocked,
    Done,
    Layout,
    Member,
    Phase,
    Role,
    SlotSet,
    Spec,
    Steps,
    plan,
    planned_layout,
    report,
)

MOST_ROUNDS = 60
MAJORITY_LOST = "primaries are gone for good"


@st.composite
def layouts(draw: st.DrawFn, shards: int) -> Layout:
    """Any layout that covers all slots: ranges dealt to shards, each of which gets at least one."""
    cuts = sorted(draw(st.sets(st.integers(1, 16383), min_size=shards - 1, max_size=shards + 4)))
    bounds = list(zip([0, *cuts], [*cuts, 16384], strict=True))
    owners = [*range(shards), *(draw(st.integers(0, shards - 1)) for _ in bounds[shards:])]
    layout = [SlotSet()] * shards
    for (first, end), owner in zip(bounds, owners, strict=True):
        layout[owner] |= SlotSet.span(first, end - 1)
    return tuple(layout)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    shards, replicas = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    if draw(st.booleans()):
        return Spec("t", shards, replicas, draw(layouts(shards)), explicit=True)
    return Spec("t", shards, replicas, planned_layout(shards))


def some_of(data: st.DataObject, what: Steps) -> Steps:
    """Any part of a plan, in its order: what a run that died left done."""
    picked = data.draw(st.lists(st.booleans(), min_size=len(what.actions), max_size=len(what.actions)))
    return Steps(tuple(step for step, take in zip(what.actions, picked, strict=True) if take))


def advance(world: World, what: Steps) -> None:
    for step in what.actions:
        world.take(step)
        world.check()


def finish(world: World) -> Done | Blocked:
    """Another run: plan and carry out until nothing is left to do."""
    world.new_run()
    for _ in range(MOST_ROUNDS):
        what = plan(world.spec, world.view())
        if not isinstance(what, Steps):
            return what
        advance(world, what)
        world.settle()
        world.check()
    raise AssertionError(f"no end after {MOST_ROUNDS} rounds: {plan(world.spec, world.view())}")


def assert_at_the_goal(world: World) -> None:
    view = world.view()
    assert plan(world.spec, view) == Done()
    assert report(world.spec, view).phase is Phase.READY
    assert world.layout() == dict(enumerate(world.spec.layout))
    for member in world.spec.members:
        node = world.at(member)
        if node.role is Role.REPLICA:
            assert world.nodes[node.primary_id].member.shard == member.shard
        else:
            assert node.slots == world.spec.layout[member.shard]
    world.check()


def interfere(world: World, data: st.DataObject) -> None:
    """One thing that happens beside or in the middle of a run."""
    member = data.draw(st.sampled_from(world.spec.members))
    match data.draw(st.sampled_from(["part of a plan", "settle", "write", "replace", "remove", "wrong primary"])):
        case "part of a plan":
            what = plan(world.spec, world.view(for_s=data.draw(st.sampled_from([0.0, 60.0]))))
            if isinstance(what, Steps):
                advance(world, some_of(data, what))
        case "remove":
            world.remove(member)
        case "settle":
            world.settle()
        case _ if member not in world.here:
            world.fresh(member)
        case "write":
            world.write(member)
        case "replace":
            world.fresh(member)
        case "wrong primary":
            mislead(world, member, data)


def mislead(world: World, member: Member, data: st.DataObject) -> None:
    """By hand: a replica in sync is made to follow a primary of another shard."""
    node = world.at(member)
    others = [m for m in world.here if m.shard != member.shard and world.at(m).slots]
    known = [m for m in others if world.at(m).node_id in node.known and node.known[world.at(m).node_id].slots]
    if known and node.role is Role.REPLICA and node.linked:
        node.primary_id = world.at(data.draw(st.sampled_from(known))).node_id
        world.settle()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_reaches_the_goal_from_anywhere_by_safe_steps(data: st.DataObject) -> None:
    world = World(data.draw(specs()))
    for _ in range(data.draw(st.integers(0, 12))):
        interfere(world, data)
        world.check()
    for member in world.spec.members:
        if member not in world.here:
            world.fresh(member)
    end = finish(world)
    if isinstance(end, Blocked):
        assert MAJORITY_LOST in end.reason
        return
    assert_at_the_goal(world)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_reaches_the_goal_through_any_parts_of_plans(data: st.DataObject) -> None:
    """Every round may die anywhere; as long as some round gets something done, the goal comes nearer."""
    world = World(data.draw(specs()))
    for _ in range(MOST_ROUNDS):
        what = plan(world.spec, world.view())
        if not isinstance(what, Steps):
            break
        assert plan(world.spec, world.view()) == what, "the same view gives the same plan"
        part = some_of(data, what)
        advance(world, part if part.steps else what)
        if data.draw(st.booleans()):
            world.settle()
    finish(world)
    assert_at_the_goal(world)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_formed_instance_gives_no_lost_slot_away(data: st.DataObject) -> None:
    """Without consent, slots whose every copy is gone stay without an owner, and keys elsewhere stay where they are."""
    spec = data.draw(specs())
    world = World(Spec("t", spec.shards, spec.replicas, spec.layout, explicit=spec.explicit, formed=True))
    finish(world)
    for member in spec.members:
        world.write(member)
    world.settle()
    shard = data.draw(st.integers(0, spec.shards - 1))
    for member in spec.shard_members(shard):
        world.fresh(member)
    world.settle()
    end = finish(world)
    if spec.shards == 1:
        assert end == Done(), "nothing is left that consent could protect"
        return
    assert isinstance(end, Blocked)
    assert f"shard {shard}" in end.reason
    assert not world.layout()[shard]
    world.check()
    world.spec = Spec(
        "t", spec.shards, spec.replicas, spec.layout, explicit=spec.explicit, formed=True, accept_data_loss=True
    )
    assert finish(world) == Done()
    assert_at_the_goal(world)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_keeps_every_copy_when_the_majority_is_lost_for_good(data: st.DataObject) -> None:
    shards = data.draw(st.integers(2, 4))
    spec = Spec("t", shards, data.draw(st.integers(1, 2)), planned_layout(shards), formed=data.draw(st.booleans()))
    world = World(spec)
    finish(world)
    for member in spec.members:
        world.write(member)
    world.settle()
    lost = data.draw(st.permutations(range(shards)))[: shards // 2 + data.draw(st.integers(0, shards - shards // 2))]
    lost = lost if 2 * len(lost) >= shards else [*range(shards)]
    for shard in lost:
        world.fresh(Member(shard, 0))
    world.settle()
    end = finish(world)
    assert isinstance(end, Blocked)
    assert f"{len(lost)} of {shards} {MAJORITY_LOST}" in end.reason
    world.check()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_best_copies_take_over_where_that_was_declared(data: st.DataObject) -> None:
    """Whether the lost primaries' Pods stay away or come back empty: every copy is kept, and the goal is reached."""
    shards = data.draw(st.integers(1, 4))
    world = World(Spec("t", shards, data.draw(st.integers(1, 2)), planned_layout(shards), formed=True))
    finish(world)
    world.spec = replace(world.spec, takeover_after_s=30.0)
    for member in world.spec.members:
        world.write(member)
    world.settle()
    least = shards // 2 + (shards % 2)
    lost = [
        world.primary_of(s) for s in data.draw(st.permutations(range(shards)))[: data.draw(st.integers(least, shards))]
    ]
    for member in lost:
        if data.draw(st.booleans()):
            world.fresh(member)
        else:
            world.remove(member)
    world.settle()
    for _ in range(data.draw(st.integers(0, 8))):
        what = plan(world.spec, world.view(for_s=60.0))
        if isinstance(what, Steps):
            advance(world, some_of(data, what))
        world.settle()
    for member in lost:
        if member not in world.here:
            world.fresh(member)
    assert finish(world) == Done()
    assert_at_the_goal(world)


@pytest.mark.parametrize(("shards", "replicas"), [(1, 0), (3, 1), (6, 2), (8, 1)])
def test_forms_in_few_rounds(shards: int, replicas: int) -> None:
    world = World(Spec("t", shards, replicas, planned_layout(shards)))
    rounds = 0
    while isinstance(what := plan(world.spec, world.view()), Steps):
        advance(world, what)
        world.settle()
        rounds += 1
    assert rounds <= 4
    assert_at_the_goal(world)
