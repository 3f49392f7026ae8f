"""A client inside the cluster: a Pod of the stock Python image with valkey-py's cluster client."""

import base64
import io
import json
import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import valkey

from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.writer import END_S, Record, writing

IMAGE = "python:3.13-slim"
NAME = "client"
#: Where the library is; the script waits for it.
LIBRARY = "/tmp/lib"  # noqa: S108 - in a container of its own
#: The image has no bytecode, of the standard library neither: the first call compiles what it imports for all others.
BYTECODE = "/tmp/bytecode"  # noqa: S108 - as above
_START = f"""
python -m zipfile -e /client/valkey.zip {LIBRARY}.new
mv {LIBRARY}.new {LIBRARY}
exec sleep 3600
"""


@cache
def _archive() -> str:
    """The installed valkey-py as a zip file, in base64; Python imports from it as it is."""
    package = Path(valkey.__file__).parent
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            archive.write(path, path.relative_to(package.parent))
    return base64.b64encode(data.getvalue()).decode()


class Client:
    """One client Pod in `namespace`, with the password in Secret `secret` under `key`."""

    def __init__(self, kube: Kube, namespace: str, secret: str, key: str = "password", *, name: str = NAME) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name
        kube.create(
            "configmaps",
            namespace,
            {
                "metadata": {"name": name},
                "binaryData": {"valkey.zip": _archive()},
                "data": {"client.py": Path(__file__).with_name("client_script.py").read_text()},
            },
        )
        kube.create("pods", namespace, _pod(name, secret, key))

        def running() -> bool:
            pod = kube.get("pods", namespace, name) or {}
            return any("running" in status["state"] for status in pod.get("status", {}).get("containerStatuses", []))

        eventually(f"client Pod {namespace}/{name} runs", running, timeout_s=60)

    def write(self, host: str, count: int, *, first: int = 0) -> list[int]:
        """Write keys; returns the numbers that Valkey acknowledged."""
        return self._run("write", host, str(first), str(count))

    def fill(self, host: str, count: int, size: int) -> None:
        """Write so many keys of so many random bytes, quickly; they are not among those of `write`."""
        assert self._run("fill", host, str(count), str(size), timeout_s=300) == count

    def writing(
        self, host: str, *, first: int = 1_000_000, every_ms: float = 5, wait: int = 0, end_s: float = END_S
    ) -> AbstractContextManager[Record]:
        """A writer for as long as a block runs; see `writer`."""
        return writing(self._namespace, self._name, host, first=first, every_ms=every_ms, wait=wait, end_s=end_s)

    def lost(self, host: str, numbers: Sequence[int]) -> list[int]:
        """Those of `numbers` whose key is missing or has another value."""
        return self._run("verify", host, stdin=json.dumps(list(numbers)))

    def count(self, host: str) -> int:
        return self._run("count", host)

    def connects(self, host: str, port: int) -> bool:
        """Whether a TCP connection opens."""
        return self._run("connect", host, str(port))

    def _run(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60) -> Any:
        done = self._kube.execute_again(
            self._namespace,
            self._name,
            ["python", "/client/client.py", *arguments],
            container="client",
            stdin=stdin,
            timeout_s=timeout_s,
        )
        assert done.code == 0, f"client {arguments}: {done.out}{done.err}"
        return json.loads(done.out)


def _pod(name: str, secret: str, key: str) -> dict[str, Any]:
    # Namespaces of the product hold their Pods to the restricted Pod Security Standard, so this one keeps it too.
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1234,
                "fsGroup": 1234,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "client",
                    "image": IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", _START],
                    "env": [
                        {"name": "PYTHONPATH", "value": LIBRARY},
                        {"name": "PYTHONPYCACHEPREFIX", "value": BYTECODE},
                        {"name": "PASSWORD_KEY", "value": key},
                    ],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [
                        {"name": "client", "mountPath": "/client"},
                        {"name": "password", "mountPath": "/password"},
                    ],
                }
            ],
            "volumes": [
                {"name": "client", "configMap": {"name": name}},
                {"name": "password", "secret": {"secretName": secret}},
            ],
        },
    }
