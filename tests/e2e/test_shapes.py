"""Other shapes of a cluster than the usual one: bigger, older, an explicit layout, one's own password."""

import base64

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.leaks import leaks
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny


def test_six_shards(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=small(shards=6))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=6)
    assert probe.spread(nodes) == [2730, 2730, 2731, 2731, 2731, 2731]


def test_version_8_1(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(version="8.1"))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert {node.server["valkey_version"][:4] for node in nodes.values()} == {"8.1."}
    client = sandbox.client(stack)
    written = client.write(INSTANCE, 500)
    assert client.lost(INSTANCE, written) == []
    assert stack.outputs()[INSTANCE]["serverVersion"].startswith("8.1.")


def test_explicit_layout(sandbox: Sandbox, kube: Kube) -> None:
    slots = {0: "0-99,1000-16383", 1: "100-499", 2: "500-999"}
    stack = sandbox.stack(config=small(slots=slots, replicas=0))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, replicas=0)
    assert probe.layout(nodes) == {
        0: frozenset([*range(100), *range(1000, 16384)]),
        1: frozenset(range(100, 500)),
        2: frozenset(range(500, 1000)),
    }
    assert stack.outputs()[INSTANCE]["layout"]["s0"] == "0-99,1000-16383"


def test_password_of_ones_own_with_odd_characters(sandbox: Sandbox, kube: Kube) -> None:
    quoted = "with 'single' and \"double\" quotes, $HOME `id` \\ # and spaces"
    password = f"{quoted}; ünïcødé-Ω-密码; tab\tand%percent+plus/slash=="
    kube.create_namespace(sandbox.namespace)
    secret = {"metadata": {"name": "mine"}, "data": {"word": base64.b64encode(password.encode()).decode()}}
    kube.create("secrets", sandbox.namespace, secret)
    stack = sandbox.stack(config=tiny(auth={"passwordSecret": {"name": "mine", "key": "word"}}))
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    client = sandbox.client(stack)
    written = client.write(INSTANCE, 100)
    assert client.lost(INSTANCE, written) == []
    assert leaks(kube, stack, sandbox.namespace, [password]) == []
    stack.destroy()
    assert kube.get("secrets", sandbox.namespace, "mine") is not None


def test_settings_and_maxmemory_reach_the_server(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(config={"maxmemory-policy": "allkeys-lru", "hz": "25"}))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    pod = f"{INSTANCE}-s0-0"
    assert "allkeys-lru" in probe.command(kube, sandbox.namespace, pod, "CONFIG GET maxmemory-policy")
    assert "25" in probe.command(kube, sandbox.namespace, pod, "CONFIG GET hz").split()
    limit = 64 * 1024 * 1024
    assert 0.4 * limit <= int(nodes[pod].memory["maxmemory"]) <= 0.9 * limit
