"""The StatefulSet of a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .args import Persistence
from .claims import claim_spec
from .labels import selector
from .pod import DATA_VOLUME, ServerPod, pod_template

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import StatefulSetSpecArgsDict

#: Grown volumes change the template, which Kubernetes never lets change; only the claims themselves grow.
IGNORED_CHANGES = ["spec.volumeClaimTemplates"]


def statefulset_spec(
    pod: ServerPod, *, replicas: int, persistence: Persistence | None, paused: bool = False
) -> StatefulSetSpecArgsDict:
    """A shard's workload: its primary and `replicas` more; `paused`: none of them for now.

    Every field that Kubernetes lets nobody change, and for which Pulumi would replace the StatefulSet and all its Pods
    at once, is a constant here or the instance's name.
    """
    spec: StatefulSetSpecArgsDict = {
        "service_name": pod.names.headless,
        "replicas": 0 if paused else 1 + replicas,
        "selector": {"match_labels": selector(pod.names.instance, pod.shard)},
        # Members find each other by themselves: none waits for another to be ready.
        "pod_management_policy": "Parallel",
        # Which Pod is replaced when is for those to decide who know which one is the primary.
        "update_strategy": {"type": "OnDelete"},
        "revision_history_limit": 10,
        "template": pod_template(pod),
    }
    if persistence is not None:
        spec["volume_claim_templates"] = [{"metadata": {"name": DATA_VOLUME}, "spec": claim_spec(persistence)}]
    return spec
