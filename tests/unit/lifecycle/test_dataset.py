"""The resource `Dataset` end to end, but for Kubernetes and Pulumi: where only `up` decides who is the primary."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.dataplane.datasets import Writer
from tests.dataplane.servers import PORT
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import unschedulable
from tests.unit.lifecycle.dataset_stage import DECLARED, FIRST, PASSWORD, SECOND, STATUS, THIRD, Stage, staged
from valkeyctl.dataplane import Member
from valkeyctl.lifecycle.account import ConvergeFailed
from valkeyctl.lifecycle.dataset import DatasetProvider


@pytest.fixture
def stage(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(fake, monkeypatch, 2) as made:
        yield made


def test_it_forms_tells_and_is_then_without_change(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outs = stage.create()
    assert outs["phase"] == "Ready"
    assert outs["primary"] == "sessions-s0-0"
    assert outs["server_version"].startswith("9.1")
    assert outs["endpoints"]["uri"] == f"valkey://sessions-rw.valkey.svc:{PORT}"
    assert outs["endpoints"]["replicas"] == f"valkey://sessions-ro.valkey.svc:{PORT}"
    assert stage.roles() == {FIRST: "master", SECOND: "slave", THIRD: "slave"}
    assert stage.behind("rw") == ("sessions-s0-0",)
    assert stage.behind("ro") == ("sessions-s0-1", "sessions-s0-2")
    status = stage.fake.objects[STATUS]
    assert status["metadata"]["labels"]["app.kubernetes.io/component"] == "replica"
    assert json.loads(status["data"]["primaries"]) == {"s0": "sessions-s0-0"}
    assert (status["data"]["phase"], status["data"]["finished"]) == ("Ready", "true")
    told = json.loads(stage.fake.objects[DECLARED]["data"]["declared.json"])
    assert (told["architecture"], told["replicas"], told["formed"]) == ("replica", 2, True)
    assert stage.changes() is False
    assert DatasetProvider().read("valkey/sessions", outs).outs == outs
    assert PASSWORD not in capsys.readouterr().err
    assert PASSWORD not in json.dumps(stage.fake.objects[STATUS])


def test_every_pod_is_replaced_in_order_and_no_write_is_lost(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.create()
    assert stage.told(capsys, workload_revision="r2") == [
        "to do: replace Pods: s0-2, then s0-1, then the role moves from s0-0 to s0-1, then s0-0"
    ]
    stage.sets.declare("r2")
    with Writer(stage.dataset) as writer:
        writer.await_more()
        outs = stage.update(workload_revision="r2")
        writer.await_more()
    assert outs["phase"] == "Ready"
    assert set(stage.sets.revisions().values()) == {"r2"}
    assert [line for line in stage.done() if "replace its Pod" in line or "role over" in line] == [
        "s0-2: replace its Pod",
        "s0-1: replace its Pod",
        "s0-0: hand the primary's role over to s0-1",
        "s0-0: replace its Pod",
    ]
    assert outs["primary"] == "sessions-s0-1"
    assert stage.behind("rw") == ("sessions-s0-1",)
    assert writer.lost(SECOND) == []
    assert stage.changes(workload_revision="r2") is False


def test_the_role_goes_to_where_it_is_declared(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.create()
    assert stage.told(capsys, primary_ordinal=2.0) == ["to do: primary: s0-0 → s0-2"]
    assert stage.update(primary_ordinal=2.0)["primary"] == "sessions-s0-2"
    assert stage.behind("rw") == ("sessions-s0-2",)
    assert stage.behind("ro") == ("sessions-s0-0", "sessions-s0-1")
    assert stage.changes(primary_ordinal=2.0) is False


def test_a_token_moves_the_role_once(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.create(handover={"to": "any", "token": "before"})
    assert stage.outs["primary"] == "sessions-s0-0"  # With the first `up` there was nothing to hand over.
    stage.create(handover={"to": "any", "token": "before"})
    assert stage.outs["primary"] == "sessions-s0-0"
    assert stage.told(capsys, handover={"to": "any", "token": "today"}) == ["to do: primary: s0-0 → s0-1"]
    assert stage.update(handover={"to": "any", "token": "today"})["primary"] == "sessions-s0-1"
    assert stage.update(handover={"to": "any", "token": "today"})["primary"] == "sessions-s0-1"
    assert stage.update(handover={"to": "2", "token": "tomorrow"})["primary"] == "sessions-s0-2"


def test_who_has_most_is_promoted_where_the_primary_is_gone(stage: Stage) -> None:
    stage.create()
    stage.dataset.write(FIRST, "before")
    stage.dataset.kill(FIRST)
    assert stage.changes() is True
    stage.sets.publish(SECOND, "r1")
    stage.dataset.start(FIRST)
    outs = stage.update()
    assert outs["phase"] == "Ready"
    assert outs["primary"] in ("sessions-s0-1", "sessions-s0-2")
    now = Member(0, int(outs["primary"][-1]))
    assert stage.dataset.ask(now, "DBSIZE") == 20


def test_what_stays_wrong_is_told(stage: Stage) -> None:
    stage.create()
    stage.fake.put("/api/v1/namespaces/valkey/pods/sessions-s0-2", unschedulable(0, 2, "no node has room"))
    with pytest.raises(ConvergeFailed, match="no node has room") as raised:
        stage.update(timeout_s=2.0)
    assert "Degraded" in str(raised.value)
    assert stage.fake.objects[STATUS]["data"]["phase"] == "Degraded"
    assert DatasetProvider().read("valkey/sessions", stage.outs).outs["phase"] == "Degraded"
