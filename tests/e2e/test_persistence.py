"""With volumes, members come back with ids and data; a disk that is new, or of a former member, is told apart."""

from tests.e2e.harness import inside, probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, tiny, unattended


def test_all_pods_deleted_at_once_keep_ids_and_data(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=unattended(persistence={"size": "64Mi"}))
    stack.up()
    claims = kube.items("persistentvolumeclaims", sandbox.namespace)
    assert {claim["metadata"]["name"]: claim["status"]["phase"] for claim in claims} == {
        f"data-{INSTANCE}-s{shard}-{ordinal}": "Bound" for shard in range(3) for ordinal in range(2)
    }
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    client = sandbox.client(stack)
    written = client.write(INSTANCE, 1500)
    for pod in nodes:
        kube.delete("pods", sandbox.namespace, pod)
    stack.up()
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert probe.layout(after) == probe.layout(nodes)
    assert client.lost(INSTANCE, written) == []


def test_destroy_and_up_again_find_retained_data(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(shards=2, persistence={"size": "64Mi", "reclaimPolicy": "Retain"}))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=2)
    written = sandbox.client(stack).write(INSTANCE, 1500)
    kube.delete("pods", sandbox.namespace, "client", grace_s=0)
    kube.delete("configmaps", sandbox.namespace, "client")
    stack.destroy()
    stack.up()
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=2)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert sandbox.client(stack).lost(INSTANCE, written) == []


def test_up_again_waits_for_servers_of_before_that_take_their_time_to_stop(
    sandbox: Sandbox, kube: Kube, thaw: list[inside.Process]
) -> None:
    stack = sandbox.stack(config=tiny(persistence={"size": "64Mi", "reclaimPolicy": "Retain"}))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    written = sandbox.client(stack).write(INSTANCE, 500)
    kube.delete("pods", sandbox.namespace, "client", grace_s=0)
    kube.delete("configmaps", sandbox.namespace, "client")
    thaw += [inside.one(sandbox.namespace, pod, inside.SERVER) for pod in nodes]
    for server in thaw:
        server.freeze()
    stack.destroy()
    running = stack.start("up", "--yes", "--skip-preview")
    running.until(lambda mark: mark.startswith("say Prepare") and "still being deleted" in mark)
    for server in thaw:
        server.thaw()
    stack.finish(running)
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert sandbox.client(stack).lost(INSTANCE, written) == []


def test_a_claim_deleted_by_hand_is_made_again_and_filled_by_the_copy(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny(agent={"heal": False}, persistence={"size": "64Mi"}))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    client = sandbox.client(stack)
    written = client.write(INSTANCE, 1500)
    lost = probe.primary_of(nodes, 0)
    claim = f"data-{lost.pod}"
    disk = _uid(kube, sandbox.namespace, claim)
    kube.delete("persistentvolumeclaims", sandbox.namespace, claim)  # goes when nothing uses it any more
    kube.delete("pods", sandbox.namespace, lost.pod)
    eventually("its disk is gone", lambda: _uid(kube, sandbox.namespace, claim) != disk, timeout_s=60)

    stack.up()
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert after[lost.pod].node_id != lost.node_id, "an empty disk has no id"
    assert probe.primary_of(after, 0).node_id in {node.node_id for node in nodes.values()}
    assert _uid(kube, sandbox.namespace, claim) not in (disk, None)
    assert client.lost(INSTANCE, written) == []
    stack.up("--expect-no-changes")


def test_disks_kept_by_a_scale_in_are_not_believed_when_they_come_back(sandbox: Sandbox, kube: Kube) -> None:
    kept = {"persistence": {"size": "64Mi", "reclaimPolicy": "Retain"}}
    stack = sandbox.stack(config=tiny(shards=2, **kept))
    stack.up()
    client = sandbox.client(stack)
    client.write(INSTANCE, 1500)
    before = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=2)
    disks = {pod: _uid(kube, sandbox.namespace, f"data-{pod}") for pod in before if "-s1-" in pod}

    stack.configure({INSTANCE: tiny(**kept)})
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert {pod: _uid(kube, sandbox.namespace, f"data-{pod}") for pod in disks} == disks
    # What the kept disks hold is old by now: keys that were there have deleted.
    only = probe.primary_of(probe.ask(kube, sandbox.namespace, INSTANCE), 0)
    probe.command(kube, sandbox.namespace, only.pod, "FLUSHALL")
    written = client.write(INSTANCE, 500)

    stack.configure({INSTANCE: tiny(shards=2, **kept)})
    stack.up()
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=2)
    assert {pod: _uid(kube, sandbox.namespace, f"data-{pod}") for pod in disks} == disks
    assert not {node.node_id for node in before.values() if node.shard == 1} & {node.node_id for node in after.values()}
    assert client.lost(INSTANCE, written) == []
    assert client.count(INSTANCE) == len(written)


def _uid(kube: Kube, namespace: str, claim: str) -> str | None:
    found = kube.get("persistentvolumeclaims", namespace, claim)
    return found["metadata"]["uid"] if found else None
