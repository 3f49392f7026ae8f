"""Whatever state a dataset is in, the planner brings it to its goal by steps each of which is safe.

The model (`world.py`) raises for every unsafe step: a second primary, one that is empty or behind, a write dropped that
nobody was told of.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.replication.world import World
from valkeyctl.dataplane import Blocked, Done, Phase, Role
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.replication.steps import Action, Promote
from valkeyctl.dataplane.rounds import Round

MOST_ROUNDS = 20
HAPPENINGS = [
    "part of a plan",
    "settle",
    "write",
    "replace",
    "restart",
    "save",
    "silence",
    "by hand",
    "mislead",
    "kill",
]


@st.composite
def specs(draw: st.DrawFn) -> ReplicationSpec:
    replicas = draw(st.integers(0, 3))
    wish = draw(st.none() | st.integers(0, replicas))
    return ReplicationSpec("t", replicas, primary=wish)


def advance(world: World, what: Round[Action], taken: list[bool] | None = None) -> None:
    """Take a round's steps, or the part of them that a run which died has taken."""
    assert sum(isinstance(step, Promote) for step in what.actions) <= 1
    for step, take in zip(what.actions, taken or [True] * len(what.actions), strict=True):
        if take:
            world.take(step)


def finish(world: World) -> Done | Blocked:
    """Plan and carry out until nothing is left to do."""
    for _ in range(MOST_ROUNDS):
        what = plan(world.spec, world.view())
        if not isinstance(what, Round):
            return what
        advance(world, what)
        world.settle()
    raise AssertionError(f"no end after {MOST_ROUNDS} rounds: {plan(world.spec, world.view())}")


def happen(world: World, data: st.DataObject) -> None:
    """One thing that happens beside or in the middle of a run."""
    member = data.draw(st.sampled_from(world.spec.members))
    what = data.draw(st.sampled_from(HAPPENINGS))
    if what == "part of a plan":
        next_round = plan(world.spec, world.view(for_s=data.draw(st.sampled_from([0.0, 60.0]))))
        if isinstance(next_round, Round):
            count = len(next_round.actions)
            advance(world, next_round, data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    elif what == "settle":
        world.settle()
    elif member not in world.here:
        world.fresh(member, Role.REPLICA)
    elif what == "kill":
        world.remove(member)
    else:
        _to_a_server(world, data, what, world.here[member].member)


def _to_a_server(world: World, data: st.DataObject, what: str, member: object) -> None:
    server = next(server for server in world.all if server.member == member)
    match what:
        case "write":
            world.write(server.member)
        case "replace":
            world.remove(server.member)
            world.fresh(server.member, Role.REPLICA)
        case "restart":
            world.restart(server.member)
        case "save":
            world.save(server.member)
        case "silence":
            server.silent = not server.silent
        case "mislead":
            server.upstream = data.draw(st.sampled_from(world.spec.members))
            world.cut_off(server)
            server.role = Role.REPLICA
        case _:  # by hand
            if server.role is Role.REPLICA:
                server.role, server.upstream, server.linked = Role.PRIMARY, None, False
                server.history = world._shifted(server.history)


@given(spec=specs(), has_log=st.booleans(), data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_state_ends_at_the_goal_or_with_a_person(
    *, spec: ReplicationSpec, has_log: bool, data: st.DataObject
) -> None:
    world = World(spec, has_log)
    for _ in range(data.draw(st.integers(0, 14))):
        happen(world, data)
        if data.draw(st.booleans()):
            recorded = world.primaries[0].member.ordinal if len(world.primaries) == 1 else None
            world.spec = replace(world.spec, last_primary=recorded, formed=world.spec.formed or bool(recorded))
    for server in world.all:
        server.silent = False
    for member in world.spec.members:
        if member not in world.here:
            world.fresh(member, Role.REPLICA)
    if spec.replicas and data.draw(st.booleans()):
        last = world.spec.members[-1]
        wish = None if spec.primary == last.ordinal else spec.primary
        recorded = world.spec.last_primary
        world.spec = replace(
            world.spec, replicas=spec.replicas - 1, primary=wish, leaving=(last,), last_primary=recorded
        )
    world.settle()
    held = {item for server in world.all for item in server.log}
    ended = finish(world)
    if isinstance(ended, Blocked):
        assert ended.reason
        assert ended.remedy
        world.spec = replace(world.spec, accept_data_loss=True)
        ended = finish(world)
    else:
        assert bool(world.primaries[0].log) == bool(held), "where anybody had data, there is some"
    assert ended == Done()
    assert_at_the_goal(world)


@given(replicas=st.integers(1, 3), has_log=st.booleans(), data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_every_copy_had_when_all_went_is_there_afterwards(
    *, replicas: int, has_log: bool, data: st.DataObject
) -> None:
    """All members come back from their disks, which are of different ages: nothing that the newest has is lost."""
    world = World(ReplicationSpec("t", replicas))
    world.has_log = has_log
    finish(world)
    primary = world.primaries[0].member
    for _ in range(data.draw(st.integers(1, 8))):
        world.write(primary)
        if data.draw(st.booleans()):
            world.settle()
        for member in world.spec.members:
            if data.draw(st.booleans()):
                world.save(member)
    for member in world.spec.members:
        world.restart(member)
    known = data.draw(st.booleans())
    world.spec = replace(world.spec, formed=True, persistent=True, last_primary=primary.ordinal if known else None)
    newest = max((server.log for server in world.all), key=len)
    ended = finish(world)
    if newest:
        assert ended == Done()
        assert world.primaries[0].log == newest
        assert_at_the_goal(world)
    else:
        assert isinstance(ended, Blocked)
        assert "every disk came back empty" in ended.reason


@pytest.mark.parametrize("replicas", [0, 1, 2, 5])
@pytest.mark.parametrize("started_as", [Role.PRIMARY, Role.REPLICA])
def test_a_new_dataset_is_formed_in_few_rounds(replicas: int, started_as: Role) -> None:
    world = World(ReplicationSpec("t", replicas))
    for server in world.all:
        server.role = started_as
    rounds = 0
    while isinstance(what := plan(world.spec, world.view()), Round):
        advance(world, what)
        world.settle()
        rounds += 1
    assert rounds <= 2
    assert_at_the_goal(world)
    assert world.primaries[0].member.ordinal == 0


def assert_at_the_goal(world: World) -> None:
    view = world.view()
    assert plan(world.spec, view) == Done()
    found = report(world.spec, view)
    assert found.phase is Phase.READY
    assert all(condition.status.value == "True" for condition in found.conditions)
    (primary,) = world.primaries
    if world.spec.primary is not None:
        assert primary.member.ordinal == world.spec.primary
    assert primary.member in world.spec.members
    for server in world.all:
        if server is not primary and server.member in world.spec.members:
            assert server.upstream == primary.member
            assert server.log == primary.log
