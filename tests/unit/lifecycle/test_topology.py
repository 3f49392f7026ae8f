"""The topology resource end to end, but for Kubernetes and Pulumi: real servers, an API server in this process."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.dataplane.scenes import write
from tests.dataplane.servers import NODE_TIMEOUT_MS, PORT, Fleet
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, unschedulable, waiting, workload
from tests.unit.kube.test_objects import owned
from valkeyctl.dataplane import Member, SlotSet, Spec, planned_layout
from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.kube.access import connect
from valkeyctl.kube.declared import read_declared
from valkeyctl.kube.errors import LeaseHeld
from valkeyctl.lifecycle import look, patience, run
from valkeyctl.lifecycle.guard import ShardGuardProvider
from valkeyctl.lifecycle.release import ShardStillNeeded
from valkeyctl.lifecycle.run import ConvergeFailed
from valkeyctl.lifecycle.topology import TopologyProvider

OWNER, PASSWORD = "acme/valkey/prod/sessions", "very-secret-password"
SECRET = "/api/v1/namespaces/valkey/secrets/sessions-auth"  # noqa: S105 - a path
STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"
DECLARED = "/api/v1/namespaces/valkey/configmaps/sessions-declared"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions"
SHARDS, REPLICAS = 3, 1


@dataclass
class Scene:
    """Servers, the Pods that stand for them, and the resource."""

    fake: FakeApi
    fleet: Fleet

    def publish(self, *but: Member) -> None:
        """Pods of all running servers, and StatefulSets."""
        for shard in range(SHARDS):
            made = workload(shard)
            made["metadata"] |= {"uid": f"uid-{shard}", "namespace": "valkey"}
            self.fake.put(f"{SETS}/sessions-s{shard}", made)
        for member, endpoint in self.fleet.directory().items():
            if member not in but:
                self.fake.put(f"{PODS}/{endpoint.pod}", pod(member.shard, member.ordinal, podIP=endpoint.address))

    def props(self, **more: Any) -> dict[str, Any]:
        declared = {
            "kubeconfig": self.fake.kubeconfig,
            "transport": "direct",
            "owner": OWNER,
            "namespace": "valkey",
            "instance": "sessions",
            "shards": float(SHARDS),
            "replicas": float(REPLICAS),
            "port": float(PORT),
            "timeout_s": 30.0,
            "node_timeout_ms": float(NODE_TIMEOUT_MS),
            "credentials": {"user": None, "secretName": "sessions-auth", "key": "password"},
            **more,
        }
        checked = TopologyProvider().check({}, declared)
        assert checked.failures == []
        return checked.inputs

    def create(self, **more: Any) -> dict[str, Any]:
        made = TopologyProvider().create(self.props(**more))
        assert made.id == "valkey/sessions"
        assert made.outs is not None
        return made.outs

    def primary(self, outs: Mapping[str, Any], shard: int) -> Member:
        """The member that has a shard's primary role."""
        return Member(shard, int(outs["primaries"][f"s{shard}"].rpartition("-")[2]))

    def told(self, capsys: pytest.CaptureFixture[str], outs: dict[str, Any], **declared: Any) -> list[str]:
        """What a preview of another declaration says there is to do."""
        capsys.readouterr()
        checked = TopologyProvider().check(outs, {**self.props(), **declared})
        assert TopologyProvider().diff("valkey/sessions", outs, checked.inputs).changes is True
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("to do:")]

    @property
    def status(self) -> dict[str, str]:
        return self.fake.objects[STATUS]["data"]

    def events(self) -> list[dict[str, Any]]:
        return [o for path, o in self.fake.objects.items() if "/events/" in path]


@pytest.fixture
def scene(fake: FakeApi) -> Iterator[Scene]:
    encoded = base64.b64encode(PASSWORD.encode()).decode()
    fake.put(SECRET, {"data": {"password": encoded}})
    with Fleet(Spec("sessions", SHARDS, REPLICAS, planned_layout(SHARDS)), "9.1", password=PASSWORD) as fleet:
        fleet.start()
        yield Scene(fake, fleet)


def test_it_forms_tells_and_is_then_without_change(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.publish()
    outs = scene.create()
    assert outs["phase"] == "Ready"
    assert outs["layout"] == {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}
    assert sorted(outs["primaries"]) == ["s0", "s1", "s2"]
    assert outs["endpoints"] == {
        "host": "sessions.valkey.svc",
        "port": PORT,
        "uri": f"valkey://sessions.valkey.svc:{PORT}",
    }
    assert outs["server_version"].startswith("9.1")
    assert outs["secret_name"] == "sessions-auth"  # noqa: S105 - a name
    # What a drift check compares stays the same while nothing changes.
    assert all(set(condition) == {"type", "status", "reason"} for condition in outs["conditions"])
    assert TopologyProvider().read("valkey/sessions", outs).outs == outs
    assert TopologyProvider().diff("valkey/sessions", outs, scene.props()).changes is False

    status = scene.status
    assert (status["phase"], status["formed"]) == ("Ready", "true")
    assert json.loads(status["declared"])["shards"] == SHARDS
    assert any("assign" in line for line in json.loads(status["done"]))
    assert not scene.fake.objects[LEASE]["spec"]["holderIdentity"]
    reasons = {(event["type"], event["reason"]) for event in scene.events()}
    assert {("Normal", "TopologyChanged"), ("Normal", "Ready")} <= reasons
    assert "assign" in capsys.readouterr().err
    everything = json.dumps([outs, [o for path, o in scene.fake.objects.items() if path != SECRET]])
    assert PASSWORD not in everything
    assert base64.b64encode(PASSWORD.encode()).decode() not in everything


def test_agents_are_told_what_is_declared_and_told_again_when_that_was_deleted(scene: Scene) -> None:
    scene.publish()
    outs = scene.create(persistent=True, takeover_after_s=60.0)
    told = read_declared(connect(scene.fake.kubeconfig, None), "valkey", "sessions")
    assert told is not None
    assert (told.owner, told.port) == (OWNER, PORT)
    assert told.spec.formed, "now that it has been Ready"
    assert (told.spec.persistent, told.spec.takeover_after_s) == (True, 60.0)
    inputs = scene.props(persistent=True, takeover_after_s=60.0)
    assert TopologyProvider().diff("valkey/sessions", outs, inputs).changes is False
    del scene.fake.objects[DECLARED]
    assert TopologyProvider().diff("valkey/sessions", outs, inputs).changes is True
    TopologyProvider().update("valkey/sessions", outs, inputs)
    assert read_declared(connect(scene.fake.kubeconfig, None), "valkey", "sessions") == told
    TopologyProvider().delete("valkey/sessions", outs)
    assert DECLARED not in scene.fake.objects, "what is being destroyed is not healed"


def test_what_was_changed_by_hand_is_seen_with_equal_inputs_and_put_back(scene: Scene) -> None:
    scene.publish()
    outs = scene.create()
    replica = Member(1, 1) if outs["primaries"]["s1"] == "sessions-s1-0" else Member(1, 0)
    scene.fleet.ask(replica, "CLUSTER", "RESET", "SOFT")
    seen = TopologyProvider().read("valkey/sessions", outs).outs
    assert seen is not None
    assert seen["phase"] == "Degraded"
    inputs = scene.props()
    assert TopologyProvider().diff("valkey/sessions", seen, inputs).changes is True
    healed = TopologyProvider().update("valkey/sessions", seen, inputs).outs
    assert healed is not None
    assert healed["phase"] == "Ready"
    assert healed["layout"] == outs["layout"]


def test_a_preview_tells_what_the_slots_hold_that_will_move(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.publish()
    outs = scene.create()
    layout = planned_layout(SHARDS)
    moving = planned_layout(4, layout)[3]
    for shard, count in ((0, 30), (1, 40), (2, 50)):
        write(scene.fleet, scene.primary(outs, shard), layout[shard] & moving, count)
        write(scene.fleet, scene.primary(outs, shard), layout[shard] - moving, 5)
    line = "to do: move 4096 slots: s0 5461 => 4096, s1 5461 => 4096, s2 5462 => 4096, s3 0 => 4096"
    assert scene.told(capsys, outs, shards=4.0) == [f"{line}; they hold 120 keys, less than 1 MB"]
    # Nothing of it is in what Pulumi keeps: it would change with every key.
    assert "120" not in json.dumps(TopologyProvider().read("valkey/sessions", outs).outs)

    silent = [scene.fleet.servers[Member(1, ordinal)] for ordinal in (0, 1)]
    for server in silent:
        server.freeze()
    try:
        told = scene.told(capsys, outs, shards=4.0)
    finally:
        for server in silent:
            server.thaw()
    assert told == [f"{line}; 2731 of them hold 80 keys, less than 1 MB; the owners of the other 1365 don't answer"]


def test_a_preview_of_members_that_are_all_silent_ends_soon_and_says_so(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.publish()
    outs = scene.create()
    for server in scene.fleet.servers.values():
        server.freeze()
    try:
        told = scene.told(capsys, outs, shards=4.0)
        monkeypatch.setattr(look, "BRIEFLY_S", 0.3)
        sooner = scene.told(capsys, outs, shards=4.0)
    finally:
        for server in scene.fleet.servers.values():
            server.thaw()
    assert told[0].endswith("; what they hold isn't known: their owners don't answer")
    assert sooner[0].endswith("; what they hold can't be asked now")


def test_slots_that_an_interrupted_up_moved_are_told_with_equal_inputs(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.publish()
    outs = scene.create()
    giver, taker = scene.primary(outs, 0), scene.primary(outs, 1)
    write(scene.fleet, giver, SlotSet.span(0, 9), 7)
    scene.fleet.ask(giver, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 9, "NODE", scene.fleet.ids()[taker])
    until = time.monotonic() + 20
    while "0-9" not in str(scene.fleet.ask(taker, "CLUSTER", "NODES")).split("myself")[1].split("\n")[0]:
        assert time.monotonic() < until
        time.sleep(0.05)
    told = scene.told(capsys, outs)
    assert told[0] == (
        "to do: move 10 slots that are with another shard than declared; they hold 7 keys, less than 1 MB"
    )


def test_a_node_timeout_that_was_changed_by_hand_is_seen_and_put_back(scene: Scene) -> None:
    scene.publish()
    outs = scene.create()
    scene.fleet.ask(Member(1, 1), "CONFIG", "SET", "cluster-node-timeout", "9000")
    inputs = scene.props()
    assert TopologyProvider().diff("valkey/sessions", outs, inputs).changes is True
    TopologyProvider().update("valkey/sessions", outs, inputs)
    told = scene.fleet.ask(Member(1, 1), "CONFIG", "GET", "cluster-node-timeout")
    assert told == ["cluster-node-timeout", str(NODE_TIMEOUT_MS)]


def test_slots_that_nobody_serves_are_seen_again_and_again_until_they_are_put_back(scene: Scene) -> None:
    scene.publish()
    outs = scene.create()
    for member in scene.fleet.servers:
        scene.fleet.ask(member, "CLUSTER", "DELSLOTSRANGE", "100", "200", "6000", "6000")
    seen = outs
    for _ in range(2):  # A second refresh finds what the first one wrote.
        seen = TopologyProvider().read("valkey/sessions", seen).outs or {}
        assert seen["phase"] != "Ready"
        assert seen["layout"]["s0"] == "0-99,201-5460"
    inputs = scene.props()
    assert TopologyProvider().diff("valkey/sessions", seen, inputs).changes is True
    healed = TopologyProvider().update("valkey/sessions", seen, inputs).outs
    assert healed is not None
    assert healed == outs


def test_a_pod_that_fits_nowhere_ends_it_at_its_deadline_with_name_and_reason(scene: Scene) -> None:
    missing = Member(2, 1)
    scene.publish(missing)
    scene.fake.put(f"{PODS}/sessions-s2-1", unschedulable(2, 1, "0/3 nodes are available: 3 Insufficient cpu."))
    began = time.monotonic()
    with pytest.raises(ConvergeFailed) as raised:
        scene.create(timeout_s=6.0)
    assert 5 < time.monotonic() - began < 12
    told = str(raised.value)
    assert "sessions-s2-1: PodUnschedulable (0/3 nodes are available: 3 Insufficient cpu.)" in told
    assert PASSWORD not in told
    assert "formed" not in scene.status
    assert scene.status["phase"] in ("Degraded", "Failed")
    assert "Insufficient cpu" in scene.status["failure"]
    assert scene.status["failureOf"].startswith("up of ")
    conditions = {c["type"]: c for c in json.loads(scene.status["conditions"])}
    assert conditions["PodsScheduled"]["status"] == "False"
    assert conditions["PodsScheduled"]["reason"] == "PodUnschedulable"
    warnings = [event for event in scene.events() if event["type"] == "Warning"]
    assert {event["involvedObject"]["name"] for event in warnings} == {"sessions-s0", "sessions-s1", "sessions-s2"}
    assert "Insufficient cpu" in warnings[0]["message"]
    assert not scene.fake.objects[LEASE]["spec"]["holderIdentity"]

    # With the Pod there, the next run completes it: under which ids is free, as nobody had slots (ADR 17).
    scene.publish()
    assert scene.create()["phase"] == "Ready"
    assert "failure" not in scene.status


def test_pods_that_no_waiting_heals_end_it_before_the_deadline(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(patience.PATIENCE_S, "ImagePullBackOff", 1.0)
    monkeypatch.setattr(run, "POD_LOOK_S", 0.2)
    scene.publish(Member(0, 1))
    stuck = pod(0, 1, podIP=None, containerStatuses=waiting("ImagePullBackOff", "no such image"))
    scene.fake.put(f"{PODS}/sessions-s0-1", stuck)
    began = time.monotonic()
    with pytest.raises(ConvergeFailed, match=r"sessions-s0-1: ImagePullBackOff \(no such image\)"):
        scene.create(timeout_s=60.0)
    assert time.monotonic() - began < 20


def test_a_shard_that_never_started_is_taken_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(patience.PATIENCE_S, "ImagePullBackOff", 0.0)
    monkeypatch.setattr(run, "POD_LOOK_S", 0.0)
    scene.publish()
    outs = scene.create()
    scene.fake.put(f"{SETS}/sessions-s3", workload(3))
    stuck = pod(3, 0, podIP=None, containerStatuses=waiting("ImagePullBackOff", "no such image"))
    scene.fake.put(f"{PODS}/sessions-s3-0", stuck)
    # Something to do, so that it takes more than a look.
    scene.fleet.ask(Member(0, 0), "CONFIG", "SET", "cluster-node-timeout", 9999)
    again = TopologyProvider().update("valkey/sessions", outs, scene.props()).outs
    assert again is not None
    assert [
        one["type"] for one in again["conditions"] if one["status"] != "True" and one["type"] != "PodsOutdated"
    ] == []
    ShardGuardProvider().delete("id", {**scene.props(), "shard": 3.0})


def test_a_wrong_password_is_said_without_being_shown(scene: Scene) -> None:
    scene.publish()
    scene.fake.put(SECRET, {"data": {"password": base64.b64encode(b"other-secret").decode()}})
    with pytest.raises(ValkeyctlError) as raised:
        scene.create(timeout_s=4.0)
    assert "password" in str(raised.value)
    assert "other-secret" not in f"{raised.value}{scene.status}{scene.events()}"


def test_a_held_lease_names_its_holder_and_changes_nothing(scene: Scene) -> None:
    scene.publish()
    held = {"holderIdentity": "ann@laptop", "leaseDurationSeconds": 10, "acquireTime": "2026-01-01T00:00:00Z"}
    scene.fake.put(LEASE, {"spec": held})
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(0.2):
            scene.fake.put(LEASE, scene.fake.objects[LEASE])

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(LeaseHeld, match="ann@laptop"):
            scene.create()
    finally:
        stop.set()
        thread.join()
    assert STATUS not in scene.fake.objects
    assert "cluster_known_nodes:1" in str(scene.fleet.ask(Member(0, 0), "CLUSTER", "INFO"))


def test_a_lease_that_is_lost_stops_it_and_the_next_run_finishes(scene: Scene) -> None:
    missing = Member(2, 1)
    scene.publish(missing)

    def steal() -> None:
        while LEASE not in scene.fake.objects:
            time.sleep(0.05)
        time.sleep(0.5)
        scene.fake.put(LEASE, {"spec": {"holderIdentity": "bob@desk", "leaseDurationSeconds": 1}})

    thread = threading.Thread(target=steal)
    thread.start()
    with pytest.raises(Interrupted, match="taken over by bob@desk"):
        scene.create(timeout_s=30.0)
    thread.join()
    assert scene.fake.objects[LEASE]["spec"]["holderIdentity"] == "bob@desk"
    scene.publish()
    assert scene.create()["phase"] == "Ready"


def test_guards_hold_their_shards_until_the_instance_goes(scene: Scene) -> None:
    scene.publish()
    outs = scene.create()
    guard = {key: value for key, value in outs.items() if key != "layout"} | {"shard": 1.0}
    with pytest.raises(ShardStillNeeded, match=r"shard s1 still holds data: s1-\d owns 5461 slots"):
        ShardGuardProvider().delete("id", guard)
    TopologyProvider().delete("valkey/sessions", outs)
    ShardGuardProvider().delete("id", guard)
    # A destroy that was given up half way: the next `up` takes the mark back.
    scene.create()
    assert "destroying" not in scene.status
    with pytest.raises(ShardStillNeeded):
        ShardGuardProvider().delete("id", guard)


def test_a_cluster_is_read_as_unreachable_when_nobody_answers(scene: Scene) -> None:
    scene.publish()
    outs = scene.create()
    for server in scene.fleet.servers.values():
        server.freeze()
    try:
        began = time.monotonic()
        seen = TopologyProvider().read("valkey/sessions", outs)
        assert time.monotonic() - began < 8
    finally:
        for server in scene.fleet.servers.values():
            server.thaw()
    assert seen.id == "valkey/sessions"
    assert seen.outs is not None
    assert seen.outs["phase"] == "Unreachable"
    # What was known of the layout is not forgotten for that.
    assert seen.outs["layout"] == outs["layout"]


def test_pods_of_others_with_our_labels_are_never_spoken_to(scene: Scene) -> None:
    scene.publish()
    stranger = pod(0, 2, podIP="127.99.99.99")
    stranger["metadata"]["ownerReferences"] = []
    scene.fake.put(f"{PODS}/sessions-s0-2", stranger)
    assert scene.create()["phase"] == "Ready"


def test_the_status_of_the_instance_is_written_under_its_owner(scene: Scene) -> None:
    scene.publish()
    scene.create()
    assert scene.fake.objects[STATUS]["metadata"]["annotations"] == owned(OWNER)["metadata"]["annotations"]
