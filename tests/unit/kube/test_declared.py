"""What is declared reaches the agents as it is, and nobody acts on what isn't understood."""

import json
from dataclasses import replace

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.dataplane import Spec, parse_layout, planned_layout
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import (
    KEY,
    DeclaredState,
    DeclaredUnreadable,
    ensure_declared,
    read_declared,
    remove_declared,
    write_declared,
)
from valkeyctl.kube.errors import ApiBusy

PATH = "/api/v1/namespaces/valkey/configmaps/sessions-declared"
OWNER = "acme/valkey/prod/sessions"
SPEC = Spec("sessions", 3, 1, planned_layout(3), formed=True, node_timeout_ms=5000)
STATES = [
    DeclaredState(OWNER, SPEC),
    DeclaredState(OWNER, replace(SPEC, persistent=True, takeover_after_s=30.0), port=7000),
    DeclaredState(OWNER, Spec("sessions", 1, 0, planned_layout(1), node_timeout_ms=None), heal=False),
    DeclaredState(OWNER, SPEC, paused=True),
    DeclaredState(OWNER, replace(SPEC, layout=parse_layout({0: "0-16383", 1: "", 2: ""}), explicit=True)),
]


@pytest.mark.parametrize("state", STATES)
def test_it_is_read_as_it_was_written(api: Api, state: DeclaredState) -> None:
    write_declared(api, "valkey", "sessions", state)
    write_declared(api, "valkey", "sessions", state)
    assert read_declared(api, "valkey", "sessions") == state


def test_agents_heal_neither_where_that_is_switched_off_nor_what_is_paused() -> None:
    assert DeclaredState(OWNER, SPEC).may_heal
    assert not DeclaredState(OWNER, SPEC, heal=False).may_heal
    assert not DeclaredState(OWNER, SPEC, paused=True).may_heal


def test_what_a_former_version_declared_is_not_paused(api: Api, fake: FakeApi) -> None:
    write_declared(api, "valkey", "sessions", STATES[0])
    told = json.loads(fake.objects[PATH]["data"][KEY])
    del told["paused"]
    fake.objects[PATH]["data"][KEY] = json.dumps(told)
    assert read_declared(api, "valkey", "sessions") == STATES[0]


def test_consent_to_a_loss_of_data_is_for_one_run_and_reaches_no_agent(api: Api) -> None:
    write_declared(api, "valkey", "sessions", DeclaredState(OWNER, replace(SPEC, accept_data_loss=True)))
    assert read_declared(api, "valkey", "sessions") == DeclaredState(OWNER, SPEC)


def test_nothing_is_declared_before_the_first_up_comes_to_it(api: Api, fake: FakeApi) -> None:
    assert read_declared(api, "valkey", "sessions") is None
    ensure_declared(api, "valkey", "sessions", OWNER)
    assert PATH in fake.objects
    assert read_declared(api, "valkey", "sessions") is None
    write_declared(api, "valkey", "sessions", STATES[0])
    ensure_declared(api, "valkey", "sessions", OWNER)
    assert read_declared(api, "valkey", "sessions") == STATES[0], "what is declared stays"


def test_what_is_being_destroyed_is_not_declared_any_more(api: Api, fake: FakeApi) -> None:
    write_declared(api, "valkey", "sessions", STATES[0])
    remove_declared(api, "valkey", "sessions", "acme/valkey/prod/other")
    assert PATH in fake.objects, "it belongs to somebody else"
    remove_declared(api, "valkey", "sessions", OWNER)
    remove_declared(api, "valkey", "sessions", OWNER)
    assert PATH not in fake.objects


def test_an_api_server_that_fails_is_not_read_as_nothing_declared(api: Api, fake: FakeApi) -> None:
    write_declared(api, "valkey", "sessions", STATES[0])
    fake.fault = lambda _method, _path: 503
    with pytest.raises(ApiBusy):
        read_declared(api, "valkey", "sessions")


def written(**changes: object) -> str:
    told = {"format": 1, "shards": 1, "replicas": 0, "layout": {"s0": "0-16383"}}
    return json.dumps({**told, **changes})


def test_what_a_later_version_adds_is_passed_over(api: Api, fake: FakeApi) -> None:
    fake.put(PATH, {"data": {KEY: written(users=["ann"])}})
    found = read_declared(api, "valkey", "sessions")
    assert found is not None
    assert found.spec == Spec("sessions", 1, 0, planned_layout(1))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        written(format=2),
        written(shards=0),
        written(shards=2),
        written(layout={"s0": "0-100"}),
        written(layout={"zero": "0-16383"}),
        written(layout=None),
        written(takeoverAfterSeconds="soon"),
    ],
)
def test_what_is_not_understood_is_said_and_never_guessed(api: Api, fake: FakeApi, text: str) -> None:
    fake.put(PATH, {"data": {KEY: text}})
    with pytest.raises(DeclaredUnreadable, match=r"sessions-declared is not understood.*pulumi up"):
        read_declared(api, "valkey", "sessions")
