"""When an instance has come to rest: its agents have said what they had to say, and write nothing any more."""

import time

from tests.e2e.harness.kube import Kube, eventually

STILL_S = 4
ROLE = "valkeyctl/role"


def at_rest(kube: Kube, namespace: str, *, timeout_s: float = 60) -> dict[str, str]:
    """A snapshot of the namespace that has stayed the same for some seconds, each server's Pod bearing its role.

    A Lease by which agents fail over is left out: its holder renews it all the time.
    """

    def snapshot() -> dict[str, str]:
        found = kube.snapshot(namespace)
        return {name: version for name, version in found.items() if not _renewed(name)}

    def still() -> dict[str, str] | None:
        before = snapshot()
        time.sleep(STILL_S)
        pods = kube.items("pods", namespace, "app.kubernetes.io/name=valkey")
        labelled = all(ROLE in pod["metadata"]["labels"] for pod in pods)
        return before if labelled and snapshot() == before else None

    return eventually("nobody writes anything any more", still, timeout_s=timeout_s)


def _renewed(name: str) -> bool:
    return name.startswith("leases/") and name.endswith("-primary")
