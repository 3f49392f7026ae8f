"""`make env`: a shell in which plain pulumi and kubectl work on the local stack and cluster."""

import json
import os
import subprocess

from tests.e2e.harness.environment import CHECKOUT


def _shell(script: str) -> str:
    # A shell as a person opens it: nothing of Pulumi or Kubernetes is set yet.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI", "KUBE"))}
    done = subprocess.run(
        ["bash", "-euc", f'eval "$(make -s env)"\n{script}'],
        cwd=CHECKOUT,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_works_on_three_nodes_in_three_zones() -> None:
    nodes = json.loads(_shell("kubectl get nodes -o json"))["items"]
    labels = [node["metadata"]["labels"] for node in nodes]
    assert len(nodes) == 3
    assert len({label["topology.kubernetes.io/zone"] for label in labels}) == 3
    assert len({label["kubernetes.io/hostname"] for label in labels}) == 3


def test_pulumi_works_in_the_checkout() -> None:
    told = json.loads(_shell("pulumi about --json"))
    assert told["backend"]["url"].startswith("file://")
    assert told["currentStack"] is None or "local" in told["currentStack"]["name"]
    json.loads(_shell("pulumi stack ls --json"))
