"""Random faults, late and mute members, servers that don't come up: no deadlock, and no old data before newer.

In a world of servers and agents, and of any tales at all, also of some that no such world tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agent.guard_cases import State, node_id, stream, succeed, world_of
from tests.unit.agent.guard_world import World
from tests.unit.agent.tales import LAYOUT, P0, P1, P2, R0, R0B, primary, replica
from valkeyctl.agent.guard import RULES, Hold, Start, decide, follows, newer_owners
from valkeyctl.agent.stand_in import Promote, stand_in
from valkeyctl.agent.tale import Data, Kind, Owner, Server, Tale
from valkeyctl.agent.worth import Scale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, SlotSet, union
from valkeyctl.dataplane.view import Role

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
    for shard in range(shards):
        _replace_primary(draw, world, Member(shard, primary_ordinal))
    for member, fault in faults.items():
        pod = world.pods[member]
        pod.stuck_until = fault.stuck_s if pod.server is Server.DOWN else 0.0
        if fault.back_s:
            pod.mute, pod.present = fault.mute, fault.mute or pod.server is Server.UP
            pod.mute = pod.mute or pod.server is Server.UP
            world.arrivals.append((fault.back_s, member))
    world.arrivals.sort()
    return world, faults, primary_ordinal


def _replace_primary(draw: st.DrawFn, world: World, former: Member) -> None:
    """Perhaps one of its replicas was promoted while it was away; some of those who didn't run know it, or all do."""
    heirs = [
        member
        for member, pod in world.pods.items()
        if pod.primary_id == world.pods[former].node_id and pod.copy.data.kind is not Kind.NOTHING
    ]
    if world.pods[former].up or not heirs or not draw(st.sampled_from([False, False, True])):
        return
    heir = draw(st.sampled_from(heirs))
    others = [member for member in world.pods if member not in (former, heir)]
    asleep = [member for member in others if not world.pods[member].up]
    knows = set(draw(st.lists(st.sampled_from(asleep), unique=True))) if asleep else set[Member]()
    if world.pods[heir].up or draw(st.booleans()):
        knows |= {member for member in others if world.pods[member].up}
    succeed(world, heir, knows=knows)


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
    assert not world.forks, "it served an old history while one told of the newer"
    assert not world.pairs, "two were let serve one shard at once"
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


SOME = (EMPTY, LAYOUT[0], LAYOUT[0].lowest(9), LAYOUT[1], LAYOUT[1] | LAYOUT[0].lowest(9))
DATA = st.builds(
    Data,
    st.sampled_from(Kind),
    st.sampled_from(["", stream(0), "x" * 40]),
    st.none() | st.integers(0, 999),
    st.none() | st.integers(0, 2000).map(float),
)
OWNERS = st.builds(
    Owner,
    st.sampled_from([P0, R0, R0B, P1, P2]).map(node_id),
    st.sampled_from([R0, R0B, P1, None]),
    st.integers(0, 9),
    st.sampled_from(SOME),
)
CHANGES = st.one_of(
    st.sampled_from(Server).map(lambda server: {"server": server, "held": server is Server.DOWN}),
    st.just({"held": False}),
    st.sampled_from([True, False, None]).map(lambda synced: {"synced": synced}),
    st.sampled_from(SOME).map(lambda slots: {"slots": slots, "role": Role.PRIMARY, "primary_id": ""}),
    st.integers(0, 9).map(lambda epoch: {"config_epoch": epoch}),
    st.integers(0, 9).map(lambda epoch: {"current_epoch": epoch}),
    st.sampled_from([P0, R0, P1]).map(
        lambda member: {"role": Role.REPLICA, "primary_id": node_id(member), "slots": EMPTY}
    ),
    st.lists(OWNERS, max_size=3).map(lambda owners: {"owners": tuple(owners)}),
    st.just({"node_id": "n" * 40}),
)


def tales(base: Tale) -> st.SearchStrategy[Tale]:
    """What a member may tell: as it should be, but for its data and a few things."""
    changes = st.lists(CHANGES, max_size=2)
    return st.builds(
        lambda data, changed: replace(base, data=data, **{k: v for c in changed for k, v in c.items()}), DATA, changes
    )


BOTH = (R0, R0B)
MINE = tales(primary(Data(), replicas=BOTH))
ITS = tales(replica(Data(), R0, replicas=BOTH))
OTHERS = st.fixed_dictionaries(
    {},
    optional={
        R0B: tales(replica(Data(), R0B, replicas=BOTH)),
        P1: tales(primary(Data(), P1, server=Server.UP)),
        P2: tales(primary(Data(), P2, server=Server.UP)),
    },
)
WAITED = st.sampled_from([0.0, 2.0, 5.0, 20.0, 70.0, 700.0])


@settings(max_examples=200, deadline=None)
@given(MINE, st.none() | ITS, OTHERS, WAITED)
def test_every_wait_ends_when_it_was_said_to(
    me: Tale, its: Tale | None, others: dict[Member, Tale], waited_s: float
) -> None:
    heard = others if its is None else {R0: its, **others}
    verdict = decide(me, heard, waited_s)
    if isinstance(verdict, Hold):
        assert waited_s < verdict.until_s <= RULES.alive_s
        assert isinstance(decide(me, heard, verdict.until_s), Start)


def taken_from(me: Tale, heard: dict[Member, Tale]) -> SlotSet:
    """Its slots of which a server that runs tells its own one, once that runs, that another owns them by now."""
    running = {member: tale for member, tale in heard.items() if tale.server is Server.UP}
    return union(one.slots for one in newer_owners(me.node_id, me.slots, me.config_epoch, running))


def serves_unwarned(me: Tale, heard: dict[Member, Tale], waited_s: float) -> bool:
    """Whether it is let start, without a warning, and serves then: it is a primary of slots that nobody else has."""
    verdict = decide(me, heard, waited_s)
    serves = me.role is Role.PRIMARY and not me.slots.issubset(taken_from(me, heard))
    return isinstance(verdict, Start) and not verdict.warning and serves


@settings(max_examples=200, deadline=None)
@given(MINE, st.none() | ITS, OTHERS, WAITED)
def test_who_starts_to_serve_without_a_warning_knows_of_nobody_with_more(
    me: Tale, its: Tale | None, others: dict[Member, Tale], waited_s: float
) -> None:
    heard = others if its is None else {R0: its, **others}
    if not serves_unwarned(me, heard, waited_s):
        return
    taken = taken_from(me, heard)
    copies = [tale for tale in heard.values() if follows(tale, me.node_id)]
    assert {R0, R0B} <= heard.keys() or me.node_id != node_id(P0)
    assert not any(Scale(copies).is_ahead(tale, me) for tale in copies)
    assert not any(newer_owners(me.node_id, me.slots - taken, me.config_epoch, heard))


@settings(max_examples=200, deadline=None)
@given(MINE, ITS, OTHERS, WAITED, st.none() | WAITED)
def test_nobody_takes_over_without_a_promise_nor_with_data_that_may_be_nothing(
    its: Tale, me: Tale, others: dict[Member, Tale], down_s: float, forced_s: float | None
) -> None:
    verdict = stand_in(me, {P0: its, **others}, down_s, forced_s=forced_s)
    if isinstance(verdict, Promote):
        assert its.held or its.node_id != me.primary_id
        assert me.data.kind not in (Kind.NOTHING, Kind.UNKNOWN)


@settings(max_examples=200, deadline=None)
@given(MINE, ITS, OTHERS, WAITED, WAITED)
def test_of_a_primary_and_its_replica_that_go_by_the_same_tales_at_most_one_goes_on_without_a_warning(
    me: Tale, its: Tale, others: dict[Member, Tale], waited_s: float, down_s: float
) -> None:
    held = replace(me, server=Server.DOWN, held=True)
    takes = stand_in(its, {P0: held, **others}, down_s)
    if isinstance(takes, Promote) and its.primary_id == held.node_id:
        assert not serves_unwarned(held, {R0: its, **others}, waited_s), takes
