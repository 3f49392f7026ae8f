"""How long Pods that don't start are waited for."""

from __future__ import annotations

import pytest

from tests.unit.dataplane.views import S00, S01, absent, formed
from valkeyctl.dataplane.errors import Blocked
from valkeyctl.kube.pods import NO_WORKLOAD, STUCK_REASONS, PodFacts
from valkeyctl.lifecycle import patience
from valkeyctl.lifecycle.patience import PATIENCE_S, Patience, patience_s


def stuck(reason: str, message: str = "", *, outdated: bool = False) -> PodFacts:
    return PodFacts(S01, "sessions-s0-1", "Pending", reason=reason, message=message, outdated=outdated)


def test_every_reason_that_no_waiting_heals_has_its_time() -> None:
    assert set(PATIENCE_S) == STUCK_REASONS


@pytest.mark.parametrize("message", ['image "valkey:9.9" not found', "manifest unknown", "repository does not exist"])
def test_an_image_that_the_registry_does_not_have_is_told_sooner_than_one_it_fails_to_give(message: str) -> None:
    assert patience_s(stuck("ErrImagePull", message)) < patience_s(stuck("ErrImagePull", "connection reset by peer"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("reason", sorted(STUCK_REASONS))
def test_it_ends_when_its_time_is_over_and_no_sooner(clock: list[float], reason: str) -> None:
    judge = Patience()
    judge.judge([stuck(reason)])
    clock[0] += PATIENCE_S[reason] - 0.1
    judge.judge([stuck(reason)])
    clock[0] += 0.2
    with pytest.raises(Blocked, match="Pods can't start: sessions-s0-1") as raised:
        judge.judge([stuck(reason)])
    # A StatefulSet that went meanwhile is made by the next run: there is nothing to correct.
    assert ("run it again: these Pods are then replaced" in str(raised.value)) is (reason != NO_WORKLOAD)


def test_a_server_that_crashes_again_and_again_runs_now_and_then(clock: list[float]) -> None:
    judge = Patience()
    judge.judge([stuck("CrashLoopBackOff")])
    judge.judge([stuck("")])
    judge.answered(absent(formed().view(), S01))
    clock[0] += PATIENCE_S["CrashLoopBackOff"]
    with pytest.raises(Blocked):
        judge.judge([stuck("CrashLoopBackOff")])


def test_one_that_answers_is_well(clock: list[float]) -> None:
    judge = Patience()
    judge.judge([stuck("CrashLoopBackOff")])
    judge.answered(absent(formed().view(), S00))
    clock[0] += PATIENCE_S["CrashLoopBackOff"]
    judge.judge([stuck("CrashLoopBackOff")])


def test_one_of_a_former_template_is_about_to_be_replaced(clock: list[float]) -> None:
    judge = Patience()
    for _ in range(2):
        judge.judge([stuck("ImagePullBackOff", outdated=True)])
        clock[0] += 1000


def test_a_new_pod_has_its_own_time(clock: list[float]) -> None:
    judge = Patience()
    judge.judge([stuck("ImagePullBackOff")])
    judge.forget([S01])
    clock[0] += PATIENCE_S["ImagePullBackOff"]
    judge.judge([stuck("ImagePullBackOff")])
