"""Rolls end to end, but for Kubernetes and Pulumi: real servers under a writer, an API server in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.dataplane.servers import NODE_TIMEOUT_MS, PORT, Fleet
from tests.dataplane.writer import Writer
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, unschedulable, workload
from tests.unit.lifecycle.stateful_sets import StatefulSets
from valkeyctl.dataplane import Member, Spec, planned_layout
from valkeyctl.lifecycle import patience, rollout, run
from valkeyctl.lifecycle.prepare import PrepareProvider
from valkeyctl.lifecycle.run import ConvergeFailed
from valkeyctl.lifecycle.topology import TopologyProvider

PASSWORD = "very-secret-password"  # noqa: S105 - of these servers alone
SECRET = "/api/v1/namespaces/valkey/secrets/sessions-auth"  # noqa: S105 - a path
STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"
GOOD, BAD, BETTER = "r1", "bad", "r3"
NO_IMAGE = ("ImagePullBackOff", 'image "valkey:9.9" not found')


@dataclass
class Stage:
    """A formed instance with its Pods, the resource's state, and who makes Pods anew."""

    fake: FakeApi
    fleet: Fleet
    sets: StatefulSets
    outs: dict[str, Any] = field(default_factory=dict[str, Any])

    def inputs(self, **more: Any) -> dict[str, Any]:
        declared = {
            "kubeconfig": self.fake.kubeconfig,
            "transport": "direct",
            "owner": "acme/valkey/prod/sessions",
            "namespace": "valkey",
            "instance": "sessions",
            "shards": float(self.fleet.spec.shards),
            "replicas": float(self.fleet.spec.replicas),
            "port": float(PORT),
            "timeout_s": 60.0,
            "node_timeout_ms": float(NODE_TIMEOUT_MS),
            "credentials": {"user": None, "secretName": "sessions-auth", "key": "password"},
            "workload_revision": GOOD,
            **more,
        }
        checked = TopologyProvider().check(self.outs, declared)
        assert checked.failures == []
        return checked.inputs

    def create(self) -> None:
        made = TopologyProvider().create(self.inputs())
        self.outs = made.outs or {}

    def update(self, **more: Any) -> dict[str, Any]:
        self.outs = TopologyProvider().update("valkey/sessions", self.outs, self.inputs(**more)).outs or {}
        return self.outs

    def done(self) -> list[str]:
        return json.loads(self.fake.objects[STATUS]["data"]["done"])

    def rolled(self) -> list[str]:
        """What a roll did, in its order."""
        return [line for line in self.done() if "replace its Pod" in line or "role over" in line]


def stages(fake: FakeApi, shards: int, replicas: int) -> Iterator[Stage]:
    fake.put(SECRET, {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}})
    spec = Spec("sessions", shards, replicas, planned_layout(shards))
    with Fleet(spec, "9.1", password=PASSWORD, namespace="valkey") as fleet:
        fleet.start()
        sets = StatefulSets(fake, fleet, lambda revision: NO_IMAGE if revision == BAD else ("", ""))
        sets.declare(GOOD)
        for member in fleet.spec.members:
            sets.publish(member, GOOD)
        stage = Stage(fake, fleet, sets)
        stage.create()
        with sets:
            yield stage


@pytest.fixture
def stage(fake: FakeApi) -> Iterator[Stage]:
    yield from stages(fake, 3, 1)


def test_every_pod_is_replaced_in_order_and_no_write_is_lost(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.sets.declare("r2")
    with Writer(stage.fleet) as writer:
        outs = stage.update(workload_revision="r2")
    assert outs["phase"] == "Ready"
    assert set(stage.sets.revisions().values()) == {"r2"}
    assert stage.rolled() == [
        line
        for shard in range(3)
        for line in (
            f"s{shard}-1: replace its Pod",
            f"s{shard}-1: take the primary's role over from s{shard}-0",
            f"s{shard}-0: replace its Pod",
        )
    ]
    assert outs["primaries"] == {f"s{shard}": f"sessions-s{shard}-1" for shard in range(3)}
    assert writer.lost() == []
    assert writer.acknowledged
    told = capsys.readouterr().err
    assert "5 of 6 Pods are new" in told
    assert PASSWORD not in told
    assert {path for method, path in stage.fake.seen if method == "DELETE" and "/pods/" in path} == set(), "evicted"


def test_a_preview_tells_what_will_be_replaced_in_which_order(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    found = TopologyProvider().diff("id", stage.outs, stage.inputs(workload_revision="r2"))
    assert found.changes
    assert "to do: replace Pods of shard 0: s0-1, then the role moves from s0-0, then s0-0" in capsys.readouterr().err


def test_outdated_pods_are_a_change_with_equal_inputs(stage: Stage) -> None:
    assert TopologyProvider().diff("id", stage.outs, stage.inputs()).changes is False
    stage.sets.declare("r2")
    assert TopologyProvider().diff("id", stage.outs, stage.inputs()).changes is True
    stage.update()
    assert TopologyProvider().diff("id", stage.outs, stage.inputs()).changes is False


def test_a_stuck_roll_stops_at_the_first_pod_and_a_corrected_one_mends_it_though_another_was_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "NO_SUCH_IMAGE_S", 0.5)
    monkeypatch.setattr(run, "POD_LOOK_S", 0.2)
    stage.sets.declare(BAD)
    with pytest.raises(ConvergeFailed) as raised:
        stage.update(workload_revision=BAD)
    told = str(raised.value)
    assert f"sessions-s0-1: ImagePullBackOff ({NO_IMAGE[1]})" in told
    assert "won't come up again if they restart before this is mended: s0-0 (the only copy of its shard" in told
    assert "s1-0 (primary)" in told
    assert list(stage.sets.revisions().values()).count(BAD) == 1, "it stopped at the first Pod"

    # Another Pod is lost meanwhile, and comes back stuck as well.
    stage.fake.remove(f"{PODS}/sessions-s1-1")
    while stage.sets.revisions().get("sessions-s1-1") != BAD:
        pass
    stage.sets.declare(BETTER)
    outs = stage.update(workload_revision=BETTER)
    assert outs["phase"] == "Ready"
    assert set(stage.sets.revisions().values()) == {BETTER}
    first = [line for line in stage.rolled() if "couldn't start" in line]
    assert first == [
        f"{member}: replace its Pod, which couldn't start (ImagePullBackOff)" for member in ("s0-1", "s1-1")
    ]


def test_a_roll_that_was_stopped_goes_on(stage: Stage) -> None:
    stage.sets.declare("r2")
    stage.sets.broken = lambda _revision: ("PodInitializing", "") if len(stage.sets.made) >= 3 else ("", "")
    with pytest.raises(ConvergeFailed):
        stage.update(workload_revision="r2", timeout_s=15.0)
    assert sorted(stage.sets.revisions().values()) == [GOOD] * 3 + ["r2"] * 3, "two are new, and one is stuck"
    stage.sets.broken = lambda _revision: ("", "")
    for path in [f"{PODS}/{name}" for name in stage.sets.revisions()]:
        if not stage.fake.objects[path]["status"].get("podIP"):
            stage.fake.remove(path)
    assert stage.update(workload_revision="r2")["phase"] == "Ready"
    assert set(stage.sets.revisions().values()) == {"r2"}


def test_a_budget_is_waited_for_and_said(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rollout, "TOLD_AFTER_S", 0.2)
    asked: list[str] = []

    def budget(path: str) -> str:
        asked.append(path)
        return "The disruption budget sessions needs 5 healthy pods and has 5 currently" if len(asked) < 4 else ""

    stage.fake.budget = budget
    stage.sets.declare("r2")
    assert stage.update(workload_revision="r2")["phase"] == "Ready"
    assert asked[:4] == [f"{PODS}/sessions-s0-1"] * 4
    assert "sessions-s0-1 may not be evicted yet: " in capsys.readouterr().err


def test_a_budget_that_never_agrees_ends_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "EVICT_S", 1.0)
    stage.fake.budget = lambda _path: "The disruption budget theirs needs 6 healthy pods and has 6 currently"
    stage.sets.declare("r2")
    with pytest.raises(ConvergeFailed, match=r"sessions-s0-1 couldn't be evicted for 1 s.*budget theirs") as raised:
        stage.update(workload_revision="r2")
    assert "kubectl get pods" in str(raised.value)
    assert set(stage.sets.revisions().values()) == {GOOD}


def test_a_pod_that_leaves_and_never_started_uses_up_no_budget(stage: Stage) -> None:
    """A scale-out whose Pods fit nowhere is taken back, with smaller ones for those that stay."""
    stage.fake.put(f"{SETS}/sessions-s3", workload(3, replicas=1))
    stage.fake.put(f"{PODS}/sessions-s3-0", unschedulable(3, 0, "0/3 nodes are available"))
    stage.fake.budget = lambda _path: "The disruption budget sessions needs 6 healthy pods and has 6 currently"
    stage.sets.declare("r2")
    assert stage.update(workload_revision="r2")["phase"] == "Ready"
    lines = stage.rolled()
    assert lines[0] == "s0-1: replace its Pod"
    assert "role over" in lines[1], "one shard after the other all the same"


def test_several_shards_at_a_time_though_the_own_budget_allows_one(stage: Stage) -> None:
    def budget(path: str) -> str:
        others = {name for name in stage.sets.revisions() if name != path.rpartition("/")[2]}
        return "" if len(others) == 5 else "The disruption budget sessions needs 5 healthy pods and has 5 currently"

    stage.fake.budget = budget
    stage.sets.declare("r2")
    stage.update(workload_revision="r2", parallel_shards=3.0)
    lines = stage.rolled()
    assert lines[:3] == [f"s{shard}-1: replace its Pod" for shard in range(3)]
    assert all("role over" in line for line in lines[3:6])
    assert set(stage.sets.revisions().values()) == {"r2"}


def test_a_controller_that_takes_no_notice_is_told_of(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "OBSERVED_S", 0.5)
    one = stage.fake.objects[f"{SETS}/sessions-s1"]
    one["metadata"]["generation"], one["status"]["observedGeneration"] = 2, 1
    with pytest.raises(ConvergeFailed, match="hasn't taken notice of sessions-s1"):
        stage.update(workload_revision="r2")


def test_roles_go_where_they_are_declared_and_come_back_after_an_incident(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"primary_ordinals": {"0": 1.0, "2": 1.0}}
    assert TopologyProvider().diff("id", stage.outs, stage.inputs(**wanted)).changes
    assert "to do: s0-1: take the primary's role over from s0-0" in capsys.readouterr().err
    with Writer(stage.fleet) as writer:
        outs = stage.update(**wanted)
    assert outs["primaries"] == {"s0": "sessions-s0-1", "s1": "sessions-s1-0", "s2": "sessions-s2-1"}
    assert writer.lost() == []
    assert TopologyProvider().diff("id", stage.outs, stage.inputs(**wanted)).changes is False
    # An incident: the server of a declared primary dies, and the other takes over.
    stage.fake.remove(f"{PODS}/sessions-s0-1")
    outs = stage.update(**wanted)
    assert outs["primaries"]["s0"] == "sessions-s0-1", "as declared, once it is in sync"
    assert outs["phase"] == "Ready"


def test_a_role_that_is_elsewhere_is_something_to_do_and_no_fault(stage: Stage) -> None:
    outs = stage.update(primary_ordinals={"1": 0.0})
    with stage.fleet.client(Member(1, 1)) as client:
        client.execute_command("CLUSTER", "FAILOVER")
    seen = outs
    while (seen["primaries"] or {}).get("s1") != "sessions-s1-1" or seen["phase"] != "Ready":
        seen = TopologyProvider().read("valkey/sessions", outs).outs or {}
    assert TopologyProvider().diff("id", seen, stage.inputs(primary_ordinals={"1": 0.0})).changes is True


# --- roles that are spread -------------------------------------------------------------------------------------------

#: All primaries are on one node, and another node of the same zone has a replica. A zone is a name's last letter.
CROWDED = {"s0-0": "n1a", "s1-0": "n1a", "s2-0": "n1a", "s0-1": "n2a", "s1-1": "n1b", "s2-1": "n1c"}
SPREAD = {"spread_primaries": True}


@pytest.fixture
def crowded(stage: Stage) -> Stage:
    stage.sets.nodes.update(CROWDED)
    for member, node in CROWDED.items():
        stage.fake.objects[f"{PODS}/sessions-{member}"]["spec"]["nodeName"] = node
        labels = {"topology.kubernetes.io/zone": node[-1]}
        stage.fake.put(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    return stage


def test_roles_are_spread_over_zones_and_once_they_are_nothing_moves(
    crowded: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    found = TopologyProvider().diff("id", crowded.outs, crowded.inputs(**SPREAD))
    told = capsys.readouterr().err
    assert found.changes
    for shard in (1, 2):
        assert f"to do: s{shard}-1: take the primary's role over from s{shard}-0" in told
    with Writer(crowded.fleet) as writer:
        outs = crowded.update(**SPREAD)
    assert outs["primaries"] == {"s0": "sessions-s0-0", "s1": "sessions-s1-1", "s2": "sessions-s2-1"}
    assert writer.lost() == []
    assert TopologyProvider().diff("id", crowded.outs, crowded.inputs(**SPREAD)).changes is False
    before = crowded.rolled()
    assert crowded.update(**SPREAD, timeout_s=61.0)["primaries"] == outs["primaries"]
    assert len(before) == 2
    assert crowded.rolled() == [], "the second one moved nothing"


def test_roles_are_spread_again_after_an_incident(crowded: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outs = crowded.update(**SPREAD)
    with crowded.fleet.client(Member(2, 0)) as client:
        client.execute_command("CLUSTER", "FAILOVER")
    seen = outs
    while (seen["primaries"] or {}).get("s2") != "sessions-s2-0" or seen["phase"] != "Ready":
        seen = TopologyProvider().read("valkey/sessions", outs).outs or {}
    capsys.readouterr()
    assert TopologyProvider().diff("id", seen, crowded.inputs(**SPREAD)).changes is True
    assert "to do: s2-1: take the primary's role over from s2-0" in capsys.readouterr().err
    assert crowded.update(**SPREAD)["primaries"] == outs["primaries"]


def test_named_roles_go_first_and_ordinal_zero_where_that_is_as_good(crowded: Stage) -> None:
    outs = crowded.update(**SPREAD, prefer_ordinal_zero=True, primary_ordinals={"1": 0.0})
    # s1-0 holds the zone a, so that s0, both members of which are there, is one too many whatever it does.
    assert outs["primaries"] == {"s0": "sessions-s0-1", "s1": "sessions-s1-0", "s2": "sessions-s2-1"}


def test_a_roll_spreads_roles_only_at_its_end(crowded: Stage) -> None:
    crowded.update(**SPREAD)
    crowded.sets.declare("r2")
    with Writer(crowded.fleet) as writer:
        outs = crowded.update(workload_revision="r2", **SPREAD)
    assert outs["primaries"] == {"s0": "sessions-s0-1", "s1": "sessions-s1-1", "s2": "sessions-s2-1"}
    assert writer.lost() == []
    lines = crowded.rolled()
    assert ["role over" in line for line in lines[:9]] == [False, True, False] * 3, "the roll goes by what it needs"
    assert lines[9:] == [f"s{shard}-1: take the primary's role over from s{shard}-0" for shard in (1, 2)]
    again = crowded.inputs(workload_revision="r2", **SPREAD)
    assert TopologyProvider().diff("id", crowded.outs, again).changes is False


def test_who_may_not_read_nodes_has_roles_spread_over_them_by_name(
    crowded: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    crowded.fake.fault = lambda _method, path: 403 if "/nodes/" in path else None
    outs = crowded.update(**SPREAD)
    on = [CROWDED[pod.removeprefix("sessions-")] for pod in outs["primaries"].values()]
    assert len(set(on)) == 3
    assert "nodes may not be read (`get` on `nodes`)" in capsys.readouterr().err
    assert TopologyProvider().diff("id", crowded.outs, crowded.inputs(**SPREAD)).changes is False


# --- fewer replicas --------------------------------------------------------------------------------------------------


@pytest.fixture
def wide(fake: FakeApi) -> Iterator[Stage]:
    yield from stages(fake, 3, 2)


def prepared(stage: Stage, **more: Any) -> dict[str, Any]:
    inputs = {key: value for key, value in stage.inputs().items() if key not in ("layout", "workload_revision")}
    return {**inputs, "objects": [], "storage": None, "settings": None, "version": "9.1.2", **more}


def test_a_primary_that_is_to_go_hands_over_before_anything_shrinks(
    wide: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    wide.update(primary_ordinals={"1": 2.0})
    olds, news = prepared(wide, replicas=2.0), prepared(wide, replicas=1.0)
    assert PrepareProvider().diff("id", olds, news).changes
    assert "to do: move the role of s1-2, a primary, to a member that stays" in capsys.readouterr().err
    with Writer(wide.fleet) as writer:
        PrepareProvider().update("id", olds, news)
    role = str(wide.fleet.ask(Member(1, 2), "INFO", "replication"))
    assert "role:slave" in role
    assert writer.lost() == []
    # Until the StatefulSets have shrunk, it is looked at again: an `up` may have been killed between two of them.
    assert PrepareProvider().diff("id", news, news).changes


def test_a_primary_that_no_staying_member_can_follow_keeps_all(wide: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    from valkeyctl.dataplane.errors import Blocked  # noqa: PLC0415
    from valkeyctl.lifecycle import retreat  # noqa: PLC0415

    wide.update(primary_ordinals={"1": 2.0})
    monkeypatch.setattr(retreat, "WITHIN_S", 2.0)
    for ordinal in (0, 1):
        wide.fleet.servers[Member(1, ordinal)].freeze()
    try:
        with pytest.raises(Blocked, match="a member that stays is in sync with s1-2"):
            PrepareProvider().update("id", prepared(wide, replicas=2.0), prepared(wide, replicas=1.0))
    finally:
        for ordinal in (0, 1):
            wide.fleet.servers[Member(1, ordinal)].thaw()


# --- versions --------------------------------------------------------------------------------------------------------


def test_an_older_line_is_refused_at_preview_with_the_reason(stage: Stage) -> None:
    failures = PrepareProvider().check({}, prepared(stage, version="8.1.8")).failures
    assert len(failures) == 1
    assert "Valkey 8.1.8 is declared where servers run 9.1" in failures[0].reason
    assert 'Declare `version: "9.1"`' in failures[0].reason
    assert PrepareProvider().check({}, prepared(stage, version="9.1.1")).failures == [], "of the same line"
    assert PrepareProvider().check({}, prepared(stage, version=None)).failures == [], "an image that tells none"


def test_what_the_status_remembers_of_a_newer_line_is_asked_for(stage: Stage) -> None:
    stage.fake.objects[STATUS]["data"]["serverVersion"] = "9.1.0, 10.0.1"
    assert PrepareProvider().check({}, prepared(stage, version="9.1.2")).failures == [], "nobody runs it any more"
