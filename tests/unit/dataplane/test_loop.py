"""The common loop, over something that isn't a server at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from valkeyctl.dataplane import Absent, Blocked, Done, Endpoint, Member, Progress, Unreachable, Why, errors
from valkeyctl.dataplane.lookout import Lookout
from valkeyctl.dataplane.loop import TRIES, run
from valkeyctl.dataplane.rounds import Gathered, Plan, Round
from valkeyctl.dataplane.steps import AtMember, Wait

M = Member(0, 0)
N = Member(0, 1)


@dataclass(frozen=True)
class Add(AtMember):
    """Adds one to a number; `name` tells steps of a kind apart."""

    name: str = "one"

    def describe(self) -> str:
        return f"add {self.name}"


@dataclass(frozen=True)
class AddWhenSure(Add):
    sure_in_s: ClassVar[float] = 0.15


@dataclass(frozen=True)
class AddAndRest(Add):
    settles_in_s: ClassVar[float] = 3600.0


@dataclass
class Counting:
    """A number that is to become as large as declared."""

    decide: Callable[[int], Plan[Add]]
    refuses: Mapping[Add, errors.ValkeyctlError] = field(default_factory=dict[Add, errors.ValkeyctlError])
    number: int = 0
    looks: int = 0
    taken: list[Add] = field(default_factory=list[Add])
    name: str = "numbers"

    def look(self) -> int:
        self.looks += 1
        return self.number

    def carry_out(self, todo: Sequence[Add]) -> Mapping[Add, errors.ValkeyctlError]:
        self.taken += todo
        self.number += sum(1 for step in todo if step not in self.refuses)
        return {step: self.refuses[step] for step in todo if step in self.refuses}

    def summarize(self, view: int) -> str:
        return f"it is {view}"


def up_to(goal: int, step: Add | None = None) -> Callable[[int], Plan[Add]]:
    return lambda number: Done() if number >= goal else Round((step or Add(M),))


def go(work: Counting, *, deadline_s: float = 20.0, settle_s: float = 0.05) -> tuple[int, list[Progress]]:
    told: list[Progress] = []
    number = run(work, deadline_s=deadline_s, progress=told.append, may_go_on=lambda: None, settle_s=settle_s)
    return number, told


def test_it_takes_steps_until_the_plan_is_done_and_returns_what_showed_it() -> None:
    work = Counting(up_to(3))
    number, told = go(work)
    assert number == 3
    assert work.looks == 4
    assert told[-1].done == ("add one",) * 3
    assert told[0].text == "it is 0; 1 step"
    assert told[-1].text.startswith("Ready")


def test_at_the_goal_it_does_nothing() -> None:
    work = Counting(up_to(0))
    go(work)
    assert not work.taken


def test_a_step_is_not_repeated_before_it_can_show_its_effect() -> None:
    step = AddAndRest(M)
    work = Counting(up_to(2, step))
    with pytest.raises(errors.DeadlineExceeded) as raised:
        go(work, deadline_s=0.3)
    assert work.taken == [step]
    assert "add one" in raised.value.what
    assert raised.value.where == "numbers"
    assert raised.value.view == 1


def test_a_step_that_has_to_be_sure_is_told_first_and_called_for_without_a_break() -> None:
    step = AddWhenSure(M)
    calls = 0

    def now_and_then(number: int) -> Plan[Add]:
        nonlocal calls
        calls += 1
        if number:
            return Done()
        return Round((step,)) if calls > 3 or calls % 2 else Round((), (Wait(M, "it is sure"),))

    work = Counting(now_and_then)
    _, told = go(work)
    assert work.taken == [step]
    assert calls > 4
    assert told[0].waiting == ("about to: add one",)


def test_what_a_server_refuses_again_and_again_ends_it_and_the_rest_is_done_before() -> None:
    bad, good = Add(M, "bad"), Add(N, "good")
    refused = errors.ErrorReply("no", where="there", remedy="Ask nicely.")

    def decide(number: int) -> Plan[Add]:
        return Round((bad, good)) if number < 1 else Round((bad,))

    work = Counting(decide, {bad: refused})
    with pytest.raises(errors.Blocked) as raised:
        go(work)
    assert (raised.value.what, raised.value.where) == (f"add bad failed {TRIES} times: no", "there")
    assert raised.value.done == ("add good",)
    assert work.taken.count(bad) == TRIES


def test_who_cannot_be_reached_shows_at_the_next_look_and_is_no_failure_of_the_step() -> None:
    step = Add(M)
    work = Counting(up_to(1), {step: errors.ConnectFailed("gone")})
    with pytest.raises(errors.DeadlineExceeded):
        go(work, deadline_s=0.5)
    assert work.taken.count(step) > TRIES


def test_a_plan_is_blocked_only_when_it_stays_so() -> None:
    states: list[Plan[Add]] = [Blocked("odd", ""), Round((Add(M),)), Blocked("why", "Do it.")]
    work = Counting(lambda number: states[min(work.looks - 1, 2)] if number < 5 else Done())
    with pytest.raises(errors.Blocked) as raised:
        go(work)
    assert (raised.value.what, raised.value.remedy, raised.value.done) == ("why", "Do it.", ("add one",))


def test_it_stops_where_it_may_not_go_on() -> None:
    work = Counting(up_to(1))

    def may_go_on() -> None:
        if work.looks:
            raise errors.Interrupted("the lease is lost")

    with pytest.raises(errors.Interrupted):
        run(work, deadline_s=5, progress=lambda _: None, may_go_on=may_go_on)
    assert not work.taken, "the permission is asked for again before steps are taken"


def test_what_was_gathered_is_done_first_then_waited_for_then_for_a_person() -> None:
    found = Gathered[Add]()
    assert found.plan() == Done()
    found.symptom(M, "all is well")
    assert found.plan() == Round((), (Wait(M, "all is well"),))
    found.refuse("this", "Do this.", M)
    found.refuse("that", "Do that.", N)
    found.refuse("this", "Do this.", M)
    blocked = Blocked("this; that", "Do this. Do that.", (M, N))
    assert found.plan() == blocked
    found.do(Add(M))
    assert found.plan() == Round((Add(M),), (), blocked)


def test_a_lookout_lets_the_silent_rest_and_knows_since_when_each_is_missing() -> None:
    there = {M: Endpoint(M, "t-s0-0", "h0", "a0"), N: Endpoint(N, "t-s0-1", "h1", "a1")}
    asked: list[set[Member]] = []
    silent = Unreachable(there[N], Why.NO_ANSWER, "silent")

    def ask(at: Mapping[Member, Endpoint]) -> Mapping[Member, str | Unreachable | Absent]:
        asked.append(set(at))
        return {M: "here", N: silent if N in at else Absent(N)}

    lookout = Lookout[str](lambda: there, ask, missing_since={N: float("-inf")})
    for _ in range(2):
        seen = lookout.look()
        assert seen[M] == "here"
        outcome = seen[N]
        assert isinstance(outcome, Unreachable)
        assert outcome.for_s == float("inf")
    assert asked == [{M, N}, {M}], "who was silent isn't asked again at once"
    there[N] = replace(there[N], address="a2")
    lookout = Lookout[str](lambda: there, ask)
    first = lookout.look()[N]
    assert isinstance(first, Unreachable)
    assert first.for_s == 0.0
