"""The disruption budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .labels import selector

if TYPE_CHECKING:
    from pulumi_kubernetes.policy.v1 import PodDisruptionBudgetSpecArgsDict


def budget_spec(instance: str) -> PodDisruptionBudgetSpecArgsDict:
    """One member of the instance at a time: a second one could be the shard's last copy, or the majority's last vote.

    A Pod that isn't ready may always be evicted: a node can be drained though a member on it is broken.
    """
    return {
        "max_unavailable": 1,
        "unhealthy_pod_eviction_policy": "AlwaysAllow",
        "selector": {"match_labels": selector(instance)},
    }
