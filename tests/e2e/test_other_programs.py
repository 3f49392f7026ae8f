"""The component in another program: installed as a package, in a project of its own, with the caller's provider."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import probe
from tests.e2e.harness.environment import CHECKOUT
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import Sandbox

PROGRAM = '''
"""A program of somebody else, which happens to have a package `components` of its own."""

import json

import pulumi
import pulumi_kubernetes as kubernetes
from components import NAME
from valkey_components import ClusterArgs, ValkeyCluster

config = pulumi.Config("other")
place = config.require("namespace")
provider = kubernetes.Provider("mine", context=config.require("context"), kubeconfig=config.get("kubeconfig"))
by_provider = pulumi.ResourceOptions(provider=provider)
namespace = kubernetes.core.v1.Namespace("place", metadata={"name": place}, opts=by_provider)
args = ClusterArgs(namespace=place, **json.loads(config.require("cluster")))
cluster = ValkeyCluster(NAME, args, pulumi.ResourceOptions(providers=[provider], depends_on=[namespace]))
pulumi.export("cluster", cluster.summary)
'''
CLUSTER: dict[str, Any] = {
    "shards": 1,
    "allow_few_shards": True,
    "replicas": 1,
    "version": "8.1",
    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
}
CHANGES: dict[str, Any] = {
    "replicas": 2,
    "version": "9.1",
    "config": {"maxmemory-policy": "allkeys-lru"},
    "timeout_s": 900,
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product, built and installed as any package into a folder of its own."""
    source, target = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("site")
    for name in ("components", "valkeyctl"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / name, source)
    uv = CHECKOUT / ".venv" / "bin" / "uv"
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", target, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


def _configure(stack: Stack, **changes: Any) -> None:
    values = {"context": "valkey-local", "namespace": stack.namespace, "cluster": json.dumps({**CLUSTER, **changes})}
    known = yaml.safe_load(stack.config_file.read_text())
    known["config"] = {f"other:{key}": value for key, value in values.items()}
    stack.config_file.write_text(yaml.safe_dump(known))


def test_the_component_serves_another_program(sandbox: Sandbox, kube: Kube, installed: Path) -> None:
    stack = sandbox.stack(main=PROGRAM, site=installed)
    _configure(stack)
    stack.up()
    probe.assert_ready(kube, sandbox.namespace, "cache", shards=1)
    stack.up("--expect-no-changes")
    output = stack.outputs()["cluster"]
    assert output["phase"] == "Ready"
    owner = kube.get("statefulsets", sandbox.namespace, "cache-s0")
    assert owner is not None
    assert owner["metadata"]["annotations"]["valkeyctl/owner"] == "organization/other/test/cache"

    _configure(stack, **CHANGES)
    seen = stack.run("preview")
    operations = seen.log.operations()
    assert "Topology cache" in operations
    assert [name for name, op in operations.items() if "replace" in op or "delete" in op] == []
    assert seen.changes() != {}

    _configure(stack)
    stack.destroy()
    assert stack.resources() == []
