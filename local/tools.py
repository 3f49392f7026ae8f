"""The programs that the local platform runs: found on PATH in the right version, or built into the cache."""

from dataclasses import dataclass
from pathlib import Path

from .progress import Progress


@dataclass(frozen=True)
class Tools:
    """Where each program is. All paths are absolute."""

    bin: Path
    """The one folder to put at the front of PATH: whatever was built, so that `pulumi` finds its plugins there."""
    pulumi: Path
    kubectl: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubelet: Path
    kube_proxy: Path
    etcd: Path
    coredns: Path
    local_path_provisioner: Path
    kube_router: Path


def ensure(progress: Progress) -> Tools:
    """Find or build every program. Idempotent; milliseconds when all is there, at most 25 minutes from nothing.

    Raises LocalError, which names the log, where a build fails.
    """
    raise NotImplementedError
