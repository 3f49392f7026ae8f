"""How a server starts where Sentinels decide: every combination of what they, the others and the disk say."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.unit.agent.dataset.tales import (
    FULL_LOG,
    LOG,
    ME,
    NOTHING,
    SECOND,
    SNAPSHOT,
    THIRD,
    down,
    empty,
    primary,
    replica,
)
from valkeyctl.agent.dataset.council import Council, Word
from valkeyctl.agent.dataset.deciding import StartAs, Told, Wait
from valkeyctl.agent.dataset.sentinel_rules import Situation, start_as
from valkeyctl.agent.guard import RULES
from valkeyctl.agent.tale import Data, Kind
from valkeyctl.dataplane.model import Address, Member

ALL = (ME, SECOND, THIRD)
LONG_S = 3600.0


def council(named: str | None, answering: int = 3, *, failing_over: bool = False) -> Council:
    at = None if named is None else Address(named)
    words = (Word(Address(f"s{n}"), at, 1, failing_over=failing_over, others=2) for n in range(answering))
    return Council(tuple(words), 3)


SAY = {
    "all name me": (council("me"), ME),
    "two name me": (council("me", 2), ME),
    "one names me": (council("me", 1), ME),
    "all name another": (council("second"), SECOND),
    "one names another": (council("second", 1), SECOND),
    "a stranger": (council("stranger"), None),
    "none knows the name": (council(None), None),
    "none answers": (Council((), 3), None),
    "they fail over": (council("me", failing_over=True), ME),
}
DATA = {"nothing": NOTHING, "snapshot": SNAPSHOT, "log": LOG, "full log": FULL_LOG}
TELL: dict[str, Told] = {
    "two in sync": {SECOND: replica(SECOND), THIRD: replica(THIRD)},
    "one in sync, one silent": {SECOND: replica(SECOND)},
    "two empty": {SECOND: empty(SECOND), THIRD: empty(THIRD)},
    "one empty, one silent": {THIRD: empty(THIRD)},
    "two with old snapshots": {
        SECOND: down(SECOND, replace(SNAPSHOT, offset=400)),
        THIRD: down(THIRD, replace(SNAPSHOT, offset=300)),
    },
    "one with a newer snapshot": {SECOND: down(SECOND, replace(SNAPSHOT, offset=600)), THIRD: empty(THIRD)},
    "a primary": {SECOND: primary(SECOND), THIRD: replica(THIRD, upstream=SECOND, linked=True)},
    "two primaries": {SECOND: primary(SECOND), THIRD: primary(THIRD)},
    "one that follows a silent one": {SECOND: replica(SECOND, upstream=THIRD, linked=True)},
    "nobody": {},
}
AHEAD = (
    {("two in sync", kind) for kind in ("nothing", "snapshot", "log")}
    | {("one in sync, one silent", kind) for kind in ("nothing", "snapshot", "log")}
    | {(tell, "nothing") for tell in ("two with old snapshots", "one with a newer snapshot")}
    | {("one with a newer snapshot", "snapshot")}
    | {("one that follows a silent one", kind) for kind in ("nothing", "snapshot", "log")}
)
EVERY = list(itertools.product(SAY, DATA, TELL))


def judged(say: str, data: str, tell: str, waited_s: float) -> StartAs | Wait:
    found, named = SAY[say]
    return start_as(Situation(down(data=DATA[data]), TELL[tell], found, named, ALL, waited_s=waited_s))


@pytest.mark.parametrize(("say", "data", "tell"), EVERY, ids=[" / ".join(one) for one in EVERY])
def test_every_combination(say: str, data: str, tell: str) -> None:
    at_once, at_last = judged(say, data, tell, 0.0), judged(say, data, tell, LONG_S)
    assert isinstance(at_last, StartAs), "every wait ends by itself"
    names_me = say in ("all name me", "two name me")
    others_primary = tell in ("a primary", "two primaries")
    ahead = (tell, data) in AHEAD
    if names_me and not others_primary and not ahead:
        assert at_last == StartAs(at_last.why, writable=True, warning=at_last.warning)
        silent = len(TELL[tell]) < 2
        assert isinstance(at_once, Wait if silent else StartAs)
        assert at_last.warning is silent
    else:
        assert not at_last.writable
        assert not (isinstance(at_once, StartAs) and at_once.writable)
    if say == "all name another":
        assert at_once == at_last == StartAs("the Sentinels name it", SECOND)
    if names_me and (others_primary or ahead):
        assert isinstance(at_once, Wait), "its server stays down, so that the Sentinels fail over"
        assert at_last.follow is None
        assert at_last.warning
    if say in ("one names me", "one names another", "a stranger", "none knows the name", "none answers"):
        expected: Member | None = {"a primary": SECOND, "one that follows a silent one": THIRD}.get(tell)
        assert at_last.follow == expected


def test_nobody_is_asked_before_the_dataset_was_formed() -> None:
    found, named = SAY["all name me"]
    verdict = start_as(Situation(down(), {}, found, named, ALL, formed=False))
    assert isinstance(verdict, StartAs)
    assert not verdict.writable


def test_one_with_its_log_waits_less_for_those_that_are_silent() -> None:
    assert judged("all name me", "log", "one empty, one silent", RULES.log_s) == StartAs(
        "the Sentinels name it, and nobody else is ahead; not heard: s0-1", writable=True, warning=True
    )
    assert isinstance(judged("all name me", "nothing", "one empty, one silent", RULES.log_s), Wait)


def test_one_that_runs_and_loads_is_waited_for_longer_than_one_that_is_down() -> None:
    at = RULES.stuck_s
    assert isinstance(judged("all name me", "nothing", "two in sync", at), Wait)
    assert isinstance(judged("all name me", "nothing", "two with old snapshots", at), StartAs)


def test_one_that_is_about_to_stop_isn_t_waited_for() -> None:
    found, named = SAY["all name me"]
    leaving = {SECOND: replace(replica(SECOND), wants_to_stop=True), THIRD: empty(THIRD)}
    verdict = start_as(Situation(down(), leaving, found, named, ALL))
    assert isinstance(verdict, StartAs)
    assert verdict.writable


def test_a_running_server_that_follows_nobody_is_judged_by_what_it_loaded() -> None:
    found, named = SAY["all name me"]
    me = replace(empty(ME), data=Data(Kind.SNAPSHOT, SNAPSHOT.replication_id, 500, 1.0))
    verdict = start_as(Situation(me, TELL["two with old snapshots"], found, named, ALL))
    assert isinstance(verdict, StartAs)
    assert verdict.writable
