"""Mistakes of the user, and an API server that is away: a clear word, an exit code, nothing lost."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, tiny

MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": (small(shard=3), [f"{INSTANCE}.shard", "shards"]),
    "wrong type": (small(shards="many"), [f"{INSTANCE}.shards", "many"]),
    "impossible value": (small(shards=2), [f"{INSTANCE}.shards", "allowFewShards"]),
    "owned setting": (small(config={"cluster-enabled": "no"}), [f"{INSTANCE}.config", "cluster-enabled"]),
    "gap in the layout": (
        small(slots={0: "0-5460", 1: "5461-10000", 2: "10923-16383"}),
        [f"{INSTANCE}.slots", "10001"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_bad_config_is_refused_with_its_path(sandbox: Sandbox, kube: Kube, mistake: str) -> None:
    config, words = MISTAKES[mistake]
    stack = sandbox.stack(config=config)
    refused = stack.run("preview", expect=-1)
    for word in words:
        assert word in refused.output, refused.output
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
