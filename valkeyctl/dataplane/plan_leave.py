"""Let go of the members of a shard that is leaving, once it has given away all it had (reports C6, C11)."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.ghosts import Ghost, Kind
from valkeyctl.dataplane.knowledge import PATIENCE_S, Knowledge
from valkeyctl.dataplane.plan_introduce import expects
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.steps import Forget, Leave
from valkeyctl.dataplane.view import NodeView, Role


def release_members(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Make what is empty and leaves forget all others, under a new id. Its former one, which is nobody's from then on,
    the others forget like that of any node that is gone.

    In that order: whoever is forgotten is banned, and may be taken back at any time, or introduce itself. Where the
    others forgot it first, a run that stopped in between would leave a member that some ban for a minute. At the end it
    is as empty as a new one, and so is its disk: should it come back, nothing has to be disbelieved. Replicas go like
    their primaries; nothing attaches them elsewhere. An introduction that is under way is let end before, or time out:
    reset in the middle of it, the two would know each other at its end.
    """
    election_due = any(shard.heirs and shard.problem is None for shard in shards)
    for ghost in k.ghosts:
        if _has_left_unseen(k, ghost):
            _forget_unseen(k, ghost, found, election_due=election_due)
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
        elif knowing or node.peers:
            found.do(Leave(node.member))


def _has_left_unseen(k: Knowledge, ghost: Ghost) -> bool:
    """Whether a node is a leaving member that doesn't answer, of a shard that has nothing to give any more."""
    if ghost.member is None or ghost.member not in k.spec.leaving or ghost.kind is not Kind.AWAY:
        return False
    return ghost.node_id not in k.lost and ghost.member.shard not in k.draining


def _forget_unseen(k: Knowledge, ghost: Ghost, found: Findings, *, election_due: bool) -> None:
    """Forget such a node: remembered, it would be one of the cluster again, with old data, should its disk come back.

    One that the others still reach would come back by itself. They are given the time to miss it; where they don't, it
    is left to be forgotten when its Pod has gone.
    """
    tellers = sorted(ghost.told_by.keys() & k.view.nodes.keys())
    if ghost.seen_alive:
        if ghost.member is not None and not k.silent_for(ghost.member, PATIENCE_S):
            found.wait(tellers[0], f"{ghost}, which leaves, answers, or the others miss it too")
        return
    for member in tellers:
        if election_due:
            found.symptom(member, f"it forgets {ghost} when an election is over")
        elif ghost.told_by[member].slots:
            found.wait(member, f"it hears that {ghost} owns nothing any more")
        elif k.view.nodes[member].primary_id == ghost.node_id:
            found.symptom(member, f"it replicates another node than {ghost}")
        elif _has_open_slots(k.view.nodes[member], ghost):
            found.wait(member, f"{ghost} answers: slots are open between the two, and it may hold keys of them")
        else:
            found.do(Forget(member, ghost.node_id, str(ghost.member)))


def _believes(other: NodeView, node: NodeView) -> bool:
    return bool(other.peers[node.node_id].slots)


def _has_open_slots(node: NodeView, ghost: Ghost) -> bool:
    return ghost.node_id in (*node.migrating.values(), *node.importing.values())
