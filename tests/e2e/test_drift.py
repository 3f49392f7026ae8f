"""Changes by hand: `refresh` shows them, the next `up` heals them, and no key is lost."""

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, Object, eventually
from tests.e2e.harness.sandbox import INSTANCE, unattended

pytestmark = pytest.mark.xdist_group("drift")
FORMED = unattended()

Nodes = dict[str, probe.Node]


def _replica_reset(kube: Kube, namespace: str, nodes: Nodes) -> None:
    probe.command(kube, namespace, probe.replica_of(nodes, 1).pod, "CLUSTER RESET SOFT")


def _replica_elsewhere(kube: Kube, namespace: str, nodes: Nodes) -> None:
    other = probe.primary_of(nodes, 2).node_id
    probe.command(kube, namespace, probe.replica_of(nodes, 0).pod, f"CLUSTER REPLICATE {other}")


def _slots_deleted(kube: Kube, namespace: str, nodes: Nodes) -> None:
    for node in nodes.values():
        probe.command(kube, namespace, node.pod, "CLUSTER DELSLOTSRANGE 100 200 6000 6000")


def _slot_left_open(kube: Kube, namespace: str, nodes: Nodes) -> None:
    source, target = probe.primary_of(nodes, 0), probe.primary_of(nodes, 1)
    probe.command(kube, namespace, target.pod, f"CLUSTER SETSLOT 7 IMPORTING {source.node_id}")
    probe.command(kube, namespace, source.pod, f"CLUSTER SETSLOT 7 MIGRATING {target.node_id}")


def test_changes_by_hand_are_shown_and_healed(formed: Formed, kube: Kube) -> None:
    nodes = formed.emptied()
    written = formed.client.write(INSTANCE, 1500)
    ids, layout = {pod: node.node_id for pod, node in nodes.items()}, probe.layout(nodes)
    for change in (_slot_left_open, _slots_deleted, _replica_elsewhere, _replica_reset):
        change(kube, formed.namespace, nodes)
        assert probe.faults(probe.ask(kube, formed.namespace, INSTANCE), INSTANCE, 3, 1), "the change had no effect"

    shown = formed.stack.run("refresh", "--yes", "--skip-preview")
    assert shown.log.refreshed() == {f"Topology {INSTANCE}"}, shown.output
    topology = next(item for item in formed.stack.resources() if item["type"].endswith(":Topology"))
    assert topology["outputs"]["phase"] != "Ready"
    planned = formed.stack.run("preview")
    assert planned.log.operations()[f"Topology {INSTANCE}"] == "update", planned.output

    healed = formed.stack.up()
    assert healed.changes() == {f"Topology {INSTANCE}": "update"}, healed.output
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert {pod: node.node_id for pod, node in after.items()} == ids
    assert probe.layout(after) == layout
    assert formed.client.lost(INSTANCE, written) == []
    assert formed.stack.outputs()[INSTANCE]["phase"] == "Ready"


def test_a_change_by_hand_is_healed_by_up_alone(formed: Formed, kube: Kube) -> None:
    # `options.refresh: always` makes every `up` a reconciliation; nobody has to think of `refresh`.
    nodes = formed.sound()
    _replica_elsewhere(kube, formed.namespace, nodes)
    assert formed.stack.up().changes() == {f"Topology {INSTANCE}": "update"}
    probe.assert_ready(kube, formed.namespace, INSTANCE)


def test_up_without_refresh_heals_too(formed: Formed, kube: Kube) -> None:
    # The topology looks at Valkey itself when it is compared, so equal inputs are not enough to skip it.
    nodes = formed.sound()
    _slots_deleted(kube, formed.namespace, nodes)
    assert formed.stack.up("--refresh=false").changes() == {f"Topology {INSTANCE}": "update"}
    probe.assert_ready(kube, formed.namespace, INSTANCE)


def test_a_budget_patched_with_kubectl_is_put_back(formed: Formed, kube: Kube) -> None:
    # What kubectl writes belongs to its own field manager: server-side apply calls a conflict what `up` is to put back.
    formed.sound()
    declared = _spec(kube, "poddisruptionbudgets", formed.namespace, INSTANCE)
    assert declared["maxUnavailable"] == 1
    patch = '{"spec":{"maxUnavailable":3,"unhealthyPodEvictionPolicy":"IfHealthyBudget"}}'
    kube.by_hand(formed.namespace, "patch", "pdb", INSTANCE, "--type", "merge", "-p", patch)

    shown = formed.stack.run("preview")
    assert shown.changes() == {f"PodDisruptionBudget {INSTANCE}": "update"}, shown.output
    healed = formed.stack.up()
    assert healed.changes() == {f"PodDisruptionBudget {INSTANCE}": "update"}, healed.output
    assert _spec(kube, "poddisruptionbudgets", formed.namespace, INSTANCE) == declared
    formed.stack.up("--expect-no-changes")


def test_a_field_that_kubectl_removed_is_put_back(formed: Formed, kube: Kube) -> None:
    formed.sound()
    declared = _spec(kube, "services", formed.namespace, f"{INSTANCE}-headless")
    patch = '{"spec":{"publishNotReadyAddresses":null}}'
    kube.by_hand(formed.namespace, "patch", "service", f"{INSTANCE}-headless", "--type", "merge", "-p", patch)
    assert _spec(kube, "services", formed.namespace, f"{INSTANCE}-headless") != declared

    healed = formed.stack.up()
    assert healed.changes() == {f"Service {INSTANCE}-headless": "update"}, healed.output
    assert _spec(kube, "services", formed.namespace, f"{INSTANCE}-headless") == declared


def test_a_shard_scaled_down_by_hand_is_put_back(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 1500)
    others = {pod: kube.get("pods", formed.namespace, pod) for pod in nodes if pod != f"{INSTANCE}-s0-1"}
    kube.by_hand(formed.namespace, "scale", "statefulset", f"{INSTANCE}-s0", "--replicas=1")
    eventually(
        "the Pod is gone",
        lambda: kube.get("pods", formed.namespace, f"{INSTANCE}-s0-1") is None,
        timeout_s=60,
    )
    told = formed.stack.valkeyctl("status", "-n", formed.namespace)
    assert f"StatefulSet {INSTANCE}-s0 asks for 1 Pod instead of 2" in told, told

    shown = formed.stack.run("preview")
    assert shown.changes() == {f"StatefulSet {INSTANCE}-s0": "update", f"Topology {INSTANCE}": "update"}, shown.output
    healed = formed.stack.up()
    assert healed.changes() == {f"StatefulSet {INSTANCE}-s0": "update", f"Topology {INSTANCE}": "update"}, healed.output
    probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert formed.client.lost(INSTANCE, written) == []
    # Nothing else was rolled for it.
    for pod, before in others.items():
        after = kube.get("pods", formed.namespace, pod)
        assert before is not None
        assert after is not None
        assert after["metadata"]["uid"] == before["metadata"]["uid"], pod


def _spec(kube: Kube, kind: str, namespace: str, name: str) -> Object:
    found = kube.get(kind, namespace, name)
    assert found is not None, f"{kind} {name} is gone"
    return found["spec"]
