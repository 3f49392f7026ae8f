"""What the containers of a Pod have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .args import Amounts, Resources
from .names import Names

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict, ResourceRequirementsArgsDict, SecurityContextArgsDict

#: Where the volumes are mounted, in every container that has them.
CONFIG_DIR = "/etc/valkey"
SECRET_DIR = "/etc/valkey-secret"  # noqa: S105 - a folder, no secret
RUN_DIR = "/run/valkey"
DATA_VOLUME = "data"


def locked_down() -> SecurityContextArgsDict:
    """What the `restricted` Pod Security Standard asks of a container, and a root file system that nobody changes."""
    return {
        "allow_privilege_escalation": False,
        "read_only_root_filesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def required(resources: Resources) -> ResourceRequirementsArgsDict:
    """Requests and limits, without what isn't said."""
    return {"requests": _amounts(resources.requests), "limits": _amounts(resources.limits)}


def pod_environment(names: Names) -> list[EnvVarArgsDict]:
    """Which Pod this is, for the scripts and for the agent."""

    def from_field(name: str, path: str) -> EnvVarArgsDict:
        return {"name": name, "value_from": {"field_ref": {"api_version": "v1", "field_path": path}}}

    return [
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        from_field("POD_IP", "status.podIP"),
        # What peers and clients call the server, and later its certificate is checked against.
        {"name": "POD_HOST", "value": f"$(POD_NAME).{names.headless}.$(POD_NAMESPACE).svc"},
    ]


def _amounts(amounts: Amounts) -> dict[str, str]:
    pairs = (("cpu", amounts.cpu), ("memory", amounts.memory))
    return {name: amount for name, amount in pairs if amount is not None}
