"""Failovers are left to the Sentinels, and planned handovers lose nothing that was acknowledged."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Self

import pytest
import valkey

from tests.dataplane.background import Background
from tests.dataplane.scenes import Told
from tests.dataplane.sentinels import APPLICATION, Dataset
from valkeyctl.dataplane import DirectDialer, Member, errors
from valkeyctl.dataplane.sentinel.handing import move
from valkeyctl.dataplane.session import Session

FIRST, SECOND, THIRD = Member(0, 0), Member(0, 1), Member(0, 2)


class StubbornWriter(Background):
    """Writes to whichever server takes writes, and stays with it for as long as it does: whatever Sentinels say."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__()
        self._dataset = dataset
        self._begun = threading.Event()
        self.acknowledged: dict[str, str] = {}
        self.longest_gap_s = 0.0

    def lost(self, primary: Member) -> list[str]:
        """The acknowledged writes that the primary doesn't have."""
        with self._dataset.servers[primary].client() as client:
            found = client.mget(list(self.acknowledged))
        return [key for (key, value), seen in zip(self.acknowledged.items(), found, strict=True) if seen != value]

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._begun.wait(20), "the first write was never acknowledged"
        return self

    def _run(self) -> None:
        number, last = 0, time.monotonic()
        while not self._ending.is_set():
            for member in list(self._dataset.server_directory()):
                client = self._dataset.servers[member].client()
                try:
                    while not self._ending.is_set():
                        number += 1
                        client.set(f"written:{number}", str(number))
                        self.acknowledged[f"written:{number}"] = str(number)
                        self._begun.set()
                        now = time.monotonic()
                        self.longest_gap_s, last = max(self.longest_gap_s, now - last), now
                        time.sleep(0.002)
                except valkey.ValkeyError:
                    continue
                finally:
                    client.close()


@pytest.fixture
def dataset(line: str) -> Dataset:
    return Dataset(line)


def test_a_failover_is_left_to_the_sentinels(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)
        dataset.servers[FIRST].kill()
        told = Told()
        view = dataset.run(spec, told=told)
        assert told.done == (), "nobody was told anything"
        assert any("may be the primary" in wait for line in told.lines for wait in line.waiting)
        primary = next(member for member in (SECOND, THIRD) if dataset.role(member) == "master")
        assert all(dataset.named_primary(ordinal) == dataset.address(primary) for ordinal in range(3))
        assert {s.monitored.config_epoch for s in view.sentinels.values() if s.monitored} != {0}

        # The former primary comes back under its old name, as a replica.
        server = dataset.servers[FIRST]
        at = dataset.address(primary)
        server.options = {**server.options, "replicaof": f"{at.host} {at.port}"}
        server.start()
        server.await_answer()
        told = Told()
        dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, primary)
        assert told.done == ()


def test_the_role_is_handed_over_under_a_writer(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)
        for wanted in (THIRD, FIRST):
            with StubbornWriter(dataset) as writer:
                told = Told()
                dataset.run(replace(spec, wanted=wanted), told=told)
                time.sleep(0.2)
            dataset.assert_as_declared(spec, wanted)
            assert len([line for line in told.done if "hand orders over" in line]) == 1, told.done
            assert writer.lost(wanted) == []
            # What was set for the moment is set back.
            for member in spec.servers:
                assert dataset.ask(member, "CONFIG", "GET", "replica-priority") == ["replica-priority", "100"]
        again = Told()
        dataset.run(replace(spec, wanted=FIRST), told=again)
        assert again.done == ()


def test_newer_sentinels_hand_over_between_older_servers() -> None:
    with Dataset("8.1", members=2, newer=True) as dataset:
        dataset.start()
        spec = replace(dataset.spec, wanted=SECOND)
        told = Told()
        with StubbornWriter(dataset) as writer:
            dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, SECOND)
        assert any("coordinated" in line for line in told.done)
        assert writer.lost(SECOND) == []


def test_a_handover_stopped_after_each_step_is_finished_by_the_next_run(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)
        with StubbornWriter(dataset) as writer:
            for _ in range(8):
                if not dataset.take_steps(replace(spec, wanted=SECOND), 1):
                    break
            dataset.run(replace(spec, wanted=SECOND))
        dataset.assert_as_declared(spec, SECOND)
        assert writer.lost(SECOND) == []


@pytest.mark.parametrize("prepared", [True, False], ids=["priorities set", "by hand"])
def test_sentinels_follow_a_role_that_moved_without_them(dataset: Dataset, *, prepared: bool) -> None:
    """What a run leaves that was killed between the servers' half of a handover and the Sentinel's."""
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)
        if prepared:
            for member in (FIRST, SECOND):
                dataset.ask(member, "CONFIG", "SET", "replica-priority", 101)
            dataset.await_(
                lambda: sorted(e["slave-priority"] for e in dataset.entries(0, "REPLICAS")) == ["100", "101"]
            )
        with StubbornWriter(dataset) as writer:
            endpoint = dataset.server_directory()[FIRST]
            session = Session(endpoint, DirectDialer(APPLICATION), 5.0)
            at = dataset.address(THIRD)
            move(session, 5.0, ("FAILOVER", "TO", at.host, at.port, "TIMEOUT", 2000))
            session.close()
            assert dataset.role(THIRD) == "master"
            dataset.run(spec)
        dataset.assert_as_declared(spec, THIRD)
        assert writer.lost(THIRD) == []
        for member in spec.servers:
            assert dataset.ask(member, "CONFIG", "GET", "replica-priority") == ["replica-priority", "100"]


def test_a_replica_that_cannot_catch_up_takes_nothing_over_and_writes_go_on(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)
        frozen = dataset.servers[SECOND]
        frozen.freeze()
        try:
            session = Session(dataset.server_directory()[FIRST], DirectDialer(APPLICATION), 5.0)
            with StubbornWriter(dataset) as writer:
                at = dataset.address(SECOND)
                with pytest.raises(errors.ErrorReply, match="stays the primary"):
                    move(session, 5.0, ("FAILOVER", "TO", at.host, at.port, "TIMEOUT", 300))
                time.sleep(0.1)
            session.close()
            assert dataset.role(FIRST) == "master"
            assert writer.longest_gap_s < 5
        finally:
            frozen.thaw()
        assert writer.lost(FIRST) == []
