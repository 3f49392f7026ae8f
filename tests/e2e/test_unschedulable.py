"""A Pod that fits on no node: `up` ends at its deadline and says which, and why."""

import json

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.quota import allow_pods, lift
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

DEADLINE_S = 15


def test_up_ends_at_its_deadline_and_names_pod_and_reason(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(resources={"requests": {"cpu": "64"}}, timeoutSeconds=DEADLINE_S))
    failed = stack.up(expect=-1)
    took = failed.log.at(f"failed create Topology {INSTANCE}") - failed.log.at(f"start create Topology {INSTANCE}")
    assert DEADLINE_S - 2 < took < DEADLINE_S + 10
    assert f"{INSTANCE}-s0-0" in failed.output
    assert "nsufficient cpu" in failed.output
    assert "Traceback" not in failed.output

    status = kube.get("configmaps", sandbox.namespace, f"{INSTANCE}-status")
    assert status is not None
    told = json.dumps(status["data"])
    assert "PodUnschedulable" in told
    assert f"{INSTANCE}-s0-0" in told
    ours = [
        event
        for event in kube.items("events", sandbox.namespace)
        if event["involvedObject"]["kind"] == "StatefulSet" and event["source"].get("component") == "valkeyctl"
    ]
    assert any(event["type"] == "Warning" and "nsufficient cpu" in event["message"] for event in ours), ours

    shown = stack.valkeyctl("status", "--namespace", sandbox.namespace)
    assert f"{INSTANCE}-s0-0" in shown
    assert "nsufficient cpu" in shown

    # The corrected config mends it: Pods of the former template that don't run are replaced.
    stack.configure({INSTANCE: tiny()})
    mended = stack.up()
    assert "replace its Pod, which couldn't start (PodUnschedulable)" in mended.output
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)


def test_one_pod_too_many_leaves_the_rest_formed(sandbox: Sandbox, kube: Kube) -> None:
    # Five of six Pods may exist: what can be formed is formed, and the missing one is named.
    kube.create_namespace(sandbox.namespace)
    allow_pods(kube, sandbox.namespace, 5)
    stack = sandbox.stack(config=small(timeoutSeconds=DEADLINE_S))
    failed = stack.up(expect=-1)
    nodes = probe.ask(kube, sandbox.namespace, INSTANCE)
    missing = {f"{INSTANCE}-s{shard}-{ordinal}" for shard in range(3) for ordinal in range(2)} - set(nodes)
    assert len(missing) == 1
    assert missing.pop() in failed.output
    assert "exceeded quota" in failed.output

    def serves() -> bool:
        nodes = probe.ask(kube, sandbox.namespace, INSTANCE)
        return all(node.cluster["cluster_state"] == "ok" for node in nodes.values())

    eventually("the five that exist serve", serves, timeout_s=15)
    assert probe.spread(probe.ask(kube, sandbox.namespace, INSTANCE)) == [5461, 5461, 5462]
    lift(kube, sandbox.namespace)
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE)
