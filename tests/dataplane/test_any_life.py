"""Whatever happens to a cluster, a converge makes it whole: random faults, scalings and interruptions, with writes.

A state machine drives a real cluster of four to six servers. Every example ends with a whole converge; after each one
all slots are covered, each by one owner in everybody's eyes, replicas are in sync, no key is lost, and nothing is left
to do. CI runs a few examples, always the same ones. To look for what nobody has thought of, run many, different each
time, on as many processes as the machine bears:

    VALKEY_LIFE_EXAMPLES=50 pytest tests/dataplane/test_any_life.py -n 3

That also has nodes forgotten by hand that nobody lets come back for a minute. A failure tells all that happened. What
servers do takes its own time, so the same examples need not end alike; nothing is shrunk, as that would take hours.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.dataplane.life import Life
from tests.dataplane.servers import Fleet
from valkeyctl.dataplane import SLOTS

EXAMPLES = int(os.environ.get("VALKEY_LIFE_EXAMPLES", "0"))
BUDGET = settings(
    max_examples=EXAMPLES or 3,
    stateful_step_count=12 if EXAMPLES else 10,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
#: Lines, and how they move slots.
WAYS = [("9.1", "auto"), ("9.1", "keys"), ("8.1", "auto")]
WHICH = st.integers(0, 7)
#: So few that most are overwritten and deleted some time.
KEY = st.integers(0, 23).map("k{}".format)
KEYS = st.lists(KEY, min_size=4, max_size=12, unique=True)
SHARDS = st.integers(2, 3)


class AnyLife(RuleBasedStateMachine):
    """What happens, in any order. What isn't possible as things stand does nothing."""

    line = ""
    method = "auto"

    @initialize(shards=SHARDS, keys=KEYS)
    def form(self, shards: int, keys: list[str]) -> None:
        self.life = Life(self.line, shards, self.method)
        self.life.write(keys)

    @rule(keys=KEYS)
    def write(self, keys: list[str]) -> None:
        self.life.write(keys)

    @rule(keys=KEYS)
    def delete(self, keys: list[str]) -> None:
        self.life.write(keys, delete=True)

    @rule(which=WHICH, back=st.booleans())
    def kill(self, which: int, back: bool) -> None:  # noqa: FBT001
        self.life.faults.kill(which, back=back)

    @rule(which=WHICH)
    def resume(self, which: int) -> None:
        self.life.faults.resume_one(which)

    @rule(which=WHICH)
    def lose_disk(self, which: int) -> None:
        self.life.faults.lose_disk(which)

    @rule(which=WHICH, how=st.sampled_from(["SOFT", "HARD"]))
    def reset(self, which: int, how: str) -> None:
        self.life.faults.reset(which, how)

    @rule(which=WHICH, first=st.integers(0, SLOTS - 1), count=st.integers(0, 6000))
    def drop_slots(self, which: int, first: int, count: int) -> None:
        self.life.faults.drop_slots(which, first, count)

    @rule(which=WHICH, whom=WHICH)
    def mislead(self, which: int, whom: int) -> None:
        self.life.faults.mislead(which, whom)

    @rule(key=KEY, whom=WHICH, ends=st.sampled_from(["both", "both", "migrating", "importing"]))
    def open_slot(self, key: str, whom: int, ends: str) -> None:
        self.life.faults.open_slot(Fleet.slot(key), whom, ends)

    @rule(which=WHICH)
    def hand_over(self, which: int) -> None:
        self.life.faults.hand_over(which)

    @rule(which=WHICH, whom=WHICH)
    def forget_and_lose_power(self, which: int, whom: int) -> None:
        self.life.faults.forget(which, whom)
        self.life.faults.restart_all()

    @precondition(lambda _: EXAMPLES)
    @rule(which=WHICH, whom=WHICH)
    def forget(self, which: int, whom: int) -> None:
        self.life.faults.forget(which, whom)

    @rule(shards=SHARDS)
    def declare(self, shards: int) -> None:
        self.life.declare(shards)

    @rule(most=st.integers(1, 12))
    def converge_partly(self, most: int) -> None:
        self.life.converge_partly(most)

    @rule(with_all=st.booleans())
    def converge(self, with_all: bool) -> None:  # noqa: FBT001
        self.life.converge(with_all=with_all)

    def teardown(self) -> None:
        if not hasattr(self, "life"):
            return
        try:
            if not self.life.broken:
                self.life.converge()
        finally:
            self.life.end()


@pytest.mark.timeout(600 + 120 * EXAMPLES)
@pytest.mark.parametrize(("line", "method"), WAYS, ids=["9.1 atomic", "9.1 by keys", "8.1"])
def test_a_converge_makes_whole_whatever_has_happened(line: str, method: str) -> None:
    kind = type("AnyLife", (AnyLife,), {"line": line, "method": method})
    run_state_machine_as_test(kind, settings=BUDGET)
