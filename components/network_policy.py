"""The network policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valkeyctl.dataplane.model import BUS_PORT, CLIENT_PORT

from .labels import selector

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict
    from pulumi_kubernetes.networking.v1 import NetworkPolicySpecArgsDict


def policy_spec(instance: str) -> NetworkPolicySpecArgsDict:
    """Clients from anywhere, the cluster bus from the instance alone.

    The bus has no password: a node of another instance that is given an address which was ours would merge the
    two clusters.
    """
    own: LabelSelectorArgsDict = {"match_labels": selector(instance)}
    return {
        "pod_selector": own,
        "policy_types": ["Ingress"],
        "ingress": [
            {"ports": [{"port": CLIENT_PORT, "protocol": "TCP"}]},
            {"ports": [{"port": BUS_PORT, "protocol": "TCP"}], "from_": [{"pod_selector": own}]},
        ],
    }
