"""Several arbiters, each of which may freeze, die, be cut off and thaw at any moment: never two writable primaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agent.primacy.world import DURATION_S, World
from valkeyctl.agent.resp import Command
from valkeyctl.dataplane.model import Member

ZERO, ONE, TWO = (Member(0, ordinal) for ordinal in range(3))


@pytest.fixture
def world() -> Iterator[World]:
    world = World(3)
    world.run(5.0)
    assert world.settled(), world.logs()
    yield world
    world.close()


def test_the_appointed_member_becomes_the_primary(world: World) -> None:
    assert world.primary == ZERO


def test_a_killed_server_hands_the_lease_on_at_once(world: World) -> None:
    world.kill_server(ZERO)
    world.run(3.0)
    assert world.primary in (ONE, TWO), world.logs()
    assert world.longest_gap_s < 2.0
    world.run(5.0)
    assert world.settled(), world.logs()


def test_a_lost_node_is_replaced_when_its_lease_has_run_out(world: World) -> None:
    world.longest_gap_s = 0.0
    world.pods[ZERO].dead_until = world.now + 60
    world.kill_server(ZERO)
    world.pods[ZERO].restart_at = float("inf")
    world.run(DURATION_S + 4.0)
    assert world.primary in (ONE, TWO), world.logs()
    assert world.longest_gap_s < DURATION_S + 2.0


def test_a_frozen_agent_costs_its_server_the_role(world: World) -> None:
    world.freeze_agent(ZERO, 60.0)
    world.run(DURATION_S + 4.0)
    assert world.primary in (ONE, TWO), world.logs()
    world.run(60.0)
    assert world.settled(), world.logs()


def test_a_frozen_server_is_ended(world: World) -> None:
    world.freeze_server(ZERO)
    world.run(DURATION_S + 4.0)
    assert world.primary in (ONE, TWO), world.logs()
    world.thaw_server(ZERO)
    world.run(10.0)
    assert world.settled(), world.logs()


def test_without_the_api_server_the_primary_goes_on_by_promises(world: World) -> None:
    world.longest_gap_s = 0.0
    world.cut_from_api |= {ZERO, ONE, TWO}
    world.run(60.0)
    assert world.primary == ZERO, world.logs()
    assert world.longest_gap_s == 0.0
    world.cut_from_api.clear()
    world.run(5.0)
    assert world.primary == ZERO


def test_a_primary_that_is_cut_from_the_api_server_alone_goes_on_too(world: World) -> None:
    world.longest_gap_s = 0.0
    world.cut_from_api |= {ZERO}
    world.run(60.0)
    assert world.primary == ZERO, world.logs()
    assert world.longest_gap_s == 0.0


def test_without_the_api_server_and_one_promise_it_stops(world: World) -> None:
    world.cut_from_api |= {ZERO, ONE, TWO}
    world.freeze_agent(TWO, 60.0)
    world.run(DURATION_S + 5.0)
    assert world.primary is None, world.logs()
    world.run(20.0)
    world.cut_from_api.clear()
    world.run(5.0)
    assert world.primary is not None, world.logs()
    assert set(world.acknowledged) <= set(world.servers[world.primary].log)


def test_a_primary_that_is_cut_off_from_everything_stops(world: World) -> None:
    world.cut_from_api |= {ZERO}
    world.cuts |= {frozenset((ZERO, ONE)), frozenset((ZERO, TWO))}
    world.run(DURATION_S + 5.0)
    assert world.primary in (ONE, TWO), world.logs()
    world.heal()
    world.run(10.0)
    assert world.settled(), world.logs()


def test_a_wish_moves_the_role_without_a_loss(world: World) -> None:
    world.longest_gap_s = 0.0
    world.lease["metadata"]["annotations"]["valkeyctl/primary-wish"] = "t-s0-2"
    world.put(world.lease)
    world.run(8.0)
    assert world.primary == TWO, world.logs()
    assert world.settled()
    assert set(world.acknowledged) <= set(world.servers[TWO].log)
    assert world.longest_gap_s < 1.0
    assert "valkeyctl/primary-wish" not in world.lease["metadata"]["annotations"]


def test_a_handover_by_hand_is_followed_by_the_lease(world: World) -> None:
    world.servers[ZERO].do(("FAILOVER", "TO", "s0-1.test", "6379"))
    world.run(15.0)
    assert world.primary == ONE, world.logs()
    assert world.settled(), world.logs()
    assert world.lease["spec"]["holderIdentity"].startswith("t-s0-1/")


def test_a_replica_that_is_promoted_by_hand_is_demoted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "check", lambda: None)
    world.servers[ONE].promote()
    world.run(2.0)
    assert world.primary == ZERO, world.logs()
    world.run(3.0)
    assert world.settled(), world.logs()


def test_a_member_without_an_arbiter_keeps_the_role_that_it_was_given(world: World) -> None:
    """So it is while an instance is moved to another way of failing over, one Pod after the other."""
    world.pods[ONE].plain = True
    world.servers[ZERO].do(("FAILOVER", "TO", "s0-1.test", "6379"))
    world.run(60.0)
    assert world.primary == ONE, world.logs()
    assert world.settled(), world.logs()


def test_who_stands_still_is_in_nobody_s_way(world: World) -> None:
    """One after the other hears that agents don't fail over any more; then somebody else moves the role."""
    world.pods[ZERO].still = True
    world.run(30.0)
    assert world.primary == ZERO, world.logs()
    world.pods[ONE].still = True
    world.servers[ZERO].do(("FAILOVER", "TO", "s0-1.test", "6379"))
    world.run(30.0)
    assert world.primary == ONE, world.logs()
    world.freeze_agent(ONE, 60.0)
    world.run(30.0)
    assert world.primary == ONE, "it isn't fenced any more"


def test_a_holder_that_stands_still_and_dies_is_not_taken_over_from(world: World) -> None:
    world.pods[ZERO].still = True
    world.run(10.0)
    world.pods[ZERO].dead_until = world.now + 1000
    world.kill_server(ZERO)
    world.run(30.0)
    assert world.primary is None


def test_time_counts_from_before_the_lease_was_written(world: World) -> None:
    """The answer comes late, and the agent freezes with it: its server may not go on for longer because of that."""

    def answered_late(by: Member) -> None:
        if by == ZERO and world.now > 1010.0:
            world.after_writing = lambda _by: None
            world.cuts |= {frozenset((ZERO, ONE)), frozenset((ZERO, TWO))}
            world.wait_in_request(1.9)
            world.freeze_agent(ZERO, 60.0)

    world.after_writing = answered_late
    world.run(30.0)
    assert world.primary in (ONE, TWO), world.logs()


@pytest.mark.parametrize("thaws_after_s", [2.0, 7.0, 7.8, 8.2, 8.6, 9.0])
def test_a_promotion_that_is_carried_out_late_is_under_the_watchdog(world: World, thaws_after_s: float) -> None:
    """The server freezes in the moment in which it is told, and does it after it has thawed, and was asked
    again; and then the agent freezes.
    """
    frozen: list[Member] = []

    def thaws() -> None:
        world.cuts.add(frozenset((ONE, TWO)))
        world.thaw_server(frozen[0])
        world.servers[frozen[0]].late_ticks = 8

    def freezes(by: Member, commands: Sequence[Command]) -> None:
        if not frozen and by in (ONE, TWO) and ("REPLICAOF", "NO", "ONE") in commands:
            frozen.append(by)
            world.freeze_server(by)
            world.cut_from_api.add(by)
            world.later(thaws_after_s, thaws)
            world.later(thaws_after_s + 1.0, lambda: world.freeze_agent(by, 60.0))

    world.before_asking = freezes
    world.pods[ZERO].dead_until = world.now + 1000
    world.kill_server(ZERO)
    world.run(DURATION_S + 35.0)
    assert frozen
    assert world.primary in (ONE, TWO), world.logs()


def test_who_is_held_up_before_a_promotion_looks_again_whether_there_is_time(world: World) -> None:
    """One thread of the agent waits for its server; another one stands down meanwhile, and others take over."""
    held_up: list[Member] = []

    def waits(by: Member) -> None:
        pod = world.pods[by]
        if not held_up and by in (ONE, TWO) and pod.fence.until is not None:
            held_up.append(by)
            world.cuts |= {frozenset((ONE, TWO))}
            pod.in_request = True
            for _ in range(150):
                world.tick()
                pod.arbiter.keep_in_time()
            pod.in_request = False

    world.before_connecting = waits
    world.pods[ZERO].dead_until = world.now + 1000
    world.kill_server(ZERO)
    world.run(DURATION_S + 35.0)
    assert held_up
    assert world.primary is not None, world.logs()


def test_nobody_takes_over_within_a_promise(world: World) -> None:
    """The API server comes back for the others alone: they see a Lease that ran out long ago, and have promised."""
    world.cut_from_api |= {ZERO, ONE, TWO}
    world.run(30.0)
    world.cut_from_api -= {ONE, TWO}
    world.cuts |= {frozenset((ZERO, ONE)), frozenset((ZERO, TWO))}
    world.run(40.0)
    assert world.primary in (ONE, TWO), world.logs()


def test_a_promise_outlives_the_agent_that_gave_it(world: World) -> None:
    world.cut_from_api |= {ZERO, ONE, TWO}
    world.run(30.0)
    for member in (ONE, TWO):
        world.kill_agent(member, 0.0)
    world.cut_from_api -= {ONE, TWO}
    world.cuts |= {frozenset((ZERO, ONE)), frozenset((ZERO, TWO))}
    world.run(40.0)
    assert world.primary in (ONE, TWO), world.logs()


def test_a_single_member_needs_nobody() -> None:
    world = World(1)
    try:
        world.run(5.0)
        assert world.primary == ZERO
        world.freeze_agent(ZERO, 30.0)
        world.run(30.0)
        assert world.primary == ZERO, "nobody could take over, so nothing ends"
        world.cut_from_api.add(ZERO)
        world.kill_server(ZERO)
        world.run(10.0)
        assert world.primary == ZERO, world.logs()
    finally:
        world.close()


def test_a_member_that_is_added_ends_being_alone() -> None:
    world = World(2)
    try:
        world.spec = replace(world.spec, replicas=0)
        world.run(5.0)
        world.spec = replace(world.spec, replicas=1)
        world.run(10.0)
        assert world.settled(), world.logs()
        world.freeze_agent(ZERO, 60.0)
        world.run(DURATION_S + 4.0)
        assert world.primary == ONE, world.logs()
    finally:
        world.close()


FAULTS = (
    "kill server",
    "freeze server",
    "thaw server",
    "freeze agent",
    "kill agent",
    "lose node",
    "cut api",
    "mend api",
    "cut pair",
    "mend pairs",
    "wish",
)


def strike(world: World, what: str, member: Member, amount: int) -> None:
    other = Member(0, (member.ordinal + 1 + amount % 2) % 3)
    match what:
        case "kill server":
            world.kill_server(member)
        case "freeze server":
            world.freeze_server(member)
        case "thaw server":
            world.thaw_server(member)
        case "freeze agent":
            world.freeze_agent(member, float(amount))
        case "kill agent":
            world.kill_agent(member, float(amount % 4))
        case "lose node":
            world.lose_node(member)
        case "cut api":
            world.cut_from_api.add(member)
        case "mend api":
            world.cut_from_api.clear()
        case "cut pair":
            world.cuts.add(frozenset((member, other)))
        case "mend pairs":
            world.cuts.clear()
        case _:
            annotations = {**world.lease["metadata"]["annotations"], "valkeyctl/primary-wish": f"t-{member}"}
            world.put({**world.lease, "metadata": {**world.lease["metadata"], "annotations": annotations}})


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1 << 32),
    pausing=st.sampled_from((0.0, 0.002, 0.01, 0.05)),
    persistent=st.booleans(),
    faults=st.lists(
        st.tuples(st.sampled_from(FAULTS), st.integers(0, 2), st.integers(0, 30), st.floats(0.1, 15.0)), max_size=12
    ),
)
def test_never_two_writable_primaries(
    *, seed: int, pausing: float, persistent: bool, faults: list[tuple[str, int, int, float]]
) -> None:
    world = World(3, seed, persistent=persistent)
    try:
        world.run(5.0)
        world.pausing = pausing
        for what, ordinal, amount, wait_s in faults:
            strike(world, what, Member(0, ordinal), amount)
            world.run(wait_s)
        world.heal()
        for _ in range(12):
            world.run(10.0)
            if world.settled():
                break
        names = {what for what, *_ in faults}
        if world.settled() and not world.lossy and not names & {"cut pair"}:
            primary = world.primary
            assert primary is not None
            lost = set(world.acknowledged) - set(world.servers[primary].log)
            assert not lost, f"{sorted(lost)[:5]} of {len(world.acknowledged)}\n{world.logs()}"
    finally:
        world.close()
