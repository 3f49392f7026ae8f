"""Forget nodes that exist no more, on all members in one round; never one whose data may be saved (report C6)."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.ghosts import Ghost, Kind
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.steps import Forget


def forget_the_gone(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Forget every node that is gone for good, wherever it is known.

    Not while it is remembered as the owner of slots that somebody may take over: an election for it would end. Nor any
    other while an election is due anywhere: what members believe of one another is best left alone in the middle of it.

    A member bans a forgotten node for a minute; all members forget it in the same round, so that none can bring it back
    by gossip after that. One that didn't answer may do so, and it is forgotten again. A member that still replicates it
    can't forget it; it is attached elsewhere first.
    """
    election_due = any(shard.heirs and shard.problem is None for shard in shards)
    given_up = frozenset[str]().union(*(shard.given_up for shard in shards))
    for ghost in k.ghosts:
        if ghost.kind is Kind.UNDECLARED and ghost.node_id not in k.lost and _was_taken_out(k, ghost):
            # The others notice within the node timeout that its Pod has gone, and forget it then.
            found.wait(min(ghost.told_by), f"{ghost}, which isn't declared any more, has gone")
            continue
        if ghost.kind is not Kind.GONE or (ghost.node_id in k.lost and ghost.node_id not in given_up):
            continue
        for member in sorted(ghost.told_by.keys() & k.nodes.keys()):
            if election_due:
                found.symptom(member, f"it forgets {ghost}")
            elif k.nodes[member].primary_id == ghost.node_id:
                found.symptom(member, f"it replicates another node than {ghost}")
            else:
                found.do(Forget(member, ghost.node_id, str(ghost.member or ghost.host or ghost.address or "a node")))


def _was_taken_out(k: Knowledge, ghost: Ghost) -> bool:
    """Whether it was a member of a declared shard that has fewer replicas now."""
    return ghost.member is not None and ghost.member.shard < k.spec.shards and ghost.member.ordinal > k.spec.replicas
