"""Where Pods are to run: copies keep apart from one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import AffinityArgsDict, TopologySpreadConstraintArgsDict
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict

HOST_KEY, ZONE_KEY = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def kept_apart(copies: Mapping[str, str]) -> AffinityArgsDict:
    """Copies, found by their labels, keep apart: on nodes of their own first, in zones of their own next."""
    own: LabelSelectorArgsDict = {"match_labels": dict(copies)}
    return {
        "pod_anti_affinity": {
            "preferred_during_scheduling_ignored_during_execution": [
                {"weight": weight, "pod_affinity_term": {"topology_key": key, "label_selector": own}}
                for weight, key in ((100, HOST_KEY), (50, ZONE_KEY))
            ]
        }
    }


def spread(voters: Mapping[str, str]) -> list[TopologySpreadConstraintArgsDict]:
    """Who has a vote, found by labels, spreads: so that no node and no zone holds more votes than it must."""
    return [
        {
            "max_skew": 1,
            "topology_key": key,
            "when_unsatisfiable": "ScheduleAnyway",
            "label_selector": {"match_labels": dict(voters)},
        }
        for key in (HOST_KEY, ZONE_KEY)
    ]
