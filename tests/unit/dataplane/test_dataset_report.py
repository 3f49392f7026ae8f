"""Servers, Sentinels and endpoints in one report."""

from __future__ import annotations

import pytest

from tests.unit.dataplane.replication.test_plan_rules import SPEC, C, formed, gone
from tests.unit.dataplane.sentinel.test_plan_rules import SPEC as WATCHED
from tests.unit.dataplane.sentinel.test_plan_rules import monitoring
from tests.unit.dataplane.sentinel.world import formed as watched
from valkeyctl.dataplane import Condition, Phase, Status
from valkeyctl.dataplane.dataset_report import ENDPOINTS, together
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.sentinel.report import report as report_sentinels

SERVERS = report(SPEC, formed().view())
SENTINELS = report_sentinels(WATCHED, watched().view())
RIGHT = Condition(ENDPOINTS, Status.TRUE, "AsSeen")
ASTRAY = Condition(ENDPOINTS, Status.FALSE, "NotAsSeen", "t-rw doesn't lead to s0-0")


def test_all_right_is_ready() -> None:
    found = together(SERVERS, SENTINELS, RIGHT, formed=True)
    assert found.phase is Phase.READY
    assert {one.status for one in found.conditions} == {Status.TRUE}
    assert found.conditions[0].type == "Ready"
    assert (found.primary, found.primaries, found.server_version) == ("t-s0-0", {"s0": "t-s0-0"}, "9.1.2")


def test_without_sentinels_nobody_asks_for_them() -> None:
    assert {one.type for one in together(SERVERS, formed=True).conditions} == {
        *("Ready", "MembersPresent", "OnePrimary", "ReplicasInSync")
    }


@pytest.mark.parametrize(("formed_once", "phase"), [(True, Phase.DEGRADED), (False, Phase.INITIALIZING)])
def test_services_that_lead_astray_are_not_ready(formed_once: bool, phase: Phase) -> None:  # noqa: FBT001
    found = together(SERVERS, SENTINELS, ASTRAY, formed=formed_once)
    assert found.phase is phase
    ready = found.conditions[0]
    assert (ready.type, ready.status, ready.reason) == ("Ready", Status.FALSE, "NotAsSeen")
    assert "t-rw doesn't lead to s0-0" in ready.message


def test_sentinels_that_do_not_agree_are_not_ready() -> None:
    view = monitoring(watched().view(), 1, quorum=3)
    found = together(SERVERS, report_sentinels(WATCHED, view), RIGHT, formed=True)
    assert found.phase is Phase.DEGRADED
    assert found.conditions[0].status is Status.FALSE


def test_what_is_wrong_with_servers_stays_said() -> None:
    found = together(report(SPEC, gone(formed().view(), C)), SENTINELS, RIGHT, formed=True)
    assert found.phase is Phase.DEGRADED
    assert found.conditions[0].reason == "Converging"
