"""Pausing and coming back, as the resources do it: real servers, an API server in this process."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
import valkey

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, workload
from tests.unit.lifecycle.test_topology import LEASE, OWNER, REPLICAS, SHARDS, STATUS, Scene, scene
from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import Blocked
from valkeyctl.kube.access import connect
from valkeyctl.kube.declared import DeclaredState, read_declared
from valkeyctl.lifecycle import pausing
from valkeyctl.lifecycle.prepare import PrepareProvider
from valkeyctl.lifecycle.run import ConvergeFailed
from valkeyctl.lifecycle.topology import TopologyProvider

__all__ = ["scene"]

SETTINGS = {"cluster-replica-no-failover": "yes", "shutdown-on-sigterm": "default", "maxmemory": "1"}
EVERY = [Member(shard, ordinal) for shard in range(SHARDS) for ordinal in range(1 + REPLICAS)]
LAYOUT = {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}


def prepared(scene: Scene, *, paused: bool) -> dict[str, Any]:
    return {
        **{key: value for key, value in scene.props().items() if key != "layout"},
        "objects": [],
        "settings": SETTINGS,
        "paused": paused,
    }


def prepare(scene: Scene, *, paused: bool) -> bool:
    """What an `up` does before the StatefulSets; whether there was anything to do."""
    inputs = prepared(scene, paused=paused)
    # The state says that all was done: so it is after an `up` that was killed.
    if not PrepareProvider().diff("valkey/sessions", inputs, inputs).changes:
        return False
    PrepareProvider().update("valkey/sessions", inputs, inputs)
    return True


def scale(scene: Scene, replicas: int, *shards: int) -> None:
    """What Pulumi does then, and Kubernetes: the Pods go with their servers, or come back on their disks."""
    for shard in shards or range(SHARDS):
        made = workload(shard, replicas=replicas)
        made["metadata"] |= {"uid": f"uid-{shard}", "namespace": "valkey"}
        scene.fake.put(f"{SETS}/sessions-s{shard}", made)
        members = [member for member in EVERY if member.shard == shard]
        if replicas:
            scene.fleet.resume(*members)
            continue
        scene.fleet.stop(*members)
        for member in members:
            del scene.fake.objects[f"{PODS}/sessions-{member}"]


def told_agents(scene: Scene) -> DeclaredState:
    told = read_declared(connect(scene.fake.kubeconfig, None), "valkey", "sessions")
    assert told is not None
    return told


def setting(scene: Scene, member: Member, name: str) -> str:
    return str(scene.fleet.ask(member, "CONFIG", "GET", name)[1])  # type: ignore[index]


def takes_writes(scene: Scene, member: Member) -> bool:
    """Whether a write comes through; one that waits gets no answer."""
    with scene.fleet.client(member) as client:
        client.connection_pool.connection_kwargs["socket_timeout"] = 0.5
        with suppress(valkey.TimeoutError):
            client.publish("channel", "x")
            return True
    return False


@pytest.fixture
def formed(scene: Scene) -> tuple[Scene, dict[str, Any]]:
    scene.publish()
    return scene, scene.create(persistent=True)


def test_everything_is_brought_to_rest_before_the_pods_go(
    formed: tuple[Scene, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    scene, outs = formed
    primary = Member(0, int(outs["primaries"]["s0"][-1]))
    assert takes_writes(scene, primary)
    assert prepare(scene, paused=True)
    told = capsys.readouterr().err
    assert "to do: stop all 6 Pods; the data stays on their 6 volumes" in told
    assert "all copies are equal: all 6 Pods may stop" in told
    assert not takes_writes(scene, primary)
    for member in EVERY:
        assert setting(scene, member, "cluster-replica-no-failover") == "yes"
        assert setting(scene, member, "shutdown-on-sigterm") == "default"
        assert setting(scene, member, "maxmemory") == "0", "what isn't for the end is the agents' to apply"
    assert told_agents(scene).paused
    assert told_agents(scene).spec.formed
    assert json.loads(scene.status["declared"])["paused"] is True
    assert not scene.fake.objects[LEASE]["spec"]["holderIdentity"]
    # Killed here, the next `up` does it once more.
    assert prepare(scene, paused=True)
    assert not takes_writes(scene, primary)


def test_taken_back_before_a_pod_went_all_goes_on(
    formed: tuple[Scene, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    scene, outs = formed
    primary = Member(0, int(outs["primaries"]["s0"][-1]))
    prepare(scene, paused=True)
    assert prepare(scene, paused=False)
    assert "start all 6 Pods, with the data that is on their 6 volumes" in capsys.readouterr().err
    assert takes_writes(scene, primary)
    assert not told_agents(scene).paused
    assert json.loads(scene.status["declared"])["paused"] is False
    assert not prepare(scene, paused=False), "and then there is nothing to do"


def test_paused_and_back_with_the_same_members(formed: tuple[Scene, dict[str, Any]]) -> None:
    scene, outs = formed
    ids = scene.fleet.ids()
    prepare(scene, paused=True)
    scale(scene, 0)
    inputs = scene.props(persistent=True, paused=True)
    assert TopologyProvider().diff("id", outs, inputs).changes is True
    paused = TopologyProvider().update("id", outs, inputs).outs
    assert paused is not None
    assert paused["phase"] == "Paused"
    assert paused["conditions"] == [{"type": "Paused", "status": "True", "reason": "NoPods"}]
    for key in ("layout", "primaries", "endpoints", "secret_name", "server_version"):
        assert paused[key] == outs[key]
    # A refresh finds the same, and another `up` nothing to do.
    assert TopologyProvider().read("id", paused).outs == paused
    assert TopologyProvider().diff("id", paused, inputs).changes is False
    assert not prepare(scene, paused=True)
    assert (scene.status["phase"], scene.status["formed"]) == ("Paused", "true")
    assert ("Normal", "Paused") in {(event["type"], event["reason"]) for event in scene.events()}

    assert prepare(scene, paused=False)
    assert not told_agents(scene).paused, "the agents may help from the first Pod on"
    scale(scene, 2)
    scene.publish()
    again = scene.props(persistent=True)
    assert TopologyProvider().diff("id", paused, again).changes is True
    back = TopologyProvider().update("id", paused, again).outs
    assert back is not None
    assert back["phase"] == "Ready"
    assert scene.fleet.ids() == ids
    assert (back["layout"], back["primaries"]) == (outs["layout"], outs["primaries"])
    assert TopologyProvider().diff("id", back, again).changes is False


def test_killed_between_two_shards_the_next_one_stops_the_others(formed: tuple[Scene, dict[str, Any]]) -> None:
    scene, outs = formed
    prepare(scene, paused=True)
    scale(scene, 0, 0)
    # Writes went on meanwhile, and nobody has healed what is to stop.
    primaries = [Member(shard, int(outs["primaries"][f"s{shard}"][-1])) for shard in (1, 2)]
    for member in primaries:
        scene.fleet.ask(member, "CLIENT", "UNPAUSE")
    assert prepare(scene, paused=True)
    assert not any(takes_writes(scene, member) for member in primaries)
    scale(scene, 0, 1, 2)
    assert not prepare(scene, paused=True)


def test_a_replica_that_does_not_come_is_told_of_and_not_waited_for_for_ever(
    formed: tuple[Scene, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, outs = formed
    monkeypatch.setattr(pausing, "WHOLE_S", 1.0)
    replica = Member(1, 1 - int(outs["primaries"]["s1"][-1]))
    scene.fleet.stop(replica)
    assert prepare(scene, paused=True)
    told = capsys.readouterr().err
    assert f"it is paused as it is: {replica}: wait until it has all that" in told
    assert not takes_writes(scene, Member(1, 1 - replica.ordinal))


def test_a_shard_whose_primary_does_not_answer_is_not_stopped(
    formed: tuple[Scene, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, outs = formed
    monkeypatch.setattr(pausing, "WHOLE_S", 1.0)
    frozen = [member for member in EVERY if member.shard == 2]
    for member in frozen:
        scene.fleet.servers[member].freeze()
    try:
        with pytest.raises(Blocked, match=r"sessions-s2-0, sessions-s2-1 run, and no primary of their shard answers"):
            prepare(scene, paused=True)
    finally:
        for member in frozen:
            scene.fleet.servers[member].thaw()
    assert not told_agents(scene).paused
    assert takes_writes(scene, Member(0, int(outs["primaries"]["s0"][-1])))


def test_copies_that_cannot_be_made_equal_leave_all_as_it_was(
    formed: tuple[Scene, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, outs = formed
    monkeypatch.setattr(pausing, "EQUAL_S", 0.0)
    monkeypatch.setattr(pausing, "disk_troubles", lambda *_: {Member(0, 0): "the append-only file has a fault"})
    with pytest.raises(Blocked, match="it can't be paused now"):
        prepare(scene, paused=True)
    assert not told_agents(scene).paused
    assert json.loads(scene.status["declared"])["paused"] is False
    assert takes_writes(scene, Member(0, int(outs["primaries"]["s0"][-1])))
    assert not scene.fake.objects[LEASE]["spec"]["holderIdentity"]


def test_what_never_was_ready_just_stops(scene: Scene) -> None:
    scene.publish()
    assert prepare(scene, paused=True)
    assert takes_writes(scene, Member(0, 0))


def test_made_paused_it_is_formed_when_it_comes(scene: Scene) -> None:
    for shard in range(SHARDS):
        made = workload(shard, replicas=0)
        made["metadata"] |= {"uid": f"uid-{shard}", "namespace": "valkey"}
        scene.fake.put(f"{SETS}/sessions-s{shard}", made)
    paused = scene.create(persistent=True, paused=True)
    assert (paused["phase"], paused["layout"]) == ("Paused", LAYOUT)
    assert TopologyProvider().read("id", paused).outs == paused
    assert TopologyProvider().diff("id", paused, scene.props(persistent=True, paused=True)).changes is False
    assert "formed" not in scene.status
    scene.publish()
    prepare(scene, paused=False)
    formed = TopologyProvider().update("id", paused, scene.props(persistent=True)).outs
    assert formed is not None
    assert (formed["phase"], formed["layout"]) == ("Ready", LAYOUT)


def test_pods_that_stay_are_named(formed: tuple[Scene, dict[str, Any]]) -> None:
    scene, outs = formed
    inputs = scene.props(persistent=True, paused=True, timeout_s=1.0)
    with pytest.raises(ConvergeFailed, match=r"sessions is not paused: sessions-s0-0, .* and 2 more haven't stopped"):
        TopologyProvider().update("id", outs, inputs)
    assert scene.status["phase"] == "Degraded"
    assert "haven't stopped" in scene.status["failure"]
    seen = TopologyProvider().read("id", {**outs, "paused": True}).outs
    assert seen is not None
    assert (seen["phase"], seen["conditions"][0]["reason"]) == ("Degraded", "PodsRun")
    assert TopologyProvider().diff("id", {**outs, **inputs}, inputs).changes is True

    def go() -> None:
        time.sleep(0.5)
        for member in EVERY:
            del scene.fake.objects[f"{PODS}/sessions-{member}"]
        for shard in range(SHARDS):
            scene.fake.objects[f"{SETS}/sessions-s{shard}"]["spec"]["replicas"] = 0

    thread = threading.Thread(target=go)
    thread.start()
    done = TopologyProvider().update("id", outs, scene.props(persistent=True, paused=True)).outs
    thread.join()
    assert done is not None
    assert done["phase"] == "Paused"
    assert "failure" not in scene.status


def test_an_api_server_that_does_not_answer_is_unreachable_and_not_paused(fake: FakeApi) -> None:
    known = {
        "kubeconfig": fake.kubeconfig,
        "transport": "direct",
        "owner": OWNER,
        "namespace": "valkey",
        "instance": "sessions",
        "shards": 3.0,
        "replicas": 1.0,
        "layout": LAYOUT,
        "paused": True,
        "phase": "Paused",
    }
    fake.fault = lambda _method, path: 500 if "statefulsets" in path else None
    seen = TopologyProvider().read("id", known).outs
    assert seen is not None
    assert (seen["phase"], seen["layout"]) == ("Unreachable", LAYOUT)
    assert STATUS not in fake.objects
