"""Pods that go: the next `up` heals, and what a copy holds stays."""

import pytest
from valkey.crc import key_slot as slot_of

from tests.e2e.conftest import Formed
from tests.e2e.harness import inside, probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE, unattended

pytestmark = pytest.mark.xdist_group("lost_pods")
FORMED = unattended()


def test_deleted_replica_is_healed(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 1500)
    gone = probe.replica_of(nodes, 1)
    kube.delete("pods", formed.namespace, gone.pod)
    formed.stack.up()
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert probe.layout(after) == probe.layout(nodes)
    kept = {pod: node.node_id for pod, node in after.items() if pod != gone.pod}
    assert kept == {pod: node.node_id for pod, node in nodes.items() if pod != gone.pod}
    assert formed.client.lost(INSTANCE, written) == []


@pytest.mark.parametrize("grace_s", [None, 0], ids=["in peace", "by force"])
def test_deleted_primary_is_healed(formed: Formed, kube: Kube, grace_s: int | None) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 1500)
    gone = probe.primary_of(nodes, 0)
    kube.delete("pods", formed.namespace, gone.pod, grace_s=grace_s)
    formed.stack.up()
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert probe.layout(after) == probe.layout(nodes)
    assert formed.client.lost(INSTANCE, written) == []
    assert formed.stack.outputs()[INSTANCE]["primaries"]["s0"] == probe.primary_of(after, 0).pod


def test_all_pods_lost_without_persistence_come_back_as_declared(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    for pod in nodes:
        kube.delete("pods", formed.namespace, pod, grace_s=0)
    formed.stack.up()
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert probe.layout(after) == probe.layout(nodes)
    written = formed.client.write(INSTANCE, 300)
    assert formed.client.lost(INSTANCE, written) == []


def test_deleted_statefulset_is_made_again_around_its_pods(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 300)
    kube.delete("statefulsets", formed.namespace, f"{INSTANCE}-s2", orphan=True)
    formed.stack.up()
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert formed.client.lost(INSTANCE, written) == []


def test_a_lost_majority_is_told_and_taken_over_from_as_declared(
    formed: Formed, kube: Kube, thaw: list[inside.Process]
) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 1500)
    copies = {shard: probe.replica_of(nodes, shard).node_id for shard in (0, 1)}
    silent = [probe.primary_of(nodes, shard).pod for shard in (0, 1)]
    formed.stack.configure({INSTANCE: unattended(timeoutSeconds=10)})
    formed.stack.up()
    thaw += [inside.one(formed.namespace, pod, word) for pod in silent for word in (inside.AGENT, inside.SERVER)]
    for process in thaw:
        process.freeze()
    told = formed.stack.up(expect=-1)
    assert "takeover" in told.output
    assert "Traceback" not in told.output

    formed.stack.configure({INSTANCE: unattended(takeover={"afterSeconds": 10})})
    running = formed.stack.start("up", "--yes", "--skip-preview")
    running.until(lambda mark: "TAKE OVER" in mark)
    for process in thaw:
        process.thaw()
    formed.stack.finish(running)
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert {shard: probe.primary_of(after, shard).node_id for shard in (0, 1)} == copies
    assert probe.layout(after) == probe.layout(nodes)
    assert formed.client.lost(INSTANCE, written) == []
    formed.stack.configure({INSTANCE: unattended()})
    formed.stack.up()


def test_a_shard_that_lost_every_copy_is_told_and_not_hidden(formed: Formed, kube: Kube) -> None:
    # Giving its slots to empty nodes would look healthy while a third of the data is gone: a person decides that.
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 300)
    kept = [number for number in written if slot_of(f"k{number}".encode()) <= 10921]
    kube.delete("statefulsets", formed.namespace, f"{INSTANCE}-s2")
    eventually("its Pods go", lambda: not kube.get("pods", formed.namespace, f"{INSTANCE}-s2-0"), timeout_s=60)
    failed = formed.stack.up(expect=-1)
    assert "10922-16383" in failed.output
    assert "allowDataLoss" in failed.output
    assert "Traceback" not in failed.output
    after = probe.ask(kube, formed.namespace, INSTANCE)
    for shard in (0, 1):
        assert probe.primary_of(after, shard).node_id == probe.primary_of(nodes, shard).node_id
        assert probe.primary_of(after, shard).slots == probe.primary_of(nodes, shard).slots
    held = sum(int(probe.command(kube, formed.namespace, f"{INSTANCE}-s{shard}-0", "DBSIZE")) for shard in (0, 1))
    assert held >= len(kept)

    # A person consents: the shard's slots go to its empty Pods, and the others' data is untouched.
    formed.stack.configure({INSTANCE: unattended(allowDataLoss=True)})
    formed.stack.up()
    healed = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert probe.layout(healed) == probe.layout(nodes)
    assert formed.client.lost(INSTANCE, kept) == []
    formed.stack.configure({INSTANCE: unattended()})
    formed.stack.up()
