"""Slots move between living shards: the fewest, by steps each of which is safe, whatever interrupts them.

The model raises for every unsafe step: a key that nobody serves, an open slot closed over keys, a node forgotten or
reset that still has something, two owners of a slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.test_properties import advance, finish, layouts, some_of
from tests.unit.dataplane.world import PHASES, World
from valkeyctl.dataplane import (
    Done,
    Layout,
    Phase,
    Role,
    Spec,
    Steps,
    describe_layout,
    plan,
    plan_moves,
    planned_layout,
    report,
)
from valkeyctl.dataplane.model import Migration
from valkeyctl.dataplane.slots import slots_moved


@pytest.fixture(scope="module", autouse=True)
def few_pieces() -> Iterator[None]:
    """The model's clusters have few keys: pieces by keys are small here, those by slots large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_moves, "MOST_OPEN", 1000)
        patch.setattr(plan_moves, "MOST_KEYS_AT_ONCE", 3)
        yield


OFTEN = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def part_of(data: st.DataObject, what: Steps) -> Steps:
    """As `some_of`; of very many steps the first ones."""
    if len(what.actions) < 50:
        return some_of(data, what)
    return Steps(what.actions[: data.draw(st.integers(0, len(what.actions)))])


def formed(spec: Spec, *, writes: int = 2, since_9: bool = True) -> World:
    """A world at its goal, with some keys in every shard."""
    world = World(spec)
    world.method_since_9 = since_9
    assert finish(world) == Done()
    for member in spec.members * writes:
        world.write(member)
    world.settle()
    return world


def target(shards: int, replicas: int, before: Layout, **more: object) -> Spec:
    """What `up` declares: the layout planned from the one before."""
    return Spec("t", shards, replicas, planned_layout(shards, before), formed=True, **more)  # type: ignore[arg-type]


def assert_there(world: World) -> None:
    """All is as declared, every key where its slot is, and who leaves is gone."""
    spec, view = world.spec, world.view()
    assert plan(spec, view) == Done()
    assert report(spec, view).phase is Phase.READY
    layout = world.layout()
    assert [layout[shard] for shard in range(spec.shards)] == list(spec.layout)
    for member in spec.members:
        node = world.at(member)
        if node.role is Role.REPLICA:
            assert world.nodes[node.primary_id].member.shard == member.shard
        assert len(node.known) == len(spec.members) - 1
    for member in spec.leaving:
        node = world.at(member)
        assert not node.slots
        assert not node.known
        assert not node.data
    world.check()
    world.check_served()


@st.composite
def scalings(draw: st.DrawFn) -> tuple[World, Spec]:
    """A cluster, and another number of shards or layout for it."""
    shards, replicas = draw(st.integers(1, 5)), draw(st.integers(0, 1))
    before = draw(layouts(shards))
    explicit = draw(st.booleans())
    since_9 = draw(st.booleans())
    world = formed(Spec("t", shards, replicas, before, explicit=True, formed=True), since_9=since_9)
    method = draw(st.sampled_from(["auto", "keys"]))
    migration = Migration(max_parallel=draw(st.integers(1, 4)), method=method)  # type: ignore[arg-type]
    others = draw(st.integers(1, 5))
    if explicit:
        layout = draw(layouts(others))
        return world, Spec("t", others, replicas, layout, explicit=True, formed=True, migration=migration)
    return world, target(others, replicas, before, migration=migration)


@OFTEN
@given(scaling=scalings())
def test_moves_the_fewest_slots_and_each_once(scaling: tuple[World, Spec]) -> None:
    world, spec = scaling
    before = tuple(world.layout().values())
    world.become(spec)
    assert finish(world) == Done()
    assert_there(world)
    assert world.moved == slots_moved(before, spec.layout)
    world.delete_the_left()
    world.settle()
    assert finish(world) == Done()


@OFTEN
@given(data=st.data(), scaling=scalings())
def test_ends_where_it_should_however_it_was_interrupted(data: st.DataObject, scaling: tuple[World, Spec]) -> None:
    """Parts of plans, sending that broke off in the middle, moves that failed; writes beside it, empty members that
    somebody has forgotten, and now and then another run, or another declaration: the former, or one more.
    """
    world, spec = scaling
    former = world.spec
    world.phases = lambda: data.draw(st.integers(0, PHASES))
    world.fails = lambda: data.draw(st.booleans())
    world.become(spec)
    for _ in range(data.draw(st.integers(0, 14))):
        match data.draw(st.sampled_from(["plan", "plan", "settle", "write", "revert", "another run", "ban"])):
            case "plan":
                what = plan(world.spec, world.view())
                if isinstance(what, Steps):
                    advance(world, part_of(data, what))
            case "another run":
                world.new_run()
            case "ban":
                world.ban_an_empty_one()
            case "settle":
                world.settle()
            case "write":
                world.write(data.draw(st.sampled_from(world.spec.everybody)))
            case "revert":
                other = former if world.spec.layout == spec.layout else spec
                world.become(replace(other, migration=spec.migration))
        world.check()
    world.phases = lambda: PHASES
    world.fails = lambda: False
    assert finish(world) == Done()
    assert_there(world)


@OFTEN
@given(data=st.data(), scaling=scalings())
def test_an_agent_ends_what_was_begun_and_begins_nothing(data: st.DataObject, scaling: tuple[World, Spec]) -> None:
    """Without leave to move: every open slot is closed or finished, and no other changes its owner."""
    world, spec = scaling
    world.phases = lambda: data.draw(st.integers(0, PHASES))
    world.become(spec)
    for _ in range(data.draw(st.integers(0, 6))):
        what = plan(world.spec, world.view())
        if isinstance(what, Steps):
            advance(world, part_of(data, what))
        if data.draw(st.booleans()):
            world.settle()
    world.settle()
    world.phases = lambda: PHASES
    opened = {slot for node in world._alive() for slot in (*node.migrating, *node.importing)}
    before = world.layout()
    declared, world.spec = world.spec, replace(world.spec, may_move=False)
    finish(world)
    after = world.layout()
    changed = {slot for shard, slots in before.items() for slot in slots - after[shard]}
    assert changed <= opened
    assert not [node for node in world._alive() if node.migrating or node.importing]
    world.check()
    world.check_served()
    world.become(declared)
    assert finish(world) == Done()
    assert_there(world)


def test_a_scale_out_that_was_stopped_and_reverted_goes_back_to_where_it_was() -> None:
    before = planned_layout(3)
    world = formed(target(3, 1, before))
    world.become(target(4, 1, before))
    while not world.moved:
        what = plan(world.spec, world.view())
        assert isinstance(what, Steps)
        advance(world, Steps(what.actions[:1]))
        world.settle()
    half = world.moved
    world.become(target(3, 1, before))
    assert finish(world) == Done()
    assert_there(world)
    assert describe_layout(tuple(world.layout().values())[:3]) == describe_layout(before)
    assert world.moved == 2 * half
