"""Touch nothing that belongs to somebody else (report C2)."""

from __future__ import annotations

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.rounds import Gathered


def refuse_foreign(k: Knowledge, found: Gathered[Action]) -> None:
    """Refuse to go on where a server isn't one of this dataset's: any step could then reach what isn't ours."""
    seen: dict[str, Member] = {}
    for member, node in k.nodes.items():
        if node.cluster_mode:
            found.refuse(
                f"{member} runs in cluster mode ({node.endpoint.pod}), and is no server of this instance",
                "Name another instance, or replace that Pod.",
                member,
            )
        twin = seen.setdefault(node.run_id, member)
        if twin != member:
            found.refuse(
                f"{twin} and {member} are one and the same server: they have the same run id",
                f"See which Pod has the address {node.endpoint.address}.",
                twin,
                member,
            )
