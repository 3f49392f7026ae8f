"""Objects and clusters of somebody else are refused, before anything is written, and the refusal says why."""

from typing import Any

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

_TEMPLATE = {
    "metadata": {"labels": {"app": "other"}},
    "spec": {"containers": [{"name": "other", "image": "valkey/valkey:9.1.2"}]},
}
OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ConfigMap": ("configmaps", {"metadata": {"name": f"{INSTANCE}-config"}, "data": {"mine": "yes"}}),
    "Service": ("services", {"metadata": {"name": INSTANCE}, "spec": {"ports": [{"port": 80}]}}),
    "StatefulSet": (
        "statefulsets",
        {
            "metadata": {"name": f"{INSTANCE}-s1"},
            "spec": {
                "replicas": 0,
                "serviceName": "other",
                "selector": {"matchLabels": {"app": "other"}},
                "template": _TEMPLATE,
            },
        },
    ),
    "Secret": ("secrets", {"metadata": {"name": f"{INSTANCE}-auth"}, "stringData": {"password": "theirs"}}),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_object_made_by_hand_is_refused(sandbox: Sandbox, kube: Kube, kind: str) -> None:
    kube.create_namespace(sandbox.namespace)
    plural, body = OBJECTS[kind]
    kube.create(plural, sandbox.namespace, body)
    before = kube.snapshot(sandbox.namespace)
    stack = sandbox.stack()
    for refused in (stack.run("preview", expect=-1), stack.up(expect=-1)):
        assert body["metadata"]["name"] in refused.output
        assert kind in refused.output
        assert "valkeyctl/owner" in refused.output or "belongs" in refused.output, refused.output
        assert "Traceback" not in refused.output
    assert kube.snapshot(sandbox.namespace) == before


def test_instance_of_another_stack_is_refused(sandbox: Sandbox, kube: Kube) -> None:
    owner = sandbox.stack("owner", config=tiny())
    owner.up()
    before = kube.snapshot(sandbox.namespace)
    other = sandbox.stack("other", config=tiny())
    for refused in (other.run("preview", expect=-1), other.up(expect=-1)):
        assert f"organization/valkey/owner/{INSTANCE}" in refused.output
        assert "Traceback" not in refused.output
    assert kube.snapshot(sandbox.namespace) == before
    # What was refused can be given up, and nothing of the owner's goes with it.
    other.destroy()
    assert kube.snapshot(sandbox.namespace) == before
    owner.up("--expect-no-changes")


def test_stranger_in_the_cluster_is_told_and_not_touched(sandbox: Sandbox, kube: Kube) -> None:
    # Two instances of one stack; a person makes a node of one meet a node of the other (a member that holds slots).
    stack = sandbox.stack()
    stack.configure({"one": small(), "two": tiny()})
    stack.up()
    one, two = (probe.ask(kube, sandbox.namespace, name) for name in ("one", "two"))
    stranger = two["two-s0-0"]
    written_by = stranger.node_id
    probe.command(kube, sandbox.namespace, "one-s0-0", f"CLUSTER MEET {stranger.ip} 6379")
    result = stack.up(expect=-1)
    assert "Traceback" not in result.output
    assert stranger.ip in result.output or stranger.node_id[:8] in result.output, result.output
    # Neither side was reset or robbed of its slots.
    nodes = probe.ask(kube, sandbox.namespace, "two")
    assert nodes["two-s0-0"].node_id == written_by
    assert {pod: node.node_id for pod, node in probe.ask(kube, sandbox.namespace, "one").items()} == {
        pod: node.node_id for pod, node in one.items()
    }
