"""Sentinels forget who is gone, one Sentinel at a time, and are made more and fewer."""

from __future__ import annotations

import pytest

from tests.dataplane.scenes import Told
from tests.dataplane.sentinels import NAME, Dataset, fixed_id, resized
from valkeyctl.dataplane import Member
from valkeyctl.dataplane.sentinel.model import sentinel

FIRST, EXTRA = Member(0, 0), Member(0, 7)


@pytest.fixture
def dataset(line: str) -> Dataset:
    return Dataset(line, members=2)


def test_a_stale_replica_and_a_replaced_sentinel_are_forgotten(dataset: Dataset) -> None:
    with dataset:
        dataset.start(sentinels=2)
        dataset.add_sentinel(2, sentinel_id="f" * 40)
        spec = dataset.spec
        dataset.add_server(EXTRA, follow=FIRST)
        for ordinal in range(3):
            address = dataset.address(FIRST)
            dataset.tell(ordinal, "SENTINEL", "MONITOR", NAME, address.host, address.port, 2)
            dataset.tell(ordinal, "SENTINEL", "SET", NAME, "down-after-milliseconds", 2000)
            dataset.tell(ordinal, "SENTINEL", "SET", NAME, "auth-user", "watcher", "auth-pass", "watcher-secret")
        dataset.await_(lambda: all(len(dataset.entries(o, "REPLICAS")) == 2 for o in range(3)))
        dataset.await_(lambda: all(len(dataset.entries(o, "SENTINELS")) == 2 for o in range(3)))
        dataset.servers[EXTRA].kill()
        dataset.sentinels[sentinel(2)].kill()
        dataset.add_sentinel(2)
        told = Told()
        dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, FIRST)
        resets = [line for line in told.done if ": reset" in line]
        assert {line.partition(":")[0] for line in resets} >= {"sentinel-0", "sentinel-1"}
        again = Told()
        dataset.run(spec, told=again)
        assert again.done == ()


def test_from_three_to_five_and_back(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        three = dataset.spec
        dataset.run(three)
        for ordinal in (3, 4):
            dataset.add_sentinel(ordinal)
        five = resized(three, 5, 3)
        told = Told()
        dataset.run(five, told=told)
        dataset.assert_as_declared(five, FIRST)
        assert not any("reset" in line for line in told.done)

        fewer = resized(three, 3, 2, leaving=2)
        dataset.take_steps(fewer, 3)
        told = Told()
        dataset.run(fewer, told=told)
        for ordinal in (3, 4):
            dataset.sentinels[sentinel(ordinal)].kill()
        dataset.run(three)
        dataset.assert_as_declared(three, FIRST)
        assert {entry["runid"] for entry in dataset.entries(0, "SENTINELS")} == {fixed_id(1), fixed_id(2)}


def test_sentinels_that_vanished_are_forgotten() -> None:
    with Dataset("8.1", members=2) as dataset:
        dataset.start(sentinels=5)
        five = resized(dataset.spec, 5, 3)
        dataset.run(five)
        for ordinal in (3, 4):
            dataset.sentinels[sentinel(ordinal)].kill()
        dataset.run(dataset.spec)
        dataset.assert_as_declared(dataset.spec, FIRST)
