"""What an `up` finds when it asks every member for its settings at the end, with real servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.dataplane.servers import Fleet
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, workload
from valkeyctl.dataplane import Member, Spec, planned_layout
from valkeyctl.kube.access import connect
from valkeyctl.kube.directory import Directory
from valkeyctl.lifecycle import settings_check
from valkeyctl.lifecycle.props import Declaration, Place
from valkeyctl.lifecycle.session import Session
from valkeyctl.lifecycle.settings_check import SettingsDiffer, await_settings

SPEC = Spec("sessions", 1, 1, planned_layout(1))
FIRST, SECOND = Member(0, 0), Member(0, 1)
DECLARED = {"hz": "10", "maxmemory-policy": "noeviction", "notify-keyspace-events": "KEA"}
EVENTS = "/api/v1/namespaces/valkey/events"


class Scene:
    """Two servers and the session of an `up`."""

    def __init__(self, fake: FakeApi, fleet: Fleet) -> None:
        self.fake, self.fleet = fake, fleet
        api = connect(fake.kubeconfig, None)
        self.session = Session(
            declaration=Declaration(
                place=Place("valkey", "sessions"),
                shards=1,
                replicas=1,
                layout=SPEC.layout,
                explicit=False,
                live_settings=DECLARED,
            ),
            api=api,
            dialer=fleet.dialer,
            directory=Directory(api, "valkey", "sessions", next(iter(fleet.directory().values())).port),
            spec=SPEC,
        )
        made = workload(0)
        made["metadata"] |= {"uid": "uid-0", "namespace": "valkey"}
        fake.put(f"{SETS}/sessions-s0", made)
        for member, endpoint in fleet.directory().items():
            fake.put(f"{PODS}/{endpoint.pod}", pod(member.shard, member.ordinal, podIP=endpoint.address))
        for member in SPEC.members:
            self.tell(member, **{"notify-keyspace-events": "AKE"})

    def tell(self, member: Member, **settings: str) -> None:
        for name, value in settings.items():
            self.fleet.ask(member, "CONFIG", "SET", name, value)

    def check(self) -> list[str]:
        self.lines: list[str] = []
        return await_settings(
            self.session, deadline=time.monotonic() + 60, tell=self.lines.append, may_go_on=lambda: None
        )

    def outdate(self, member: Member) -> None:
        made = workload(0)
        made["metadata"] |= {"uid": "uid-0", "namespace": "valkey"}
        made["status"] = {**(made.get("status") or {}), "updateRevision": "newer"}
        self.fake.put(f"{SETS}/sessions-s0", made)
        for one in SPEC.members:
            known: dict[str, Any] = self.fake.objects[f"{PODS}/sessions-{one}"]
            labels = {**known["metadata"]["labels"], "controller-revision-hash": "older" if one == member else "newer"}
            self.fake.put(f"{PODS}/sessions-{one}", {**known, "metadata": {**known["metadata"], "labels": labels}})


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet(SPEC, "9.1") as running:
        running.start()
        yield running


@pytest.fixture
def scene(fake: FakeApi, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(settings_check, "PATIENCE_S", 1.0)
    made = Scene(fake, fleet)
    yield made
    for member in SPEC.members:
        made.tell(member, hz="10", **{"maxmemory-policy": "noeviction"})


def test_members_that_have_them_are_not_waited_for(scene: Scene) -> None:
    before = time.monotonic()
    assert scene.check() == []
    assert scene.lines == []
    assert time.monotonic() - before < 1


def test_an_agent_that_is_about_to_apply_them_is_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_check, "PATIENCE_S", 20.0)
    scene.tell(SECOND, hz="50")
    threading.Timer(0.5, lambda: scene.tell(SECOND, hz="10")).start()
    assert scene.check() == []
    assert "s0-1 has '50' for hz where '10' is declared" in scene.lines[0]


def test_one_that_stays_different_is_named_with_the_servers_words(scene: Scene) -> None:
    scene.tell(SECOND, **{"maxmemory-policy": "allkeys-lru"})
    for number, (name, text) in enumerate(
        (("sessions-s0-1", "said before"), ("sessions-s0-1", "argument must be one of"), ("other-s0-1", "no concern"))
    ):
        about = {"kind": "Pod", "name": name, "namespace": "valkey"}
        body = {"reason": "SettingsRefused", "message": text, "involvedObject": about}
        scene.fake.put(f"{EVENTS}/e{number}", {**body, "lastTimestamp": f"2026-01-01T00:00:0{number}Z"})
    with pytest.raises(SettingsDiffer) as raised:
        scene.check()
    told = str(raised.value)
    assert "s0-1 has 'allkeys-lru' for maxmemory-policy where 'noeviction' is declared" in told
    assert "argument must be one of" in told
    assert "s0-0" not in told
    assert "said before" not in told
    assert "no concern" not in told


def test_without_a_word_of_an_agent_its_log_is_pointed_to(scene: Scene) -> None:
    scene.tell(FIRST, hz="99")
    with pytest.raises(SettingsDiffer, match="container agent"):
        scene.check()


def test_a_setting_that_the_server_does_not_have_differs(scene: Scene) -> None:
    declaration = replace(scene.session.declaration, live_settings={**DECLARED, "new-thing": "1"})
    scene.session = replace(scene.session, declaration=declaration)
    with pytest.raises(SettingsDiffer, match="s0-0 has nothing for new-thing"):
        scene.check()


def test_a_pod_of_the_former_template_is_only_warned_of(scene: Scene) -> None:
    scene.tell(SECOND, hz="50")
    scene.outdate(SECOND)
    (warning,) = scene.check()
    assert "s0-1 has '50' for hz" in warning
    assert "replaced" in warning
    scene.tell(FIRST, hz="50")
    with pytest.raises(SettingsDiffer) as raised:
        scene.check()
    assert "s0-1" not in str(raised.value)


def test_what_is_declared_by_nobody_is_not_asked(scene: Scene) -> None:
    scene.session = replace(scene.session, declaration=replace(scene.session.declaration, live_settings={}))
    scene.fake.close()
    assert scene.check() == []
