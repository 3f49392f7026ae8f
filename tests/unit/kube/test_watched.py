"""The Sentinels that watch a dataset: what is declared of them, and which Pods they are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.kube.fake_api import FakeApi, Object
from tests.unit.kube.pods_made import PODS, SETS
from valkeyctl.dataplane import Credentials, Member
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.sentinel.model import Parameters, sentinel
from valkeyctl.kube.access import Api
from valkeyctl.kube.sentinel_directory import SentinelDirectory, SentinelHosts
from valkeyctl.kube.watched import Members, Watch, address_of, described, sentinel_spec, watch_of

LABELS = {"app.kubernetes.io/name": "valkey-sentinel", "app.kubernetes.io/instance": "sessions"}
TOLD: dict[str, Any] = {
    "name": "valkey.sessions",
    "set": "sessions-sentinel",
    "hosts": ["sessions-sentinel-0.sessions-sentinel.valkey.svc:26379"],
    "replicas": 3.0,
    "quorum": 2.0,
    "down_after_ms": 2000.0,
    "failover_timeout_ms": 30000.0,
    "parallel_syncs": 1.0,
    "ids": {"0": "a" * 40},
    "credentials": {"user": "_operator", "secretName": "sessions-sentinel", "key": "operator"},
}


def pod(ordinal: int, *, running: bool = True, owner: str = "sessions-sentinel", **more: Any) -> Object:
    state = {"running": {}} if running else {"waiting": {}}
    return {
        "metadata": {
            "name": f"sessions-sentinel-{ordinal}",
            "labels": LABELS,
            "ownerReferences": [{"kind": "StatefulSet", "name": owner, "controller": True}],
            **more,
        },
        "status": {"podIP": f"10.0.1.{ordinal}", "containerStatuses": [{"name": "sentinel", "state": state}]},
    }


@pytest.fixture
def directory(api: Api, fake: FakeApi) -> SentinelDirectory:
    spec = {"replicas": 3, "selector": {"matchLabels": LABELS}}
    fake.put(f"{SETS}/sessions-sentinel", {"metadata": {"name": "sessions-sentinel"}, "spec": spec})
    return SentinelDirectory(api, "valkey", "sessions-sentinel")


def test_what_pulumi_passes_is_read_and_written_down_again() -> None:
    watch = watch_of(TOLD, "valkey")
    assert watch is not None
    assert (watch.replicas, watch.quorum, watch.port, watch.namespace) == (3, 2, 26379, "valkey")
    assert watch.parameters == Parameters(2000, 30000, 1)
    assert watch.ids == {0: "a" * 40}
    assert watch.own
    assert watch_of(json.loads(json.dumps(described(watch))), "elsewhere") == watch
    assert watch_of(None, "valkey") is None


def test_another_count_or_quorum_is_the_same_set() -> None:
    watch = watch_of(TOLD, "valkey")
    assert isinstance(watch, Watch)
    assert watch.is_same_set(replace(watch, replicas=5, quorum=3, hosts=()))
    assert not watch.is_same_set(replace(watch, namespace="other"))
    assert not watch.is_same_set(replace(watch, name="other.sessions"))
    assert not watch.is_same_set(None)


def test_members_are_known_by_the_names_that_stay() -> None:
    members = Members("valkey", "sessions", 1, 6379)
    watch = watch_of(TOLD, "valkey")
    assert watch is not None
    spec = sentinel_spec(watch, members, Credentials("_sentinel", "secret"), (sentinel(3),))
    assert spec.servers[Member(0, 1)] == Address("sessions-s0-1.sessions-headless.valkey.svc", 6379)
    assert (spec.user, spec.authenticated, spec.leaving) == ("_sentinel", True, (sentinel(3),))
    assert "secret" not in repr(spec)


def test_the_pods_of_the_set_that_run(directory: SentinelDirectory, fake: FakeApi) -> None:
    fake.put(f"{PODS}/sessions-sentinel-0", pod(0))
    fake.put(f"{PODS}/sessions-sentinel-1", pod(1, running=False))
    fake.put(f"{PODS}/sessions-sentinel-2", pod(2, owner="another"))
    fake.put(f"{PODS}/sessions-sentinel-4", pod(4, deletionTimestamp="2026-01-01T00:00:00Z"))
    found = directory()
    assert list(found) == [sentinel(0)]
    assert found[sentinel(0)].host == "sessions-sentinel-0.sessions-sentinel.valkey.svc"
    assert (found[sentinel(0)].address, found[sentinel(0)].port) == ("10.0.1.0", 26379)
    # Those that the StatefulSet wants exist, and one that is still there.
    assert directory.there() == tuple(sentinel(ordinal) for ordinal in (0, 1, 2, 4))


def test_without_a_statefulset_there_is_nobody(api: Api, fake: FakeApi) -> None:
    fake.put(f"{PODS}/sessions-sentinel-0", pod(0))
    nobody = SentinelDirectory(api, "valkey", "sessions-sentinel")
    assert (nobody(), nobody.there()) == ({}, ())


def test_sentinels_that_are_known_by_their_hosts_alone() -> None:
    found = SentinelHosts(("one.example:26379", "[2001:db8::1]:26380"))()
    assert found[sentinel(1)].address == "2001:db8::1"
    assert (found[sentinel(0)].address, found[sentinel(0)].port) == ("one.example", 26379)
    assert address_of("[2001:db8::1]:26380") == Address("2001:db8::1", 26380)
