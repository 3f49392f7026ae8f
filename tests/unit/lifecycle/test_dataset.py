"""The resource `Dataset` end to end, but for Kubernetes and Pulumi: real servers, an API server in this process.

There is no DNS here, so an address is a server's name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.dataplane.datasets import Dataset, Writer, spec_of
from tests.dataplane.servers import PORT
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import unschedulable
from tests.unit.lifecycle.stateful_sets import StatefulSets
from valkeyctl.dataplane import Member
from valkeyctl.kube import directory, endpoints, watched
from valkeyctl.lifecycle.account import ConvergeFailed
from valkeyctl.lifecycle.dataset import DatasetProvider

PASSWORD = "very-secret-password"  # noqa: S105 - of these servers alone
SECRET = "/api/v1/namespaces/valkey/secrets/sessions-auth"  # noqa: S105 - a path
STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"
DECLARED = "/api/v1/namespaces/valkey/configmaps/sessions-declared"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/valkey/endpointslices"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions-primary"
FIRST, SECOND, THIRD = (Member(0, ordinal) for ordinal in range(3))


@dataclass
class Stage:
    """A dataset with its Pods, the resource's state, and who makes Pods anew."""

    fake: FakeApi
    dataset: Dataset
    sets: StatefulSets
    outs: dict[str, Any] = field(default_factory=dict[str, Any])
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def inputs(self, **more: Any) -> dict[str, Any]:
        declared = {
            "kubeconfig": self.fake.kubeconfig,
            "transport": "direct",
            "owner": "acme/valkey/prod/sessions",
            "namespace": "valkey",
            "instance": "sessions",
            "architecture": "replica",
            "replicas": float(self.dataset.spec.replicas),
            "port": float(PORT),
            "timeout_s": 60.0,
            "credentials": {"user": None, "secretName": "sessions-auth", "key": "password"},
            "workload_revision": "r1",
            **self.more,
            **more,
        }
        checked = DatasetProvider().check(self.outs, declared)
        assert checked.failures == []
        return checked.inputs

    def create(self, **more: Any) -> dict[str, Any]:
        made = DatasetProvider().create(self.inputs(**more))
        assert made.id == "valkey/sessions"
        self.outs = made.outs or {}
        return self.outs

    def update(self, **more: Any) -> dict[str, Any]:
        self.outs = DatasetProvider().update("valkey/sessions", self.outs, self.inputs(**more)).outs or {}
        return self.outs

    def changes(self, **more: Any) -> bool | None:
        return DatasetProvider().diff("valkey/sessions", self.outs, self.inputs(**more)).changes

    def told(self, capsys: pytest.CaptureFixture[str], **more: Any) -> list[str]:
        """What a preview says there is to do."""
        capsys.readouterr()
        self.changes(**more)
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("to do:")]

    def done(self) -> list[str]:
        return json.loads(self.fake.objects[STATUS]["data"]["done"])

    def behind(self, service: str) -> tuple[str, ...]:
        """The Pods behind a Service."""
        return endpoints.members_in(self.fake.objects[f"{SLICES}/sessions-{service}"])

    def roles(self) -> dict[Member, str]:
        """What each server calls itself."""
        return {member: str(self.dataset.told(member)["role"]) for member in self.dataset.servers}


def named_by_address(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    """Where nothing resolves the Pods' names."""

    def host(_instance: str, _namespace: str, pod: str) -> str:
        member = Member(0, int(pod.rpartition("-")[2]))
        return dataset.servers[member].host if member in dataset.servers else pod

    monkeypatch.setattr(directory, "pod_host", host)
    monkeypatch.setattr(watched, "pod_host", host)


def stages(fake: FakeApi, monkeypatch: pytest.MonkeyPatch, replicas: int, line: str = "9.1") -> Iterator[Stage]:
    fake.put(SECRET, {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}})
    with Dataset(spec_of(replicas), line, password=PASSWORD) as dataset:
        named_by_address(monkeypatch, dataset)
        dataset.start()
        sets = StatefulSets(fake, dataset)
        sets.declare("r1")
        for member in dataset.spec.members:
            sets.publish(member, "r1")
        # While the servers that it starts are needed: they end with its thread.
        with sets:
            yield Stage(fake, dataset, sets)


@pytest.fixture
def stage(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    yield from stages(fake, monkeypatch, 2)


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
