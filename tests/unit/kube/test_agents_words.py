"""What an agent writes for people: what it saw, and nothing of what is `up`'s to say."""

import json
import time

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import SETS, workload
from valkeyctl.dataplane import Condition, Spec, Status, planned_layout
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import DeclaredState, read_declared, write_declared
from valkeyctl.kube.errors import ApiNotFound
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.status import (
    Declared,
    InstanceStatus,
    ensure_status,
    mark_destroying,
    read_status,
    remove_traces,
    write_seen,
    write_status,
)

OWNER = "acme/valkey/prod/sessions"
STATUS = "/api/v1/namespaces/valkey/configmaps/sessions-status"
DECLARED = "/api/v1/namespaces/valkey/configmaps/sessions-declared"
SEEN = InstanceStatus(
    phase="Degraded",
    conditions=(Condition("Ready", Status.FALSE, "Blocked", "why"),),
    failure="why",
    observer="agent sessions-s0-0",
)


def test_what_is_ups_to_say_stays(api: Api) -> None:
    declared = Declared(3, 1, layout={"s0": "0-5460"})
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", formed=True, declared=declared))
    mark_destroying(api, "valkey", "sessions", OWNER)
    write_seen(api, "valkey", "sessions", SEEN)
    found = read_status(api, "valkey", "sessions")
    assert found is not None
    assert (found.phase, found.failure, found.observer) == ("Degraded", "why", "agent sessions-s0-0")
    assert found.conditions == SEEN.conditions
    assert (found.formed, found.destroying, found.declared, found.owner) == (True, True, declared, OWNER)


def test_that_it_was_formed_is_said_by_an_agent_too(api: Api) -> None:
    ensure_status(api, "valkey", "sessions", OWNER)
    write_seen(api, "valkey", "sessions", InstanceStatus("Ready", formed=True))
    found = read_status(api, "valkey", "sessions")
    assert found is not None
    assert (found.formed, found.failure, found.owner) == (True, "", OWNER)


def test_an_agent_makes_no_status(api: Api, fake: FakeApi) -> None:
    with pytest.raises(ApiNotFound):
        write_seen(api, "valkey", "sessions", SEEN)
    assert all(method != "POST" for method, _ in fake.seen)


def test_ensuring_a_status_changes_none_that_is_there(api: Api, fake: FakeApi) -> None:
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", formed=True))
    before = dict(fake.objects[STATUS]["data"])
    ensure_status(api, "valkey", "sessions", OWNER)
    assert fake.objects[STATUS]["data"] == before


def test_what_is_being_destroyed_is_declared_no_more_and_leaves_no_trace(api: Api, fake: FakeApi) -> None:
    write_status(api, "valkey", "sessions", OWNER, InstanceStatus("Ready", formed=True))
    write_declared(
        api, "valkey", "sessions", DeclaredState(OWNER, Spec("sessions", 1, 0, planned_layout(1), formed=True))
    )
    mark_destroying(api, "valkey", "sessions", OWNER)
    assert read_declared(api, "valkey", "sessions") is None
    write_declared(api, "valkey", "sessions", DeclaredState(OWNER, Spec("sessions", 1, 0, planned_layout(1))))
    remove_traces(api, "valkey", "sessions", {OWNER})
    assert STATUS not in fake.objects
    assert DECLARED not in fake.objects


def test_who_may_only_create_events_tells_the_same_twice_all_the_same(api: Api, fake: FakeApi) -> None:
    made = workload(0)
    made["metadata"] |= {"uid": "uid-0", "namespace": "valkey"}
    fake.put(f"{SETS}/sessions-s0", made)
    recorder = Recorder(api, "valkey", "sessions", [made], create_only=True)
    for _ in range(2):
        recorder.phase("Degraded", "no majority", bad=True)
        time.sleep(0.002)
    events = [o for path, o in fake.objects.items() if "/events/" in path]
    assert [(event["type"], event["message"], event["count"]) for event in events] == [
        ("Warning", "no majority", 1),
        ("Warning", "no majority", 1),
    ]
    assert {method for method, _ in fake.seen} == {"POST"}
    assert recorder.failed == ""
    assert json.dumps(events).count("uid-0") == 2
