"""Touch nothing that belongs to somebody else (report C2)."""

from __future__ import annotations

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.ghosts import Kind
from valkeyctl.dataplane.knowledge import Knowledge


def refuse_foreign(k: Knowledge, found: Findings) -> None:
    """Refuse to go on where a member's cluster has nodes that aren't this instance's.

    Either the member's Pod runs a server of another cluster, or another cluster has been joined with this one. Any step
    could then reach what isn't ours, so this comes before all other rules.
    """
    twins = [m for m, node in k.nodes.items() if k.view.member_of_id[node.node_id] != m]
    for member in twins:
        other = k.view.member_of_id[k.nodes[member].node_id]
        found.refuse(
            f"{member} and {other} are one node to the cluster: they have the same node id",
            "One of their volumes is a copy of the other's; remove nodes.conf from the copy.",
            member,
            other,
        )
    for ghost in k.ghosts:
        if ghost.kind is Kind.FOREIGN:
            tellers = sorted(ghost.told_by)
            owns = f", which owns slots {ghost.claims}" if ghost.claims else ""
            found.refuse(
                f"{', '.join(map(str, tellers))} is in one cluster with {ghost}{owns}; "
                "that node belongs to somebody else",
                "Separate the two clusters (CLUSTER FORGET on every node of both sides), or name another instance.",
                *tellers,
            )
        elif ghost.kind is Kind.UNNAMED:
            found.wait(min(ghost.told_by), f"it hears the name of {ghost}, or misses it")
