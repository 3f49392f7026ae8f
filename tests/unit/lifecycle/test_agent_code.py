"""The agents' code in its ConfigMap: written, seen, put back and removed."""

import base64
from typing import Any

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.test_objects import owned
from tests.unit.lifecycle.test_providers import OTHER, OWNER, props
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.errors import OwnedByOthers
from valkeyctl.lifecycle.agent_code import AgentCodeProvider
from valkeyctl.lifecycle.bundle import BUNDLE_FILE, MOST_BYTES, agent_bundle

CODE = "/api/v1/namespaces/valkey/configmaps/sessions-agent"


def code(fake: FakeApi, **more: Any) -> dict[str, Any]:
    given = {"config_map": "sessions-agent", "digest": agent_bundle().digest, "labels": {"a": "b"}}
    return props(fake, **{**given, **more})


def held(fake: FakeApi) -> bytes:
    return base64.b64decode(fake.objects[CODE]["binaryData"][BUNDLE_FILE])


def test_comes_and_goes(fake: FakeApi) -> None:
    made = AgentCodeProvider().create(code(fake))
    assert made.id == "valkey/sessions-agent"
    assert held(fake) == agent_bundle().content
    assert len(fake.objects[CODE]["binaryData"][BUNDLE_FILE]) < MOST_BYTES
    metadata = fake.objects[CODE]["metadata"]
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"]["valkeyctl/owner"] == OWNER
    assert made.outs is not None
    assert len(repr(made.outs)) < 2000
    assert AgentCodeProvider().diff("id", made.outs, code(fake)).changes is False
    AgentCodeProvider().delete("id", made.outs)
    assert fake.objects == {}
    AgentCodeProvider().delete("id", made.outs)


def test_another_version_is_an_update_in_place(fake: FakeApi) -> None:
    olds = code(fake, digest="older")
    fake.put(CODE, {**owned(OWNER), "binaryData": {BUNDLE_FILE: base64.b64encode(b"older").decode()}})
    result = AgentCodeProvider().diff("id", olds, code(fake))
    assert (result.changes, result.replaces) == (True, [])
    AgentCodeProvider().update("id", olds, code(fake))
    assert held(fake) == agent_bundle().content


@pytest.mark.parametrize("data", [{}, {BUNDLE_FILE: "eA=="}, {BUNDLE_FILE: "no base64"}, {"other": "eA=="}])
def test_what_was_changed_by_hand_is_seen_and_put_back(fake: FakeApi, data: dict[str, str]) -> None:
    state = code(fake)
    AgentCodeProvider().create(state)
    fake.put(CODE, {**owned(OWNER), "binaryData": data})
    # Without a refresh too.
    assert AgentCodeProvider().diff("id", state, state).changes is True
    seen = AgentCodeProvider().read("id", state).outs
    assert seen is not None
    assert seen["digest"] == ""
    assert AgentCodeProvider().diff("id", seen, state).changes is True
    AgentCodeProvider().update("id", seen, state)
    assert held(fake) == agent_bundle().content


def test_gone_is_only_what_the_api_server_says_is_gone(fake: FakeApi) -> None:
    state = code(fake)
    assert AgentCodeProvider().read("id", state).id is None
    fake.fault = lambda _method, _path: 503
    kept = AgentCodeProvider().read("id", state)
    assert kept.id == "id"
    assert kept.outs is not None
    assert kept.outs["digest"] == state["digest"]
    assert AgentCodeProvider().diff("id", state, state).changes is False


def test_one_of_somebody_else_is_left_as_it_is(fake: FakeApi) -> None:
    fake.put(CODE, owned(OTHER))
    with pytest.raises(OwnedByOthers, match=OTHER):
        AgentCodeProvider().create(code(fake))
    AgentCodeProvider().delete("id", code(fake))
    assert "binaryData" not in fake.objects[CODE]


def test_a_renamed_stack_takes_its_own_along(fake: FakeApi) -> None:
    AgentCodeProvider().create(code(fake, owner=OTHER))
    AgentCodeProvider().update("id", code(fake, owner=OTHER), code(fake))
    assert fake.objects[CODE]["metadata"]["annotations"]["valkeyctl/owner"] == OWNER


def test_sources_that_change_under_a_running_pulumi_are_not_mixed(fake: FakeApi) -> None:
    with pytest.raises(ValkeyctlError, match="were changed while pulumi ran"):
        AgentCodeProvider().create(code(fake, digest="another"))
    assert fake.objects == {}


def test_another_name_or_namespace_is_another_one(fake: FakeApi) -> None:
    state = code(fake)
    for change in ({"namespace": "elsewhere"}, {"config_map": "other-agent"}):
        result = AgentCodeProvider().diff("id", state, {**state, **change})
        assert (result.changes, result.replaces) == (True, list(change))
