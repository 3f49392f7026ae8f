"""One Sentinel is replaced at a time, and only while the others could fail over without it."""

from __future__ import annotations

import pytest

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.sentinel.model import sentinel
from valkeyctl.dataplane.sentinel.names import Names
from valkeyctl.lifecycle.roll_steps import Await, Finished, PodState, Replace
from valkeyctl.lifecycle.sentinel_rolling import Next, plan_roll

THREE = tuple(sentinel(ordinal) for ordinal in range(3))
S0, S1, S2 = THREE
WELL = Names({"a.orders": "", "b.carts": ""})


def pods(*outdated: Member, **more: PodState) -> dict[Member, PodState]:
    found: dict[Member, PodState] = {one: PodState(one, outdated=one in outdated) for one in THREE}
    return {**found, **{state.member: state for state in more.values()}}


def told(**instead: Names | None) -> dict[Member, Names]:
    """What each Sentinel says; `s1=None`: nothing."""
    every: dict[Member, Names | None] = dict.fromkeys(THREE, WELL)
    every |= {sentinel(int(name[1:])): names for name, names in instead.items()}
    return {one: names for one, names in every.items() if names is not None}


@pytest.mark.parametrize(
    ("states", "heard", "expected"),
    [
        (pods(), told(), Finished()),
        (pods(), told(s1=None), Await("sentinel-1 must answer")),
        (pods(S0, S1, S2), told(), Replace((S2,))),
        (pods(S0, S1), told(), Replace((S1,))),
        # One that runs and doesn't answer is mended by nothing else, and comes first.
        (pods(S0, S1, S2), told(s0=None), Replace((S0,))),
        (pods(S0, S1), told(s2=None), Await("sentinel-2 must answer before")),
        (pods(S0), told(s1=Names({"a.orders": ""})), Await("sentinel-1 must monitor b.carts again before")),
        (
            pods(S0),
            told(s2=Names({"a.orders": "NOQUORUM 1 usable", "b.carts": ""})),
            Await("a.orders isn't well for sentinel-2 (NOQUORUM 1 usable)"),
        ),
        # What the one that goes says itself is no matter.
        (pods(S0), told(s0=Names()), Replace((S0,))),
        (pods(s1=PodState(S1, outdated=True, runs=False)), told(s1=None), Replace((S1,), idle=True)),
        (
            pods(S0, s2=PodState(S2, outdated=True, terminating=True)),
            told(s2=None),
            Await("sentinel-2 must answer before"),
        ),
    ],
)
def test_who_is_next(states: dict[Member, PodState], heard: dict[Member, Names], expected: Next) -> None:
    assert plan_roll(THREE, states, heard) == expected


def test_a_set_that_monitors_nothing_yet_is_rolled_all_the_same() -> None:
    assert plan_roll(THREE, pods(S0), told(s0=Names(), s1=Names(), s2=Names())) == Replace((S0,))


def test_a_single_one_has_nobody_to_wait_for() -> None:
    one = (S0,)
    assert plan_roll(one, {S0: PodState(S0, outdated=True)}, {S0: WELL}) == Replace((S0,))
