"""The network policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valkeyctl.agent.ports import AGENT_PORT
from valkeyctl.dataplane.model import BUS_PORT, CLIENT_PORT

from .labels import selector

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict
    from pulumi_kubernetes.networking.v1 import NetworkPolicySpecArgsDict


def policy_spec(instance: str) -> NetworkPolicySpecArgsDict:
    """Clients from anywhere, the cluster bus and the agents from the instance alone.

    The bus has no password: a node of another instance that is given an address which was ours would merge the
    two clusters. Agents prove to one another that they know the password; nobody else has anything to ask them. But for
    the kubelet: its probes come from the Pod's own node, from where Kubernetes has every policy let traffic pass.
    """
    own: LabelSelectorArgsDict = {"match_labels": selector(instance)}
    return {
        "pod_selector": own,
        "policy_types": ["Ingress"],
        "ingress": [
            {"ports": [{"port": CLIENT_PORT, "protocol": "TCP"}]},
            {
                "ports": [{"port": port, "protocol": "TCP"} for port in (BUS_PORT, AGENT_PORT)],
                "from_": [{"pod_selector": own}],
            },
        ],
    }
