"""What Kubernetes tells of an instance that is declared to be paused."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane import Condition, Status
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.named_directory import NamedDirectory

_SHOWN = 6


def running_pods(directory: Directory | NamedDirectory) -> tuple[str, ...]:
    """The Pods that there are all the same, whatever their state, and those that StatefulSets ask for; by name.

    Errors: those of the API.
    """
    wanted = {
        f"{workload['metadata']['name']}-{ordinal}"
        for workload in directory.workloads()
        for ordinal in range(int((workload.get("spec") or {}).get("replicas") or 0))
    }
    return tuple(sorted({str(pod["metadata"]["name"]) for pod in directory.pods()} | wanted))


def paused_condition(running: Sequence[str]) -> Condition:
    """The condition Paused, where these Pods run, or are about to, that shouldn't."""
    if not running:
        return Condition("Paused", Status.TRUE, "NoPods", "all Pods are stopped; their volumes stay")
    more = f" and {len(running) - _SHOWN} more" if len(running) > _SHOWN else ""
    return Condition("Paused", Status.FALSE, "PodsRun", f"declared, but not done: {', '.join(running[:_SHOWN])}{more}")
