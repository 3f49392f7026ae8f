"""Objects and clusters of somebody else are refused, before anything is written, and the refusal says why."""

from typing import Any

import pytest

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.rest import at_rest
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, tiny

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
    # Its controller writes a StatefulSet's status more than once.
    before = at_rest(kube, sandbox.namespace)
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
    before = at_rest(kube, sandbox.namespace)
    other = sandbox.stack("other", config=tiny())
    for refused in (other.run("preview", expect=-1), other.up(expect=-1)):
        assert f"organization/valkey/owner/{INSTANCE}" in refused.output
        assert "Traceback" not in refused.output
    assert kube.snapshot(sandbox.namespace) == before
    # What was refused can be given up, and nothing of the owner's goes with it.
    other.destroy()
    assert kube.snapshot(sandbox.namespace) == before
    owner.up("--expect-no-changes")


def test_two_instances_of_one_namespace_cannot_merge(sandbox: Sandbox, kube: Kube) -> None:
    # A person, or an address that was reused, makes a node of one instance meet a node of the other.
    stack = sandbox.stack()
    stack.configure({"one": tiny(), "two": tiny()})
    stack.up()
    stranger = probe.ask(kube, sandbox.namespace, "two")["two-s0-0"]
    probe.command(kube, sandbox.namespace, "one-s0-0", f"CLUSTER MEET {stranger.ip} 6379")
    # The network policies keep the bus of each to itself, and so the introduction is given up after the node timeout.
    for instance in ("one", "two"):
        probe.eventually_ready(kube, sandbox.namespace, instance, shards=1, timeout_s=30)
    stack.up("--expect-no-changes")

    # Without them the two do meet. That is refused and told, and neither is touched.
    for instance in ("one", "two"):
        kube.delete("networkpolicies", sandbox.namespace, instance)

    def met() -> bool:
        probe.command(kube, sandbox.namespace, "one-s0-0", f"CLUSTER MEET {stranger.ip} 6379")
        return stranger.node_id in probe.ask(kube, sandbox.namespace, "one")["one-s0-0"].view

    eventually("the two instances meet", met, timeout_s=30, pause_s=1)
    refused = stack.up(expect=-1)
    assert "belongs to somebody else" in refused.output
    assert "two-s0-0" in refused.output
    assert "Traceback" not in refused.output
    assert probe.ask(kube, sandbox.namespace, "two")["two-s0-0"].node_id == stranger.node_id
