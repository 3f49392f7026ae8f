"""`paused: true`: no Pod is left, everything else is, and the same members come back with every acknowledged write."""

import json
import re
from collections.abc import Mapping

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

#: Servers have up to 120 s to stop in; they take a few.
PAUSE_S = 300
VOLUMES = {"persistence": {"size": "64Mi"}}
KEPT = ("persistentvolumeclaims", "services", "secrets", "poddisruptionbudgets", "statefulsets", "configmaps")

pytestmark = pytest.mark.timeout(900)


def ours(kube: Kube, kind: str, namespace: str) -> dict[str, str]:
    """The instance's objects of a kind, and their uids."""
    found = kube.items(kind, namespace, f"app.kubernetes.io/instance={INSTANCE}")
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def everything(kube: Kube, namespace: str) -> dict[str, dict[str, str]]:
    return {kind: ours(kube, kind, namespace) for kind in KEPT}


def roles(nodes: Mapping[str, probe.Node]) -> dict[str, bool]:
    return {pod: node.is_primary for pod, node in nodes.items()}


def ids(nodes: Mapping[str, probe.Node]) -> dict[str, str]:
    return {pod: node.node_id for pod, node in nodes.items()}


def phase(kube: Kube, namespace: str) -> str:
    status = kube.get("configmaps", namespace, f"{INSTANCE}-status") or {}
    return str(status["data"]["phase"])


def assert_paused(stack: Stack, kube: Kube) -> None:
    """As Kubernetes tells it, as the stack does, and as `status` does."""
    namespace = stack.namespace
    assert ours(kube, "pods", namespace) == {}
    outputs = stack.outputs()[INSTANCE]
    assert outputs["phase"] == "Paused"
    assert [(one["type"], one["status"]) for one in outputs["conditions"]] == [("Paused", "True")]
    assert phase(kube, namespace) == "Paused"
    # It fails the test where its exit code isn't 0.
    (seen,) = json.loads(stack.valkeyctl("status", "-n", namespace, "--exit-code", "--json"))
    assert (seen["phase"], seen["members"], seen["todo"], seen["problem"]) == ("Paused", [], [], "")


def test_it_stops_keeps_and_comes_back(sandbox: Sandbox, kube: Kube) -> None:
    config = small(**VOLUMES)
    stack = sandbox.stack(config=config)
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    nodes = probe.assert_ready(kube, namespace, INSTANCE)
    written, before, layout = client.write(INSTANCE, 1500), everything(kube, namespace), stack.outputs()[INSTANCE]

    stack.configure({INSTANCE: {**config, "paused": True}})
    seen = stack.run("preview")
    assert "stop all 6 Pods; the data stays on their 6 volumes" in seen.output
    assert set(seen.changes().values()) == {"update"}
    with client.writing(INSTANCE, end_s=240) as record:
        done = stack.up(timeout_s=PAUSE_S)
    assert "all copies are equal: all 6 Pods may stop" in done.output
    assert record.acknowledged, "it was written to until the end"
    assert_paused(stack, kube)
    assert everything(kube, namespace) == before, "nothing is replaced, and nothing gone"
    assert stack.outputs()[INSTANCE]["layout"] == layout["layout"]
    events = kube.items("events", namespace)
    assert any((one["reason"], one["involvedObject"]["kind"]) == ("Paused", "StatefulSet") for one in events)
    stack.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    stack.run("up", "--yes", "--skip-preview", "--expect-no-changes")

    # What takes servers waits for them; what doesn't is in effect when they come back.
    stack.configure({INSTANCE: {**config, "paused": True, "shards": 4}})
    refused = stack.run("preview", expect=-1)
    assert "`shards` changes from 3 to 4 while the instance is paused" in refused.output
    assert "Traceback" not in refused.output

    stack.configure({INSTANCE: {**config, "config": {"maxmemory-policy": "allkeys-lru"}}})
    assert "start all 6 Pods, with the data that is on their 6 volumes" in stack.run("preview").output
    stack.up(timeout_s=PAUSE_S)
    after = probe.assert_ready(kube, namespace, INSTANCE)
    assert ids(after) == ids(nodes)
    assert roles(after) == roles(nodes), "nobody took over from anybody while all stopped"
    assert probe.layout(after) == probe.layout(nodes)
    assert client.lost(INSTANCE, [*written, *record.acknowledged]) == []
    assert everything(kube, namespace) == before
    told = probe.command(kube, namespace, f"{INSTANCE}-s0-0", "CONFIG GET maxmemory-policy")
    assert "allkeys-lru" in told
    assert "no" in probe.command(kube, namespace, f"{INSTANCE}-s0-0", "CONFIG GET cluster-replica-no-failover").split()
    stack.run("preview", "--expect-no-changes")


def test_killed_on_the_way_down_and_on_the_way_up_it_is_finished(sandbox: Sandbox, kube: Kube) -> None:
    # Servers of this line hand over by their agents.
    config = tiny(version="8.1", shards=2, **VOLUMES)
    stack = sandbox.stack(config=config)
    stack.up()
    namespace, client = sandbox.namespace, sandbox.client(stack)
    first = probe.assert_ready(kube, namespace, INSTANCE, shards=2)
    written = client.write(INSTANCE, 600)

    stack.configure({INSTANCE: {**config, "paused": True}})
    _killed(stack, r"end update StatefulSet")
    # Taken back half way, all of it serves again; so it may be paused once more.
    stack.configure({INSTANCE: config})
    stack.up(timeout_s=PAUSE_S)
    nodes = probe.assert_ready(kube, namespace, INSTANCE, shards=2)
    assert ids(nodes) == ids(first)
    assert client.lost(INSTANCE, written) == []
    written += client.write(INSTANCE, 600, first=600)

    stack.configure({INSTANCE: {**config, "paused": True}})
    _killed(stack, r"end update Prepare")
    stack.up(timeout_s=PAUSE_S)
    assert_paused(stack, kube)

    stack.configure({INSTANCE: config})
    _killed(stack, r"start update Topology")
    stack.up(timeout_s=PAUSE_S)
    after = probe.assert_ready(kube, namespace, INSTANCE, shards=2)
    assert (ids(after), roles(after)) == (ids(nodes), roles(nodes))
    assert client.lost(INSTANCE, written) == []


def test_made_paused_then_formed_paused_and_destroyed(sandbox: Sandbox, kube: Kube) -> None:
    config = tiny(replicas=0, persistence={"size": "64Mi", "reclaimPolicy": "Delete"})
    stack = sandbox.stack(config={**config, "paused": True})
    stack.up()
    assert_paused(stack, kube)
    stack.configure({INSTANCE: config})
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1, replicas=0)
    stack.configure({INSTANCE: {**config, "paused": True}})
    stack.up(timeout_s=PAUSE_S)
    assert_paused(stack, kube)

    # A person's Pod that isn't declared is seen, and stopped as carefully.
    kube.patch("statefulsets", sandbox.namespace, f"{INSTANCE}-s0", {"spec": {"replicas": 1}})
    eventually("it serves", lambda: _answers(kube, sandbox.namespace), timeout_s=60, pause_s=1)
    seen = stack.up(timeout_s=PAUSE_S)
    assert "stop the Pod; the data stays on its volume" in seen.output
    assert_paused(stack, kube)
    stack.destroy()
    assert stack.resources() == []
    eventually("the namespace is gone", lambda: kube.namespace(sandbox.namespace) is None, timeout_s=60)


def _answers(kube: Kube, namespace: str) -> bool:
    return bool(probe.ask_those_that_answer(kube, namespace, INSTANCE))


def _killed(stack: Stack, pattern: str) -> None:
    """An `up` that ends by SIGKILL at a moment; the next command may come at once."""
    running = stack.start("up", "--yes", "--skip-preview")
    running.until(lambda mark: bool(re.match(pattern, mark)), timeout_s=PAUSE_S)
    running.kill()
    stack.cancel()
