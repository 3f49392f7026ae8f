"""Pods and StatefulSets as Kubernetes writes them, for tests."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
PODS, SETS = "/api/v1/namespaces/valkey/pods", "/apis/apps/v1/namespaces/valkey/statefulsets"


def labels(shard: int, instance: str = "sessions") -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "valkey",
        "app.kubernetes.io/instance": instance,
        "valkeyctl/shard": str(shard),
    }


def workload(shard: int, *, revision: str = "r1", replicas: int = 2) -> Object:
    return {
        "metadata": {"name": f"sessions-s{shard}", "labels": labels(shard)},
        "spec": {"replicas": replicas},
        "status": {"updateRevision": revision},
    }


def pod(shard: int, ordinal: int = 0, *, revision: str = "r1", **status: Any) -> Object:
    """A healthy Pod; `status` overrides."""
    return {
        "metadata": {
            "name": f"sessions-s{shard}-{ordinal}",
            "labels": {**labels(shard), "controller-revision-hash": revision},
            "ownerReferences": [{"kind": "StatefulSet", "name": f"sessions-s{shard}", "controller": True}],
        },
        "spec": {"nodeName": f"node{shard + 1}"},
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{shard}.{ordinal + 1}",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "server", "state": {"running": {}}, "restartCount": 0}],
            **status,
        },
    }


def waiting(reason: str, message: str = "", **more: Any) -> list[Object]:
    return [{"name": "server", "state": {"waiting": {"reason": reason, "message": message}}, **more}]


def unschedulable(shard: int, ordinal: int, message: str) -> Object:
    made = pod(shard, ordinal)
    del made["spec"]["nodeName"]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made["status"] = {"phase": "Pending", "conditions": [condition]}
    return made
