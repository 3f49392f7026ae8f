"""Whatever the Sentinels monitor and remember, the planner brings them to the goal by steps each of which is safe.

The model (`world.py`) raises for every unsafe step: another server monitored than the primary, two Sentinels that
forget at once, a failover that would choose another than the primary, a quorum out of reach, nobody to fail over to.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.sentinel.world import Server, Watch, World, address, member, spec_of
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.rounds import Done, Round
from valkeyctl.dataplane.sentinel.model import Parameters, sentinel
from valkeyctl.dataplane.sentinel.plan import plan
from valkeyctl.dataplane.sentinel.report import report

MOST_ROUNDS = 60


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any set of Sentinels: right, unaware, astray at a replica or at a stranger, with gaps and stale entries."""
    members, count, more = draw(st.integers(2, 4)), draw(st.sampled_from([3, 5])), draw(st.sampled_from([0, 2]))
    primary = draw(st.integers(0, members - 1))
    wanted = draw(st.none() | st.integers(0, members - 1))
    spec = spec_of(
        members,
        count,
        wanted=None if wanted is None else member(wanted),
        leaving=tuple(sentinel(o) for o in range(count, count + more)),
    )
    servers = {
        o: Server(None if o == primary else primary, draw(st.sampled_from([100, 100, 101, 1]))) for o in range(members)
    }
    places = [address(primary)] * 3 + [address(o) for o in range(members)] + [Address("elsewhere", 6379)]

    def watch() -> Watch | None:
        if draw(st.integers(0, 4)) == 0:
            return None
        return Watch(
            draw(st.sampled_from(places)),
            draw(st.integers(0, 3)),
            draw(st.sampled_from([1, 2, 3])),
            draw(st.sampled_from([spec.parameters, Parameters(1, 2, 3)])),
            draw(st.sets(st.integers(0, count + more - 1))),
            {o: draw(st.sampled_from([100, 1])) for o in draw(st.sets(st.integers(0, members - 1)))},
            draw(st.sets(st.sampled_from(["gone-1", "gone-2"]))),
            draw(st.sets(st.sampled_from(["lost-1", "lost-2"]))),
        )

    sentinels = {o: watch() for o in range(count + more)}
    for o, found in sentinels.items():
        if found is not None:
            found.others.discard(o)
            found.replicas = {r: p for r, p in found.replicas.items() if address(r) != found.at}
    return World(spec, servers, sentinels, draw(st.sampled_from(["9.1.2", "8.1.8", "9.1.0"])))


@pytest.mark.filterwarnings("ignore::pytest.PytestWarning")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(), data=st.data())
def test_any_part_of_any_plan_is_safe_and_the_goal_is_reached(world: World, data: st.DataObject) -> None:
    for round_ in range(MOST_ROUNDS):
        what = plan(world.spec, world.view())
        if isinstance(what, Done):
            break
        assert isinstance(what, Round), what
        assert what == plan(world.spec, world.view()), "planning is deterministic"
        for step in what.actions:
            # A run that dies leaves any part undone; later ones are let through, so that there is an end.
            if round_ > 20 or data.draw(st.booleans()):
                world.take(step)
        if round_ > 20 or data.draw(st.booleans()):
            world.settle()
    else:
        raise AssertionError(f"no end: {plan(world.spec, world.view())}")
    found = report(world.spec, world.view())
    assert found.ready
    assert all(condition.status.value == "True" for condition in found.conditions)
    assert found.primary == member(world.primary)
    if world.spec.wanted is not None:
        assert found.primary == world.spec.wanted
    assert {server.priority for server in world.servers.values()} == {100}
    for ordinal in range(world.spec.sentinels):
        watch = world.sentinels[ordinal]
        assert watch is not None
        assert (watch.at, watch.quorum, watch.parameters) == (
            address(world.primary),
            world.spec.quorum,
            world.spec.parameters,
        )
        assert not watch.strangers
        assert not watch.lost


@settings(max_examples=50, deadline=None)
@given(world=worlds())
def test_at_the_goal_there_is_nothing_to_do(world: World) -> None:
    for _ in range(MOST_ROUNDS):
        what = plan(world.spec, world.view())
        if isinstance(what, Done):
            break
        assert isinstance(what, Round)
        for step in what.actions:
            world.take(step)
        world.settle()
    world.settle()
    assert isinstance(plan(world.spec, world.view()), Done)
    world.spec = replace(world.spec, wanted=None)
    assert isinstance(plan(world.spec, world.view()), Done)
