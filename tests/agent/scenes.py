"""What the tests with real agents do and see."""

from __future__ import annotations

import re

from tests.agent.pods import NODE_TIMEOUT_MS, Pods, eventually
from tests.dataplane import scenes
from valkeyctl.dataplane import Member, View

SPEC = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)


def formed(pods: Pods) -> View:
    """Start all Pods and form the cluster."""
    pods.start()
    view = scenes.run(pods)
    eventually(lambda: ready(pods), pods)
    return view


def ready(pods: Pods) -> bool:
    """Whether all members are, as a kubelet would see it."""
    return all(pod.probe("/ready")[0] == 200 for pod in pods.pods.values() if not pod.stopped)


def run_id(pods: Pods, member: Member) -> str:
    """Which process of a member's server answers."""
    found = re.search(r"run_id:(\w+)", str(pods.ask(member, "INFO", "server")))
    assert found
    return found[1]


def is_primary(pods: Pods, member: Member) -> bool:
    """Whether a member calls itself a primary."""
    return "role:master" in str(pods.ask(member, "INFO", "replication"))


def fill(pods: Pods, shard: int, count: int = 50) -> dict[str, str]:
    """Write keys of a shard to its ordinal 0, and wait until its replica has them."""
    keys = {scenes.key_in(pods.spec.layout[shard], number): f"before {number}" for number in range(count)}
    with pods.client(Member(shard, 0)) as client:
        for key, value in keys.items():
            client.set(key, value)
        assert client.wait(1, 5000) == 1
    return keys


def held_by(pods: Pods, member: Member, keys: dict[str, str]) -> bool:
    """Whether a member has all these keys."""
    with pods.client(member) as client:
        return all(client.get(key) == value for key, value in keys.items())
