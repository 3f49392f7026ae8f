"""A Lease says who takes writes: with real servers, while each part in turn is killed, frozen, or cut off.

Clients write to every member's own address all the time. At no moment may two of them take it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.agent.arbiters import DURATION_S, INSTANCE, NAMESPACE, Arbiters
from tests.agent.everywhere import Everywhere
from valkeyctl.dataplane import Member
from valkeyctl.kube.access import connect
from valkeyctl.kube.primary_lease import wish_for

ZERO, ONE, TWO = (Member(0, ordinal) for ordinal in range(3))
SLACK_S = 3.0
"""For a machine that is busy with other tests; what it takes at its best is measured in bench."""


@pytest.fixture
def arbiters() -> Iterator[Arbiters]:
    with Arbiters("9.1") as started:
        yield started


@pytest.fixture
def everywhere(arbiters: Arbiters) -> Iterator[Everywhere]:
    with Everywhere(arbiters) as writers:
        arbiters.eventually(lambda: writers.turns() == [ZERO])
        yield writers


def taken_over(arbiters: Arbiters, everywhere: Everywhere, since: float) -> float:
    """Wait until another than the first takes writes; how long nobody did."""
    arbiters.eventually(lambda: everywhere.after(since, but=ZERO))
    return everywhere.gap_s(since)


def test_the_role_is_moved_by_a_wish(line: str) -> None:
    with Arbiters(line) as arbiters, Everywhere(arbiters) as everywhere:
        arbiters.eventually(lambda: everywhere.turns() == [ZERO])
        began = time.monotonic()
        wish_for(connect(arbiters.api.kubeconfig, None), NAMESPACE, INSTANCE, TWO)
        arbiters.eventually(lambda: arbiters.primary() == TWO)
        arbiters.eventually(lambda: arbiters.settled() and arbiters.holder.endswith("s0-2"))
        assert everywhere.turns() == [ZERO, TWO]
        assert everywhere.gap_s(began) < 1.0 + SLACK_S
        assert everywhere.lost(TWO, before=time.monotonic() - 1.0) == []


def test_a_killed_server_is_replaced_at_once(line: str) -> None:
    with Arbiters(line) as arbiters, Everywhere(arbiters) as everywhere:
        arbiters.eventually(lambda: everywhere.turns() == [ZERO])
        killed = time.monotonic()
        arbiters.pods[ZERO].kill_server()
        assert taken_over(arbiters, everywhere, killed) < 1.0 + SLACK_S
        arbiters.eventually(arbiters.settled)
        assert len(everywhere.turns()) == 2


def test_a_lost_node_is_replaced_when_its_lease_has_run_out(line: str) -> None:
    with Arbiters(line) as arbiters, Everywhere(arbiters) as everywhere:
        arbiters.eventually(lambda: everywhere.turns() == [ZERO])
        lost = time.monotonic()
        arbiters.pods[ZERO].stop()
        assert taken_over(arbiters, everywhere, lost) < DURATION_S + 2.0 + SLACK_S
        arbiters.pods[ZERO].start_agent()
        arbiters.pods[ZERO].start_container()
        arbiters.eventually(arbiters.settled)
        assert len(everywhere.turns()) == 2


def test_a_frozen_agent(arbiters: Arbiters, everywhere: Everywhere) -> None:
    frozen = time.monotonic()
    arbiters.pods[ZERO].signal_agent(signal.SIGSTOP)
    assert taken_over(arbiters, everywhere, frozen) < DURATION_S + 2.0 + SLACK_S
    time.sleep(DURATION_S)
    arbiters.pods[ZERO].signal_agent(signal.SIGCONT)
    arbiters.eventually(arbiters.settled)
    assert len(everywhere.turns()) == 2


def test_a_killed_agent_that_comes_back_in_time_changes_nothing(arbiters: Arbiters, everywhere: Everywhere) -> None:
    killed = time.monotonic()
    arbiters.pods[ZERO].kill_agent()
    arbiters.pods[ZERO].start_agent()
    time.sleep(2 * DURATION_S)
    assert everywhere.turns() == [ZERO]
    assert everywhere.gap_s(killed) < SLACK_S
    assert arbiters.settled()


def test_a_killed_agent_that_stays_away(arbiters: Arbiters, everywhere: Everywhere) -> None:
    killed = time.monotonic()
    arbiters.pods[ZERO].kill_agent()
    assert taken_over(arbiters, everywhere, killed) < DURATION_S + 2.0 + SLACK_S
    arbiters.pods[ZERO].start_agent()
    arbiters.eventually(arbiters.settled)
    assert len(everywhere.turns()) == 2


def test_a_frozen_server_is_ended_before_it_can_thaw(arbiters: Arbiters, everywhere: Everywhere) -> None:
    pid, frozen = arbiters.pods[ZERO].server_pid, time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    assert taken_over(arbiters, everywhere, frozen) < DURATION_S + 2.0 + SLACK_S
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    arbiters.eventually(arbiters.settled)
    assert len(everywhere.turns()) == 2


def test_a_server_and_its_agent_frozen_together(arbiters: Arbiters, everywhere: Everywhere) -> None:
    pid, frozen = arbiters.pods[ZERO].server_pid, time.monotonic()
    arbiters.pods[ZERO].signal_agent(signal.SIGSTOP)
    os.kill(pid, signal.SIGSTOP)
    assert taken_over(arbiters, everywhere, frozen) < DURATION_S + 2.0 + SLACK_S
    arbiters.pods[ZERO].signal_agent(signal.SIGCONT)
    arbiters.eventually(arbiters.settled)
    assert len(everywhere.turns()) == 2


def test_without_the_api_server_the_primary_goes_on(arbiters: Arbiters, everywhere: Everywhere) -> None:
    cut, stream = time.monotonic(), arbiters.role(ZERO)["master_replid"]
    for relay in arbiters.to_api.values():
        relay.cut.set()
    time.sleep(4 * DURATION_S)
    assert everywhere.turns() == [ZERO]
    assert everywhere.gap_s(cut) < SLACK_S
    for relay in arbiters.to_api.values():
        relay.cut.clear()
    time.sleep(2 * DURATION_S)
    assert everywhere.turns() == [ZERO]
    assert arbiters.role(ZERO)["master_replid"] == stream, "it was stopped meanwhile"
    assert arbiters.settled()


def test_cut_off_from_the_api_server_alone_it_goes_on(arbiters: Arbiters, everywhere: Everywhere) -> None:
    cut, stream = time.monotonic(), arbiters.role(ZERO)["master_replid"]
    arbiters.to_api[ZERO].cut.set()
    time.sleep(4 * DURATION_S)
    assert everywhere.turns() == [ZERO]
    assert arbiters.role(ZERO)["master_replid"] == stream, "it was stopped meanwhile"
    assert everywhere.gap_s(cut) < SLACK_S


def test_without_the_api_server_and_one_promise_it_stops(arbiters: Arbiters, everywhere: Everywhere) -> None:
    for relay in arbiters.to_api.values():
        relay.cut.set()
    arbiters.pods[TWO].signal_agent(signal.SIGSTOP)
    stops = time.monotonic() + 2 * DURATION_S
    time.sleep(2 * DURATION_S + 2.0)
    assert everywhere.after(stops) == []
    pid = arbiters.pods[ZERO].server_pid
    for relay in arbiters.to_api.values():
        relay.cut.clear()
    arbiters.eventually(lambda: everywhere.after(stops))
    assert len(everywhere.turns()) <= 2
    assert arbiters.pods[ZERO].server_pid == pid, "its agent stopped it, the watchdog had nothing to do"
    primary = arbiters.primary()
    assert primary is not None
    assert everywhere.lost(primary, before=stops) == []
    arbiters.pods[TWO].signal_agent(signal.SIGCONT)
    arbiters.eventually(arbiters.settled)


def test_cut_off_from_everybody_it_stops_in_time(arbiters: Arbiters, everywhere: Everywhere) -> None:
    cut = time.monotonic()
    arbiters.isolate(ZERO)
    assert taken_over(arbiters, everywhere, cut) < DURATION_S + 2.0 + SLACK_S
    time.sleep(DURATION_S)
    arbiters.join(ZERO)
    arbiters.eventually(arbiters.settled)
    assert len(everywhere.turns()) == 2


def test_a_replica_that_is_cut_off_changes_nothing(arbiters: Arbiters, everywhere: Everywhere) -> None:
    arbiters.isolate(ONE)
    time.sleep(3 * DURATION_S)
    arbiters.join(ONE)
    arbiters.eventually(arbiters.settled)
    assert everywhere.turns() == [ZERO]
