"""Every way in which the members of a 3x1 cluster can be found after a fault, and what the guard makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement, product

import pytest

from tests.unit.agent.guard_cases import THE_TABLE, State, copies, succeed, world_of
from tests.unit.agent.guard_world import World
from valkeyctl.agent.guard import RULES
from valkeyctl.agent.tale import Server
from valkeyctl.dataplane.model import Member

Pair = tuple[State, State]  # a shard's primary and its replica
PAIRS: tuple[Pair, ...] = tuple(product(THE_TABLE, repeat=2))
IN_TIME_S = RULES.absent_s + 8.0
"""Restarts, the wait for a member that is gone for good, once, and one of the world's longer steps."""


def members(*shards: Pair, primary_ordinal: int = 0) -> Mapping[Member, State]:
    """The states of all members, from each shard's primary and replica."""
    return {
        Member(shard, ordinal if primary_ordinal == 0 else 1 - ordinal): state
        for shard, pair in enumerate(shards)
        for ordinal, state in enumerate(pair)
    }


def can_be_served(shard: int, shards: tuple[Pair, ...]) -> bool:
    """Whether a shard can be served without a person: its primary comes back, or the others elect a living replica.

    A replica whose primary is silent and which isn't elected may lack whatever that did later: only a person, or a
    takeover that one has declared, decides that it is all there is.
    """
    primary, replica = shards[shard]
    others_vote = all(other[0] is not State.ABSENT for at, other in enumerate(shards) if at != shard)
    return primary is not State.ABSENT or (replica is State.RUNNING and others_vote)


def describe(world: World, shards: tuple[Pair, ...]) -> str:
    return f"{[(a.name, b.name) for a, b in shards]} at {world.now}: {world.served}, {world.promoted}"


def check(world: World, shards: tuple[Pair, ...], *, slack: int = 0) -> None:
    """Play it, and judge: all is served that can be, in time, by the best copy, and nobody served who was behind."""
    best = [max(copies(world, shard).values(), default=0) for shard in range(len(shards))]
    world.play()
    for shard in range(len(shards)):
        owner = world.owner(shard)
        assert (owner is not None) == can_be_served(shard, shards), describe(world, shards)
        assert owner is None or owner.live.writes >= best[shard] - slack, describe(world, shards)
        primaries = [pod.member for pod in world.pods.values() if pod.up and pod.member.shard == shard]
        assert sum(not world.pods[member].primary_id for member in primaries) <= 1, describe(world, shards)
    assert not world.forks, describe(world, shards)
    assert not world.pairs, describe(world, shards)
    assert all(served.writes >= served.best - slack for served in world.served), describe(world, shards)
    assert not world.is_whole or world.now <= IN_TIME_S, describe(world, shards)


@pytest.mark.parametrize("first", PAIRS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_every_combination(first: Pair) -> None:
    later = PAIRS[PAIRS.index(first) :]
    for others in combinations_with_replacement(later, 2):
        shards = (first, *others)
        check(world_of(members(*shards)), shards)


# What stands for the other shards in the variants below: healthy, recovering, and without a vote.
SURROUNDINGS: tuple[tuple[Pair, Pair], ...] = tuple(
    combinations_with_replacement(
        (
            (State.RUNNING, State.RUNNING),
            (State.SNAPSHOT, State.SNAPSHOT),
            (State.ABSENT, State.RUNNING),
        ),
        2,
    )
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_the_replica_s_snapshot_is_older(pair: Pair) -> None:
    for others in SURROUNDINGS:
        check(world_of(members(pair, *others), replica_snapshot=30), (pair, *others))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_the_primary_has_the_higher_ordinal(pair: Pair) -> None:
    for others in SURROUNDINGS:
        states = members(pair, *others, primary_ordinal=1)
        check(world_of(states, primary_ordinal=1), (pair, *others))


LOGGED = (State.RUNNING, State.EMPTY, State.SNAPSHOT, State.LOG, State.ABSENT)


@pytest.mark.parametrize("pair", list(product(LOGGED, repeat=2)), ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
@pytest.mark.parametrize("remembered", [True, None])
def test_a_log_that_lacks_what_was_in_memory(pair: Pair, *, remembered: bool | None) -> None:
    # Without the memory that both went together, a replica's log that is four writes ahead isn't believed to be.
    slack = 0 if remembered else 1
    for others in SURROUNDINGS:
        check(world_of(members(pair, *others), told_synced=remembered), (pair, *others), slack=slack)


@pytest.mark.parametrize("primary", [State.EMPTY, State.SNAPSHOT, State.LOG, State.FULL_LOG, State.REPLACED])
@pytest.mark.parametrize("replica", [State.UNSYNCED, State.LAGGING])
def test_a_replica_that_was_not_in_sync(primary: State, replica: State) -> None:
    for others in SURROUNDINGS:
        shards = ((primary, replica), *others)
        world = world_of(members(*shards))
        best = max(copies(world, 0).values())
        world.play()
        stood_in = {member for _, member, how in world.promoted if how != "own"}
        assert replica is not State.UNSYNCED or Member(0, 1) not in stood_in, describe(world, shards)
        owner = world.owner(0)
        # A replacement owns nothing until slots are given to it, which takes a person's consent: the shard was lost.
        assert (owner is None) == (primary is State.REPLACED and replica is State.UNSYNCED), describe(world, shards)
        assert owner is None or owner.live.writes >= best, describe(world, shards)


@pytest.mark.parametrize("replica", [State.RUNNING, State.LAGGING, State.SNAPSHOT, State.LOG])
def test_a_primary_that_came_back_as_another_node_is_replaced_by_its_copy(replica: State) -> None:
    for others in SURROUNDINGS:
        shards = ((State.REPLACED, replica), *others)
        world = world_of(members(*shards))
        best = max(copies(world, 0).values())
        world.play()
        owner = world.owner(0)
        assert owner is not None, describe(world, shards)
        assert owner.member == Member(0, 1), describe(world, shards)
        assert owner.live.writes == best > 0, describe(world, shards)


HEIRS = (State.RUNNING, State.SNAPSHOT, State.FULL_LOG, State.EMPTY, State.ABSENT)
LOADS_S = 30.0


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("former", [State.EMPTY, State.SNAPSHOT, State.LOG, State.FULL_LOG], ids=lambda one: one.name)
@pytest.mark.parametrize("heir", HEIRS, ids=lambda one: one.name)
@pytest.mark.parametrize("loads", [False, True], ids=["", "loads"])
def test_a_primary_that_was_replaced_while_it_was_away(heir: State, former: State, shards: int, *, loads: bool) -> None:
    """Whoever saw it, and however they come back, it doesn't serve its old history where one tells of the newer."""
    member = Member(0, 1)
    around = (State.RUNNING, State.SNAPSHOT, State.ABSENT)
    for other, seen in product(around if shards > 1 else around[:1], (False, True)):
        states = members((former, heir), *[(other, State.RUNNING)] * (shards - 1))
        world = world_of(states)
        running = [one for one, state in states.items() if state is State.RUNNING]
        everybody = [one for one in states if one != Member(0, 0)]
        succeed(world, member, knows=everybody if seen or member in running else ())
        pod = world.pods[member]
        if loads and pod.present and not pod.up:
            pod.server, pod.asked_at, pod.up_at = Server.LOADING, None, LOADS_S
        world.play()
        told = describe(world, tuple((former, heir) for _ in range(shards)))
        assert not world.forks, told
        assert not world.pairs, told
        owner, known = world.owner(0), seen or heir is not State.ABSENT
        if known and heir is not State.ABSENT:
            assert owner is not None, told
            assert owner.member == member, told
            assert not world.warned, told
        elif known and running and shards > 1:
            assert owner is None, f"the others say that it is the absent heir's: {told}"
        else:
            assert owner is not None, told
            assert world.warned == {0}, told
