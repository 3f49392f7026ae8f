"""Sentinels come to monitor the one primary as declared, from nothing and after whatever was done by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dataplane.scenes import Told
from tests.dataplane.sentinels import NAME, OPERATOR, PARAMETERS, WATCHER, Dataset, planned
from valkeyctl.dataplane import DirectDialer, Member, errors
from valkeyctl.dataplane.rounds import Done
from valkeyctl.dataplane.sentinel.renew import renew_sign_in
from valkeyctl.dataplane.sentinel.report import report

FIRST, SECOND = Member(0, 0), Member(0, 1)


@pytest.fixture
def dataset(line: str) -> Dataset:
    return Dataset(line)


@pytest.mark.parametrize("names", [False, True], ids=["addresses", "names"])
def test_form_from_nothing_then_change_nothing_then_what_is_declared(line: str, *, names: bool) -> None:
    with Dataset(line, names=names) as dataset:
        dataset.start()
        spec = dataset.spec
        found = report(spec, dataset.look(spec))
        assert [c.reason for c in found.conditions] == ["AllAnswer", "NotMonitoring", "NotMonitoring"]
        told = Told()
        view = dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, FIRST)
        assert all(condition.status.value == "True" for condition in report(spec, view).conditions)
        assert len(told.done) == 3
        assert WATCHER.password not in repr(told.lines)
        again = Told()
        dataset.run(spec, told=again)
        assert again.done == ()
        changed = replace(spec, parameters=replace(PARAMETERS, down_after_ms=3500), quorum=3)
        dataset.run(changed)
        dataset.assert_as_declared(changed, FIRST)


def test_what_was_done_by_hand_is_put_right(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)

        dataset.tell(1, "SENTINEL", "REMOVE", NAME)
        dataset.tell(2, "SENTINEL", "SET", NAME, "down-after-milliseconds", 77_000, "parallel-syncs", 7, "quorum", 3)
        dataset.tell(0, "SENTINEL", "MONITOR", "another", dataset.address(FIRST).host, dataset.address(FIRST).port, 1)
        told = Told()
        dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, FIRST)
        assert len(told.done) == 3, told.done
        masters = dataset.tell(0, "SENTINEL", "MASTERS")
        assert isinstance(masters, list)
        assert len(masters) == 2, "another's name is left alone"
        dataset.tell(0, "SENTINEL", "REMOVE", "another")

        # One is sent to a replica, which a Sentinel alone never notices to be the wrong server.
        dataset.tell(0, "SENTINEL", "REMOVE", NAME)
        elsewhere = dataset.address(SECOND)
        dataset.tell(0, "SENTINEL", "MONITOR", NAME, elsewhere.host, elsewhere.port, 2)
        told = Told()
        dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, FIRST)
        assert [line for line in told.done if "anew" in line] == [
            f"sentinel-0: monitor {NAME} anew, at {dataset.address(FIRST)}"
        ]


def test_all_monitor_a_server_that_is_gone_for_good() -> None:
    """A start from files that name servers which no longer exist: nobody to fail over to, so they are told anew."""
    with Dataset("9.1", members=2) as dataset:
        dataset.start()
        spec = dataset.spec
        for ordinal in range(3):
            dataset.tell(ordinal, "SENTINEL", "MONITOR", NAME, "127.0.0.9", 7, 2)
        dataset.run(spec)
        dataset.assert_as_declared(spec, FIRST)


def test_a_password_that_changed_is_handed_over(dataset: Dataset) -> None:
    with dataset:
        dataset.start()
        spec = dataset.spec
        dataset.run(spec)

        # One was told the wrong password by hand, and is locked out.
        dataset.tell(1, "SENTINEL", "SET", NAME, "auth-pass", "wrong")
        dataset.await_(lambda: "s_down" in dataset.monitored(1)["flags"])
        told = Told()
        dataset.run(spec, told=told)
        dataset.assert_as_declared(spec, FIRST)
        assert told.done == ("sentinel-1: set with what it signs in to the servers as watcher",)

        # A new password beside the old one, handed over, and the old one dropped: nobody is ever locked out.
        fresh = type(WATCHER)(WATCHER.user, "fresh-secret")
        for member in spec.servers:
            dataset.ask(member, "ACL", "SETUSER", "watcher", ">fresh-secret")
        renew_sign_in(spec, dataset.sentinel_directory(), DirectDialer(OPERATOR), fresh)
        for member in spec.servers:
            dataset.ask(member, "ACL", "SETUSER", "watcher", f"<{WATCHER.password}")
            dataset.ask(member, "CLIENT", "KILL", "USER", "watcher")
        dataset.await_(lambda: isinstance(planned(dataset, spec), Done))
        with pytest.raises(errors.NoAnswer, match="doesn't reach"):
            renew_sign_in(spec, dataset.sentinel_directory(), DirectDialer(OPERATOR), WATCHER, within_s=1.5)
        renew_sign_in(spec, dataset.sentinel_directory(), DirectDialer(OPERATOR), fresh)
        dataset.assert_as_declared(spec, FIRST)
