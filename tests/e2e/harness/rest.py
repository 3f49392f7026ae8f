"""When an instance has come to rest: its agents have said what they had to say, and write nothing any more."""

import time

from tests.e2e.harness.kube import Kube, eventually

STILL_S = 4
ROLE = "valkeyctl/role"


def at_rest(kube: Kube, namespace: str, *, timeout_s: float = 60) -> dict[str, str]:
    """A snapshot of the namespace that has stayed the same for some seconds, each server's Pod bearing its role."""

    def still() -> dict[str, str] | None:
        before = kube.snapshot(namespace)
        time.sleep(STILL_S)
        pods = kube.items("pods", namespace, "app.kubernetes.io/name=valkey")
        labelled = all(ROLE in pod["metadata"]["labels"] for pod in pods)
        return before if labelled and kube.snapshot(namespace) == before else None

    return eventually("nobody writes anything any more", still, timeout_s=timeout_s)
