"""The local platform as its tests see it: the command line, and Pods to try things with."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.harness.environment import CHECKOUT
from tests.e2e.harness.kube import Kube, Object, eventually

SERVER_IMAGE = "valkey/valkey:9.1.2"
SILENCE = "silence"
READY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Ran:
    """What `python -m local …` did."""

    code: int
    out: str
    err: str
    seconds: float


def local(*arguments: str, state: Path | None = None, timeout_s: float = 240) -> Ran:
    """Run a command of the platform; on the cluster whose state is kept under `state`, or on the shared one."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "local", *arguments],
        cwd=CHECKOUT,
        env=variables(state),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - started)


def variables(state: Path | None) -> dict[str, str]:
    return {**os.environ, **({"XDG_STATE_HOME": str(state)} if state else {})}


@dataclass(frozen=True)
class Namespace:
    """A namespace of one test's own."""

    kube: Kube
    name: str

    def server(self, name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """A Pod with a Valkey server on port 6379 and valkey-cli; `spec`: more of its Pod spec. Not waited for."""
        container: dict[str, Any] = {
            "name": "server",
            "image": SERVER_IMAGE,
            "command": spec.pop("command", ["valkey-server", "--save", "", "--protected-mode", "no"]),
            "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
            "volumeMounts": spec.pop("volume_mounts", []),
        }
        pod = {
            "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
        }
        return self.kube.create("pods", self.name, pod)

    def ready(self, name: str, timeout_s: float = READY_TIMEOUT_S) -> Object:
        """The Pod, once it is ready."""
        return eventually(f"{name} is ready", lambda: self._ready(name), timeout_s=timeout_s)

    def address(self, name: str) -> str:
        return self.ready(name)["status"]["podIP"]

    def reply(self, pod: str, host: str, *command: str, port: int = 6379) -> str:
        """What a server answers to a Pod, or the error; SILENCE if there is nothing within two seconds."""
        cli = ["timeout", "2", "valkey-cli", "-h", host, "-p", str(port), *(command or ("PING",))]
        done = self.kube.execute(self.name, pod, cli)
        return SILENCE if done.code == 124 else done.out.strip() or done.err.partition("\n")[0]

    def _ready(self, name: str) -> Object | None:
        pod = self.kube.get("pods", self.name, name)
        conditions = pod["status"].get("conditions", []) if pod else []
        return pod if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions) else None


def node_is_ready(kube: Kube, node: str) -> bool:
    item = kube.request("GET", f"/api/v1/nodes/{node}")
    return any(each["type"] == "Ready" and each["status"] == "True" for each in item["status"]["conditions"])


def process_one(machine: str, state: Path) -> int:
    """The host's id of a machine's first process."""
    return json.loads((state / "valkey-local" / "machines" / machine / "pid").read_text())["pid"]
