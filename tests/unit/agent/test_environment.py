"""Who the agent is, out of its environment."""

from __future__ import annotations

import pytest

from valkeyctl.agent.environment import read_environment
from valkeyctl.dataplane.model import Member

GIVEN = {
    "POD_NAME": "sessions-s2-1",
    "POD_NAMESPACE": "data",
    "POD_IP": "10.1.2.3",
    "POD_HOST": "sessions-s2-1.sessions-headless.data.svc",
    "INSTANCE": "sessions",
}


def test_what_the_pod_template_gives() -> None:
    place = read_environment(GIVEN)
    assert place.member == Member(2, 1)
    assert place.domain == "sessions-headless.data.svc"
    assert place.host_of(Member(0, 0)) == "sessions-s0-0.sessions-headless.data.svc"
    assert (place.client_port, place.bus_port, place.agent_port) == (6379, 16379, 9379)
    assert not place.json_log


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_names_what_is_missing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is missing"):
        read_environment({**GIVEN, name: ""})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"POD_NAME": "other-s0-0"}, "not a Pod of the instance"),
        ({"POD_NAME": "sessions-s0"}, "not a Pod of the instance"),
        ({"AGENT_PORT": "0"}, "AGENT_PORT is not a port"),
        ({"VALKEY_PORT": "70000"}, "VALKEY_PORT is not a port"),
        ({"AGENT_LOG": "xml"}, "text or json"),
    ],
)
def test_refuses_what_makes_no_sense(changed: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_environment({**GIVEN, **changed})


@pytest.mark.parametrize(
    ("host", "member"),
    [
        ("sessions-s0-1.sessions-headless.data.svc", Member(0, 1)),
        ("sessions-s0-1.sessions-headless.other.svc", None),
        ("orders-s0-1.sessions-headless.data.svc", None),
        ("sessions-s0-1", None),
        ("", None),
    ],
)
def test_only_names_of_the_own_instance_are_members(host: str, member: Member | None) -> None:
    """Another instance's Pod may have an address of ours (report C2)."""
    assert read_environment(GIVEN).member_named(host) == member
