"""Settings that are tried on a running server before they are written: real servers of both lines."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.dataplane.servers import LINES, PORT, Fleet
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, pod
from valkeyctl.dataplane import Member, Spec, planned_layout
from valkeyctl.lifecycle.prepare import PrepareProvider
from valkeyctl.lifecycle.rehearsal import SettingRefused

SPEC = Spec("sessions", 1, 1, planned_layout(1))
PASSWORD = "very-secret-password"  # noqa: S105 - of a test
SECRET = "/api/v1/namespaces/valkey/secrets/sessions-auth"  # noqa: S105 - a path
BEFORE = {"hz": "10", "locale-collate": ""}


@pytest.fixture(scope="module", params=LINES)
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with Fleet(SPEC, request.param, password=PASSWORD) as running:
        running.start()
        yield running


@pytest.fixture
def servers(fake: FakeApi, fleet: Fleet) -> Fleet:
    fake.put(SECRET, {"data": {"password": base64.b64encode(PASSWORD.encode()).decode()}})
    for member, endpoint in fleet.directory().items():
        fake.put(f"{PODS}/{endpoint.pod}", pod(member.shard, member.ordinal, podIP=endpoint.address))
    return fleet


def props(fake: FakeApi, line: str, settings: dict[str, str]) -> dict[str, Any]:
    return {
        "kubeconfig": fake.kubeconfig,
        "transport": "direct",
        "owner": "acme/valkey/prod/sessions",
        "namespace": "valkey",
        "instance": "sessions",
        "objects": [],
        "former_owners": [],
        "settings": settings,
        "version": f"{line}.2",
        "port": float(PORT),
        "credentials": {"user": None, "secretName": "sessions-auth", "key": "password"},
    }


def changed(fake: FakeApi, line: str, settings: dict[str, str]) -> None:
    PrepareProvider().update("valkey/sessions", props(fake, line, BEFORE), props(fake, line, settings))


def sets(fleet: Fleet) -> int:
    """How often the servers were told a setting."""
    stats = [str(fleet.ask(member, "INFO", "commandstats")) for member in SPEC.members]
    lines = [line for text in stats for line in text.splitlines() if line.startswith("cmdstat_config|set:")]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


def test_a_setting_that_servers_take_is_set_back_at_once(fake: FakeApi, servers: Fleet) -> None:
    before = sets(servers)
    changed(fake, servers.line, {"hz": "50", "locale-collate": "C"})
    assert sets(servers) == before + 2, "one server was told, and told back"
    for member in SPEC.members:
        assert servers.ask(member, "CONFIG", "GET", "hz") == ["hz", "10"]
        assert servers.ask(member, "CONFIG", "GET", "locale-collate") == ["locale-collate", ""]


def test_one_that_they_refuse_ends_the_update_in_their_words_with_nothing_written(
    fake: FakeApi, servers: Fleet
) -> None:
    objects = set(fake.objects)
    with pytest.raises(SettingRefused) as raised:
        changed(fake, servers.line, {"hz": "50", "locale-collate": "xx_NOWHERE"})
    assert "'locale-collate'" in str(raised.value)
    assert PASSWORD not in str(raised.value)
    assert set(fake.objects) == objects
    for member in SPEC.members:
        assert servers.ask(member, "CONFIG", "GET", "hz") == ["hz", "10"]


def test_unchanged_settings_are_not_tried(fake: FakeApi, servers: Fleet) -> None:
    before = sets(servers)
    changed(fake, servers.line, BEFORE)
    assert sets(servers) == before


def test_what_leaves_traces_is_not_tried(fake: FakeApi, servers: Fleet) -> None:
    before = sets(servers)
    changed(fake, servers.line, {**BEFORE, "maxmemory": "1000", "save": "1 1", "appendonly": "yes"})
    assert sets(servers) == before
    assert servers.ask(Member(0, 0), "CONFIG", "GET", "maxmemory") == ["maxmemory", "0"]


def test_a_server_of_another_line_is_no_judge(fake: FakeApi, servers: Fleet) -> None:
    changed(fake, "9.2", {"hz": "50", "locale-collate": "xx_NOWHERE"})


def test_where_nobody_answers_nothing_is_said(fake: FakeApi, servers: Fleet) -> None:
    fake.put(SECRET, {"data": {"password": base64.b64encode(b"another one").decode()}})
    changed(fake, servers.line, {"locale-collate": "xx_NOWHERE"})
