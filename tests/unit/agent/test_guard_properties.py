"""Random faults, late and mute members, servers that don't come up: no deadlock, and no old data before newer."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agent.guard_cases import State, world_of
from tests.unit.agent.guard_world import World
from valkeyctl.agent.tale import Kind, Server
from valkeyctl.dataplane.model import Member

ALWAYS = (State.RUNNING, State.LAGGING, State.UNSYNCED, State.EMPTY, State.REPLACED)
ON_DISK = {"nothing": (), "snapshots": (State.SNAPSHOT,), "log": (State.LOG,), "full log": (State.FULL_LOG,)}
STUCK_S = 100.0


@dataclass(frozen=True)
class Fault:
    """One member after the fault: away or mute until `back_s` (never for 0), its server dying until `stuck_s`."""

    state: State
    back_s: float
    mute: bool
    stuck_s: float


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, dict[Member, Fault], int]:
    """An instance with one way of keeping data, as a real one has."""
    kept = ON_DISK[draw(st.sampled_from(sorted(ON_DISK)))]
    shards, copies = draw(st.integers(1, 4)), draw(st.integers(2, 3))
    primary_ordinal = draw(st.integers(0, copies - 1))
    late = st.sampled_from([0.0, 0.0, 0.0, 3.0, 10.0, 40.0])
    faults: dict[Member, Fault] = {}
    for member in (Member(s, o) for s in range(shards) for o in range(copies)):
        states = ALWAYS + 3 * kept
        if member.ordinal == primary_ordinal:
            states = tuple(state for state in states if state not in (State.LAGGING, State.UNSYNCED))
        stuck_s = draw(st.sampled_from([0.0, 0.0, 0.0, 5.0, STUCK_S]))
        faults[member] = Fault(draw(st.sampled_from(states)), draw(late), draw(st.booleans()), stuck_s)
    world = world_of(
        {member: fault.state for member, fault in faults.items()},
        replica_snapshot=draw(st.sampled_from([30, 60])),
        primary_ordinal=primary_ordinal,
        told_synced=True,
    )
    for member, fault in faults.items():
        pod = world.pods[member]
        pod.stuck_until = fault.stuck_s if pod.server is Server.DOWN else 0.0
        if fault.back_s:
            pod.mute, pod.present = fault.mute, fault.mute or pod.server is Server.UP
            pod.mute = pod.mute or pod.server is Server.UP
            world.arrivals.append((fault.back_s, member))
    world.arrivals.sort()
    return world, faults, primary_ordinal


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_all_ends_well(case: tuple[World, dict[Member, Fault], int]) -> None:
    world, faults, primary_ordinal = case
    shards = range(len(world.layout))
    has_copy = {
        shard: any(p.copy.data.kind is not Kind.NOTHING for p in world.pods.values() if p.member.shard == shard)
        for shard in shards
    }
    best = {shard: max(pod.copy.writes for pod in world.pods.values() if pod.member.shard == shard) for shard in shards}
    never_synced = {member for member, fault in faults.items() if fault.state is State.UNSYNCED}
    world.play()
    for served in world.served:
        assert served.warned or served.writes >= served.best, (served, world.promoted)
    elected = {member.shard for _, member, how in world.promoted if how == "own"}
    first = {}
    for _, member, _ in world.promoted:
        first.setdefault(member.shard, member)
    assert not never_synced & set(first.values())
    for shard in shards:
        owner = world.owner(shard)
        replaced = faults[Member(shard, primary_ordinal)].state is State.REPLACED
        assert (owner is None) == (replaced and not has_copy[shard]), (shard, world.promoted, world.served)
        if owner is not None and shard not in world.warned | elected:
            assert owner.live.writes >= best[shard], (shard, world.promoted, world.served)
    assert all(pod.server is Server.UP for pod in world.pods.values())
