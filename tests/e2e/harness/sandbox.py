"""What each test has for itself: a namespace, projects, stacks with backends of their own, and the cleaning up."""

import json
import uuid
from pathlib import Path
from typing import Any

from tests.e2e.harness.client import Client
from tests.e2e.harness.environment import CHECKOUT
from tests.e2e.harness.kube import GROUPS, Kube
from tests.e2e.harness.program import Stack, lay_out

INSTANCE = "sessions"
PREFIX = "e2e-"
KEPT = CHECKOUT / "tests" / ".results" / "e2e"


def small(**changes: Any) -> dict[str, Any]:
    """The config of a cluster of 3 shards and 1 replica each, of little weight; `changes` are keys over it."""
    requests = {"cpu": "10m", "memory": "32Mi"}
    return {
        "architecture": "cluster",
        "shards": 3,
        "replicas": 1,
        "resources": {"requests": requests, "limits": {"memory": "64Mi"}},
        **changes,
    }


def unattended(**changes: Any) -> dict[str, Any]:
    """Like `small`, with agents that heal nothing: what is broken stays so, until `up` heals it."""
    return small(**{"agent": {"heal": False}, **changes})


def tiny(**changes: Any) -> dict[str, Any]:
    """Like `small`, with one shard: for what does not depend on how many there are."""
    return small(**{"shards": 1, "allowFewShards": True, **changes})


class Sandbox:
    """Made for a test or a module by the fixtures in conftest.py. `namespace` does not exist at first."""

    def __init__(self, kube: Kube, folder: Path, label: str) -> None:
        word = "".join(letter if letter.isalnum() else "-" for letter in label.lower()).strip("-")[:30].rstrip("-")
        self.kube, self.folder, self.label = kube, folder, label
        self.namespace = f"{PREFIX}{word}-{uuid.uuid4().hex[:6]}"
        self.stacks: list[Stack] = []
        self._namespaces = {self.namespace}

    def stack(
        self,
        name: str = "test",
        *,
        config: dict[str, Any] | None = None,
        namespace: str | None = None,
        main: str | None = None,
        site: Path | None = None,
        **more: Any,
    ) -> Stack:
        """A new stack in a project and a backend of its own, initialised and configured with one instance.

        `main`: the source of another program instead of the checkout's; `site`: where its packages are installed.
        The same `name` may be taken again: that is another checkout of the same program on another machine.
        """
        number = len(self.stacks)
        project = lay_out(self.folder / f"project{number}", main)
        stack = Stack(project, name, backend=self.folder / f"backend{number}", namespace=namespace or self.namespace)
        self._namespaces.add(stack.namespace)
        self.stacks.append(stack)
        if site:
            stack.env["PYTHONPATH"] = str(site)
        stack.init()
        stack.configure({INSTANCE: small() if config is None else config}, **more)
        return stack

    def client(self, stack: Stack, instance: str = INSTANCE, *, name: str = "client") -> Client:
        """A client Pod that has the password which the stack's outputs name."""
        output = stack.outputs()[instance]
        return Client(self.kube, stack.namespace, output["secretName"], output.get("secretKey", "password"), name=name)

    def keep(self, reason: str) -> Path:
        """Keep what tells why the test failed: everything pulumi said, and everything in the namespaces."""
        folder = KEPT / self.namespace
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "why.txt").write_text(f"{self.label}\n{reason}")
        for stack in self.stacks:
            for path in sorted(stack.backend.parent.glob(f"{stack.backend.name}-*")):
                (folder / path.name).write_bytes(path.read_bytes())
        for namespace in self._namespaces:
            found = {kind: self.kube.items(kind, namespace) for kind in GROUPS if kind != "secrets"}
            (folder / f"{namespace}.json").write_text(json.dumps(found, indent=1))
            for pod in found["pods"]:
                name = pod["metadata"]["name"]
                (folder / f"{namespace}-{name}.log").write_text(self.log_of(namespace, name))
        return folder

    def log_of(self, namespace: str, pod: str, container: str = "server") -> str:
        """The log of a container; what the API server says instead, when there is none."""
        return self.kube.text(f"{self.kube.path('pods', namespace, pod)}/log", container=container)

    def close(self) -> None:
        """End what still runs here, and ask Kubernetes to remove the namespaces."""
        for stack in self.stacks:
            stack.close()
        for namespace in self._namespaces:
            self.kube.delete_namespace(namespace)
