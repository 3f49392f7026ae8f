"""Mistakes of the user, and an API server that is away: a clear word, an exit code, nothing lost."""

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.leaks import leaks
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

#: By the name of an instance with a mistake: its config, and what must be told of it.
MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown-key": (small(shard=3), ["shard", "shards"]),
    "wrong-type": (small(shards="many"), ["shards", "many"]),
    "impossible-value": (small(shards=2), ["shards", "allowFewShards"]),
    "owned-setting": (small(config={"cluster-enabled": "no"}), ["config", "cluster-enabled"]),
    "gap": (small(slots={0: "0-5460", 1: "5461-10000", 2: "10923-16383"}), ["slots", "10001"]),
}


def test_all_mistakes_are_told_at_once_with_their_paths(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack()
    stack.configure({name: config for name, (config, _) in MISTAKES.items()})
    refused = stack.run("preview", expect=-1)
    for name, (_, (key, word)) in MISTAKES.items():
        told = [line for line in refused.output.splitlines() if f"{name}.{key}" in line]
        assert any(word in line for line in told), (name, refused.output)
    assert "Traceback" not in refused.output
    assert kube.namespace(sandbox.namespace) is None


def test_unreachable_api_server_is_told_and_drops_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    stack = sandbox.stack(config=tiny())
    stack.up()
    before = [(item["urn"], item.get("id")) for item in stack.resources()]
    kubeconfig = yaml.safe_load(Path(stack.env["KUBECONFIG"]).read_text())
    for cluster in kubeconfig["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:9"
    away = tmp_path / "kubeconfig"
    away.write_text(yaml.safe_dump(kubeconfig))
    for command in (["preview"], ["up", "--yes", "--skip-preview"], ["refresh", "--yes", "--skip-preview"]):
        failed = stack.run(*command, expect=-1, KUBECONFIG=str(away))
        assert "127.0.0.1:9" in failed.output, failed.output
        assert "Traceback" not in failed.output
        assert "delete" not in failed.changes().values()
        assert [(item["urn"], item.get("id")) for item in stack.resources()] == before
    # Once it answers again, nothing has changed.
    stack.up("--expect-no-changes")


def test_wrong_context_is_named(sandbox: Sandbox) -> None:
    stack = sandbox.stack(kubernetes={"context": "no-such-context", "namespace": sandbox.namespace})
    refused = stack.run("preview", expect=-1)
    assert "no-such-context" in refused.output
    assert "Traceback" not in refused.output


def test_contents_of_a_kubeconfig_are_used_and_kept_secret(sandbox: Sandbox, kube: Kube) -> None:
    contents = Path(kube.kubeconfig).read_text()
    user = yaml.safe_load(contents)["users"][0]["user"]
    stack = sandbox.stack(config=tiny())
    stack.env["KUBECONFIG"] = "/nonexistent"
    stack.run("config", "set", "--secret", "--path", "valkey:kubernetes.kubeconfig", contents)
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert stack.up("--expect-no-changes").changes() == {}
    stack.run("preview", "--diff")
    key = user["client-key-data"]
    assert leaks(kube, stack, sandbox.namespace, [key, base64.b64decode(key).decode()]) == []
    stack.destroy()
    assert stack.resources() == []


def test_a_renamed_stack_keeps_its_instance(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=tiny())
    stack.up()
    before = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    stack.run("stack", "rename", "renamed")
    stack.name = "renamed"
    renamed = stack.up()
    assert [name for name, op in renamed.changes().items() if "delete" in op or "replace" in op] == []
    after = probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards=1)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in before.items()}
    workload = kube.get("statefulsets", sandbox.namespace, f"{INSTANCE}-s0")
    assert workload is not None
    assert workload["metadata"]["annotations"]["valkeyctl/owner"] == f"organization/valkey/renamed/{INSTANCE}"
