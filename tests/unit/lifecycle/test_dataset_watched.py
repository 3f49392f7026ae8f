"""The resource `Dataset` with real Sentinels, which decide who is the primary."""

from __future__ import annotations

import base64
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.datasets import Writer
from tests.dataplane.sentinels import HURRY, OPERATOR, SENTINEL_PORT, SentinelServer, fixed_id
from tests.dataplane.servers import READY_S, new_address
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS
from tests.unit.lifecycle.dataset_stage import FIRST, SECOND, STATUS, THIRD, Stage, staged
from valkeyctl.dataplane import Member
from valkeyctl.lifecycle.dataset import DatasetProvider
from valkeyctl.lifecycle.sentinels import SentinelsProvider

NAME = "valkey.sessions"
LABELS = {"app.kubernetes.io/name": "valkey-sentinel", "app.kubernetes.io/instance": "sessions"}
CREDENTIALS = {"user": OPERATOR.user, "secretName": "sessions-sentinel", "key": "operator"}


@dataclass
class Sentinels:
    """Sentinel processes, and the Pods that stand for them."""

    fake: FakeApi
    root: Path
    line: str
    servers: dict[int, SentinelServer] = field(default_factory=dict[int, SentinelServer])

    def declare(self, replicas: int) -> None:
        """Writes the StatefulSet, and has as many run."""
        made = {
            "metadata": {"name": "sessions-sentinel", "labels": LABELS},
            "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}},
            "status": {"updateRevision": "r1"},
        }
        self.fake.put(f"{SETS}/sessions-sentinel", made)
        for ordinal in range(replicas):
            if ordinal not in self.servers:
                self._start(ordinal)
        for ordinal in [known for known in self.servers if known >= replicas]:
            self.fake.remove(f"{PODS}/sessions-sentinel-{ordinal}")
            self.servers.pop(ordinal).kill()

    def _start(self, ordinal: int) -> None:
        directory = Path(tempfile.mkdtemp(dir=self.root))
        server = SentinelServer(self.line, "", new_address(), directory, {}, sentinel_id=fixed_id(ordinal))
        server.start()
        server.await_answer()
        with server.client() as client:
            client.execute_command(*HURRY)
        self.servers[ordinal] = server
        name = f"sessions-sentinel-{ordinal}"
        owner = {"kind": "StatefulSet", "name": "sessions-sentinel", "controller": True}
        made = {
            "metadata": {
                "name": name,
                "labels": {**LABELS, "controller-revision-hash": "r1"},
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": "node1"},
            "status": {
                "phase": "Running",
                "podIP": server.address,
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "sentinel", "state": {"running": {}}, "restartCount": 0}],
            },
        }
        self.fake.put(f"{PODS}/{name}", made)

    def named(self) -> set[str]:
        """Whom they name as the primary, by address; "" for one that doesn't monitor it."""
        return {str(self._ask(ordinal, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)) for ordinal in self.servers}

    def _ask(self, ordinal: int, *command: str) -> object:
        with self.servers[ordinal].client() as client:
            found = client.execute_command(*command)
        return (found or [""])[0]

    def close(self) -> None:
        for server in self.servers.values():
            server.kill()


def sentinel(replicas: int = 3) -> dict[str, Any]:
    """As the components declare them. Numbers come as floats."""
    return {
        "name": NAME,
        "set": "sessions-sentinel",
        "hosts": [f"sessions-sentinel-{n}.sessions-sentinel.valkey.svc:{SENTINEL_PORT}" for n in range(replicas)],
        "replicas": float(replicas),
        "quorum": float(replicas // 2 + 1),
        "down_after_ms": 2000.0,
        "failover_timeout_ms": 5000.0,
        "parallel_syncs": 2.0,
        "port": float(SENTINEL_PORT),
        "ids": {str(ordinal): fixed_id(ordinal) for ordinal in range(replicas)},
        "credentials": CREDENTIALS,
        "monitor_as": None,
        "any_quorum": False,
        "own": True,
    }


@contextmanager
def watched(fake: FakeApi, stage: Stage, root: Path, line: str = "9.1") -> Iterator[Sentinels]:
    secret = "/api/v1/namespaces/valkey/secrets/sessions-sentinel"  # noqa: S105 - a path
    fake.put(secret, {"data": {"operator": base64.b64encode(str(OPERATOR.password).encode()).decode()}})
    sentinels = Sentinels(fake, root, line)
    try:
        sentinels.declare(3)
        stage.more |= {"architecture": "failover", "sentinel": sentinel()}
        yield sentinels
    finally:
        sentinels.close()


@pytest.fixture
def stage(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(fake, monkeypatch, 2) as made:
        yield made


@pytest.fixture
def sentinels(fake: FakeApi, stage: Stage, tmp_path: Path) -> Iterator[Sentinels]:
    with watched(fake, stage, tmp_path) as made:
        yield made


def host(stage: Stage, member: Member) -> str:
    return stage.dataset.servers[member].host


def test_servers_are_formed_and_all_sentinels_monitor_them(stage: Stage, sentinels: Sentinels) -> None:
    outs = stage.create()
    assert outs["phase"] == "Ready"
    assert outs["primary"] == "sessions-s0-0"
    assert sentinels.named() == {host(stage, FIRST)}
    assert outs["endpoints"]["primaryName"] == NAME
    assert outs["endpoints"]["sentinels"][0].startswith("sessions-sentinel-0.")
    assert {one["type"]: one["status"] for one in outs["conditions"]} == {
        **dict.fromkeys(("Ready", "MembersPresent", "OnePrimary", "ReplicasInSync", "EndpointsRight"), "True"),
        **dict.fromkeys(("SentinelsPresent", "SentinelsAgree", "Quorum", "PodsScheduled", "PodsStarted"), "True"),
        "PodsOutdated": "False",
    }
    assert stage.changes() is False
    assert str(OPERATOR.password) not in json.dumps(stage.fake.objects[STATUS])


def test_a_roll_hands_over_with_the_sentinels_and_loses_no_write(stage: Stage, sentinels: Sentinels) -> None:
    stage.create()
    stage.sets.declare("r2")
    with Writer(stage.dataset) as writer:
        writer.await_more()
        outs = stage.update(workload_revision="r2")
        writer.await_more()
    assert outs["phase"] == "Ready"
    assert {stage.sets.revisions()[f"sessions-s0-{ordinal}"] for ordinal in range(3)} == {"r2"}
    assert [line for line in stage.done() if "replace its Pod" in line] == [
        f"s0-{ordinal}: replace its Pod" for ordinal in (2, 1, 0)
    ]
    assert outs["primary"] == "sessions-s0-1"
    assert sentinels.named() == {host(stage, SECOND)}
    assert stage.behind("rw") == ("sessions-s0-1",)
    assert writer.lost(SECOND) == []
    assert stage.changes(workload_revision="r2") is False


def test_the_role_goes_to_where_it_is_declared(stage: Stage, sentinels: Sentinels) -> None:
    stage.create()
    assert stage.update(primary_ordinal=2.0)["primary"] == "sessions-s0-2"
    assert sentinels.named() == {host(stage, THIRD)}
    assert stage.behind("rw") == ("sessions-s0-2",)
    assert stage.changes(primary_ordinal=2.0) is False


def test_a_failover_of_theirs_is_followed(stage: Stage, sentinels: Sentinels) -> None:
    stage.create()
    stage.dataset.write(FIRST, "before")
    stage.dataset.kill(FIRST)
    deadline = time.monotonic() + READY_S
    while sentinels.named() & {host(stage, FIRST), ""}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    stage.dataset.start(FIRST)
    outs = stage.update()
    assert outs["phase"] == "Ready"
    assert outs["primary"] in ("sessions-s0-1", "sessions-s0-2")
    now = Member(0, int(outs["primary"][-1]))
    assert stage.behind("rw") == (outs["primary"],)
    assert stage.dataset.ask(now, "DBSIZE") == 20


def test_sentinels_come_and_go_and_are_forgotten(stage: Stage, sentinels: Sentinels) -> None:
    stage.create()
    sentinels.declare(5)
    outs = stage.update(sentinel=sentinel(5))
    assert outs["phase"] == "Ready"
    assert len(sentinels.servers) == 5
    assert sentinels.named() == {host(stage, FIRST)}
    sentinels.declare(3)
    outs = stage.update(sentinel=sentinel(3))
    assert outs["phase"] == "Ready"
    assert stage.changes(sentinel=sentinel(3)) is False


def test_it_moves_to_replica_and_back_in_place(stage: Stage, sentinels: Sentinels) -> None:
    stage.create()
    stage.dataset.write(FIRST, "kept")
    to_replica = {"architecture": "replica", "sentinel": None}
    found = DatasetProvider().diff("id", stage.outs, stage.inputs(**to_replica))
    assert (found.changes, found.replaces) == (True, [])
    outs = stage.update(**to_replica)
    assert outs["phase"] == "Ready"
    assert sentinels.named() == {""}, "they forgot it"
    outs = stage.update()
    assert outs["phase"] == "Ready"
    assert sentinels.named() == {host(stage, FIRST)}
    assert stage.dataset.ask(FIRST, "DBSIZE") == 20


def test_the_set_waits_for_all_to_answer(stage: Stage, sentinels: Sentinels) -> None:
    stage.create()
    declared = {
        **{key: stage.inputs()[key] for key in ("kubeconfig", "transport", "owner", "namespace")},
        "set_name": "sessions-sentinel",
        "replicas": 3.0,
        "port": float(SENTINEL_PORT),
        "credentials": CREDENTIALS,
        "timeout_s": 20.0,
        "workload_revision": "r1",
    }
    made = SentinelsProvider().create(declared)
    assert SentinelsProvider().diff("id", made.outs or {}, declared).changes is False
