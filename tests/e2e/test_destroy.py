"""`destroy` ends in any state of the cluster, and leaves nothing but what the retention rules keep."""

from collections.abc import Callable

import pytest

from tests.e2e.harness.kube import GROUPS, Kube, eventually
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

BOUND_S = 60.0


def _healthy(stack: Stack, kube: Kube) -> None:
    stack.up()


def _half_made(stack: Stack, kube: Kube) -> None:
    running = stack.start("up", "--yes", "--skip-preview")
    running.until(lambda mark: mark.startswith("end create StatefulSet"))
    running.kill()
    stack.cancel()


def _killed_in_topology(stack: Stack, kube: Kube) -> None:
    running = stack.start("up", "--yes", "--skip-preview")
    running.until(lambda mark: mark.startswith("say Topology"))
    running.kill()
    stack.cancel()


def _pods_gone(stack: Stack, kube: Kube) -> None:
    stack.up()
    for pod in kube.items("pods", stack.namespace):
        kube.delete("pods", stack.namespace, pod["metadata"]["name"], grace_s=0)


def _unschedulable(stack: Stack, kube: Kube) -> None:
    stack.configure({INSTANCE: tiny(resources={"requests": {"cpu": "64"}}, timeoutSeconds=10)})
    stack.up(expect=-1)


def _statefulset_gone(stack: Stack, kube: Kube) -> None:
    stack.up()
    kube.delete("statefulsets", stack.namespace, f"{INSTANCE}-s0")


def _namespace_gone(stack: Stack, kube: Kube) -> None:
    stack.up()
    kube.delete_namespace(stack.namespace)
    eventually("the namespace goes", lambda: kube.namespace(stack.namespace) is None, timeout_s=60)


def _secret_gone(stack: Stack, kube: Kube) -> None:
    stack.up()
    kube.delete("secrets", stack.namespace, f"{INSTANCE}-auth")


STATES: dict[str, Callable[[Stack, Kube], None]] = {
    "healthy": _healthy,
    "half made": _half_made,
    "killed in its topology": _killed_in_topology,
    "all Pods deleted": _pods_gone,
    "unschedulable": _unschedulable,
    "StatefulSet deleted": _statefulset_gone,
    "namespace deleted": _namespace_gone,
    "Secret deleted": _secret_gone,
}


@pytest.mark.parametrize("state", STATES)
def test_destroy_leaves_nothing(sandbox: Sandbox, kube: Kube, state: str) -> None:
    stack = sandbox.stack(config=tiny())
    STATES[state](stack, kube)
    gone = stack.destroy()
    assert gone.seconds < BOUND_S
    assert "Traceback" not in gone.output
    assert stack.resources() == []
    eventually("the namespace goes", lambda: kube.namespace(sandbox.namespace) is None, timeout_s=60)


def test_destroy_of_three_shards(sandbox: Sandbox, kube: Kube) -> None:
    # The guards let their shards go although each still owns slots: the whole instance goes.
    stack = sandbox.stack(config=small())
    stack.up()
    stack.destroy()
    assert stack.resources() == []
    eventually("the namespace goes", lambda: kube.namespace(sandbox.namespace) is None, timeout_s=60)


def test_a_namespace_of_others_stays(sandbox: Sandbox, kube: Kube) -> None:
    kube.create_namespace(sandbox.namespace)
    kube.create("configmaps", sandbox.namespace, {"metadata": {"name": "theirs"}})
    stack = sandbox.stack(config=tiny())
    stack.up()
    stack.destroy()
    assert kube.namespace(sandbox.namespace) is not None
    eventually("all but theirs goes", lambda: _left(kube, sandbox.namespace) == {"configmaps/theirs"}, timeout_s=60)


def test_ours_with_something_of_others_in_it_stays(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny())
    stack.up()
    kube.create("configmaps", sandbox.namespace, {"metadata": {"name": "theirs"}})
    stack.destroy()
    namespace = kube.namespace(sandbox.namespace)
    assert namespace is not None
    assert namespace["status"]["phase"] == "Active"
    eventually("all but theirs goes", lambda: _left(kube, sandbox.namespace) == {"configmaps/theirs"}, timeout_s=60)


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_retention(sandbox: Sandbox, kube: Kube, policy: str) -> None:
    stack = sandbox.stack(config=tiny(persistence={"size": "64Mi", "reclaimPolicy": policy}))
    stack.up()
    claims = {claim["metadata"]["name"] for claim in kube.items("persistentvolumeclaims", sandbox.namespace)}
    assert claims == {f"data-{INSTANCE}-s0-{ordinal}" for ordinal in range(2)}
    stack.destroy()
    assert stack.resources() == []
    if policy == "Delete":
        eventually("the namespace goes", lambda: kube.namespace(sandbox.namespace) is None, timeout_s=60)
        return
    eventually("the Pods go", lambda: not kube.items("pods", sandbox.namespace), timeout_s=60)
    namespace = kube.namespace(sandbox.namespace)
    assert namespace is not None
    assert namespace["status"]["phase"] == "Active"
    kept = kube.items("persistentvolumeclaims", sandbox.namespace)
    assert {claim["metadata"]["name"] for claim in kept} == claims
    assert all("deletionTimestamp" not in claim["metadata"] for claim in kept)
    # The disks hold what only this password opens.
    may_stay = {f"persistentvolumeclaims/{name}" for name in claims} | {f"secrets/{INSTANCE}-auth"}
    eventually("all but these goes", lambda: _left(kube, sandbox.namespace) <= may_stay, timeout_s=60)


def _left(kube: Kube, namespace: str) -> set[str]:
    """What is in a namespace beside what Kubernetes puts into each, and Events."""
    usual = {"configmaps/kube-root-ca.crt", "serviceaccounts/default"}
    kinds = [kind for kind in GROUPS if kind not in ("events", "endpoints", "endpointslices", "controllerrevisions")]
    return {f"{kind}/{item['metadata']['name']}" for kind in kinds for item in kube.items(kind, namespace)} - usual
