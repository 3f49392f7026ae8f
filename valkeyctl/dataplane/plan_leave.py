"""Let go of the members of a shard that is leaving, once it has given away all it had (reports C6, C11)."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan_introduce import expects
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.steps import Forget, Leave
from valkeyctl.dataplane.view import NodeView, Role


def release_members(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Forget what is empty and leaves, everywhere in one round; then make it forget all others.

    In that order: a node that still knows others keeps telling them who it is, and who bans it for a minute doesn't
    listen. At the end it is as empty as a new one, and so is its disk: should it come back, nothing has to be
    disbelieved. Replicas go like their primaries; nothing attaches them elsewhere. An introduction that is under way is
    let end before, or time out: forgotten or reset in the middle of it, the two would know each other at its end.
    """
    election_due = any(shard.heirs and shard.problem is None for shard in shards)
    for node in k.released.values():
        knowing = [other for other in k.nodes.values() if node.node_id in other.peers]
        if node.role is Role.PRIMARY and node.keys:
            found.refuse(
                f"{node.member} is leaving and owns no slots, and holds {node.keys} keys",
                f"See whether they are wanted; if not, empty it (FLUSHALL on {node.endpoint.pod}).",
                node.member,
            )
        elif election_due:
            found.symptom(node.member, "it leaves when an election is over")
        elif any(expects(other, node) or expects(node, other) for other in k.nodes.values()):
            found.wait(node.member, "nobody is being introduced to it any more")
        elif any(other.primary_id == node.node_id or _believes(other, node) for other in knowing):
            found.wait(node.member, "nobody believes any more that it owns something")
        elif knowing:
            for other in knowing:
                found.do(Forget(other.member, node.node_id, str(node.member)))
        elif node.peers:
            found.do(Leave(node.member))


def _believes(other: NodeView, node: NodeView) -> bool:
    return bool(other.peers[node.node_id].slots)
