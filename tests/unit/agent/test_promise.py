"""No start is permitted while somebody may act on having been told that there is none, whatever ends or is late."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from valkeyctl.agent.promise import PROMISE_S, Promise
from valkeyctl.agent.promotion import ACT_S

STEP_S = st.sampled_from([0.05, ACT_S - 0.2, PROMISE_S - 0.01, PROMISE_S + 0.01])


class Agents(RuleBasedStateMachine):
    """One member's agents, one after the other, and those who ask them; each step may come at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = 1000.0
        self.permit = False  # what is on the volume: the answer at the door
        self.was_held = False  # what a tale says that was made and not told yet
        self.told_at = float("-inf")
        self.asked_at: float | None = None
        self.may_start = False

    @initialize()
    def begin(self) -> None:
        """The first agent comes up."""
        self._come_up()

    def _come_up(self) -> None:
        file = Path(self.folder.name) / "promised"
        self.promise = Promise(file, permitted=self.permit, now=lambda: self.now)

    def teardown(self) -> None:
        """Clean up."""
        self.folder.cleanup()

    @rule(seconds=STEP_S)
    def time_goes_on(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @rule()
    def a_replica_asks(self) -> None:
        """The tale for it is made now, and told later."""
        self.asked_at, self.was_held = self.now, self.promise.held

    @precondition(lambda self: self.asked_at is not None)
    @rule()
    def it_is_answered(self) -> None:
        """It may act for `ACT_S` from when it has asked, if it is told that the server is held."""
        assert self.asked_at is not None
        if self.was_held and self.promise.give():
            self.told_at = self.asked_at
        self.asked_at = None

    @precondition(lambda self: self.asked_at is None)
    @rule()
    def a_replica_asks_and_is_answered(self) -> None:
        """As mostly, at once."""
        self.a_replica_asks()
        self.it_is_answered()

    @rule(start=st.booleans())
    def a_start_is_judged(self, *, start: bool) -> None:
        """Whatever is found, and at once or not: it is permitted only if nobody may act."""
        self.may_start = self.promise.intend(start=start)

    @precondition(lambda self: self.may_start)
    @rule()
    def it_is_permitted(self) -> None:
        """As the gate does: what it keeps in mind first, then the answer at the door."""
        self.promise.permit()
        self.permit, self.may_start = True, False

    @rule(seconds=STEP_S)
    def a_start_is_found_right(self, seconds: float) -> None:
        """After a while, and is permitted at once where it may be."""
        self.now += seconds
        self.a_start_is_judged(start=True)
        if self.may_start:
            self.it_is_permitted()

    @rule()
    def the_server_ends(self) -> None:
        """And the agent notices."""
        self.promise.withdraw()
        self.permit = False

    @rule()
    def the_agent_is_killed(self) -> None:
        """Another one comes up in its place; answers that were under way are lost."""
        self.asked_at, self.may_start = None, False
        self._come_up()

    @invariant()
    def nobody_acts_on_a_promise_while_a_server_may_start(self) -> None:
        """The one thing that counts."""
        assert not (self.permit and self.now - self.told_at < ACT_S)


class TestAgents(Agents.TestCase):
    """All of it, in any order."""

    settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("noted", ["", "nonsense\n", "1e9\n"], ids=["nothing", "nonsense", "a time to come"])
def test_what_was_noted_and_is_not_understood_counts_as_new(tmp_path: Path, noted: str) -> None:
    """A machine that began anew counts from zero again."""
    (tmp_path / "promised").write_text(noted)
    now = 50.0
    promise = Promise(tmp_path / "promised", permitted=False, now=lambda: now)
    assert not promise.intend(start=True)
    now += PROMISE_S + 0.1
    assert promise.intend(start=True)


def test_where_nothing_was_promised_nothing_is_waited_for(tmp_path: Path) -> None:
    assert Promise(tmp_path / "promised", permitted=False).intend(start=True)


def test_an_intended_start_that_is_not_permitted_is_held_again(tmp_path: Path) -> None:
    promise = Promise(tmp_path / "promised", permitted=False)
    promise.intend(start=True)
    assert not promise.held
    assert not promise.give()
    promise.intend(start=False)
    assert promise.held
    assert promise.give()
