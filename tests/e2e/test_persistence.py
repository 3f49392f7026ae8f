"""With volumes, all Pods may go at once: members come back with their ids and their data."""

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, unattended


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
    stack = sandbox.stack(config=small(persistence={"size": "64Mi", "reclaimPolicy": "Retain"}))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    written = sandbox.client(stack).write(INSTANCE, 1500)
    kube.delete("pods", sandbox.namespace, "client", grace_s=0)
    kube.delete("configmaps", sandbox.namespace, "client")
    stack.destroy()
    stack.up()
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert sandbox.client(stack).lost(INSTANCE, written) == []
