"""Make every member that isn't its shard's primary a replica of it, without losing what it may hold alone."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan_introduce import knows
from valkeyctl.dataplane.shards import Shard, has_copy
from valkeyctl.dataplane.slots import union
from valkeyctl.dataplane.steps import Detach, Promote, Replicate, TakeOver
from valkeyctl.dataplane.view import NodeView, Role

MOST_LAG_BYTES = 1 << 20
"""How far a replica may be behind and still count as in sync: what is in flight under load, no more."""


def attach_replicas(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Attach, watch syncing, and where a shard has no primary at all, find one."""
    for shard in shards:
        if shard.heirs:
            _help_election(k, shard, found)
        if shard.primary is None:
            if not shard.heirs and not shard.waits_for and shard.problem is None:
                _free_a_replica(k, shard, found)
            continue
        for node in shard.nodes:
            if node is not shard.primary and node.member not in k.owned:
                _attach(k, node, shard.primary, found)


def lag_bytes(replica: NodeView, primary: NodeView) -> int:
    """How far a replica is behind its primary."""
    return max(0, primary.offset - replica.offset)


def in_sync(replica: NodeView, primary: NodeView) -> bool:
    """Whether a replica follows this primary, with its link up and its offset caught up."""
    link = replica.link
    follows = replica.primary_id == primary.node_id and link is not None and link.up and not link.syncing
    return follows and lag_bytes(replica, primary) <= MOST_LAG_BYTES


def _attach(k: Knowledge, node: NodeView, primary: NodeView, found: Findings) -> None:
    if node.primary_id == primary.node_id:
        if not in_sync(node, primary):
            found.wait(node.member, f"it is in sync with {primary.member}")
    elif node.role is Role.PRIMARY and node.slots:
        found.wait(node.member, f"it notices that {primary.member} has taken over its slots")
    elif node.role is Role.PRIMARY and node.keys:
        found.refuse(
            f"{node.member} is a primary without slots and holds {node.keys} keys; "
            f"{primary.member} owns its shard's slots",
            f"See whether its keys are wanted; if not, empty it (FLUSHALL on {node.endpoint.pod}).",
            node.member,
        )
    elif node.primary_id in k.lost:
        found.symptom(node.member, "the shard of its primary is settled: it may have the only copy of it")
    elif node.primary_id in k.ghost_of_id and node.keys and not primary.keys:
        found.refuse(
            f"{node.member} holds {node.keys} keys of a primary that is gone; {primary.member}, which owns the slots, "
            "holds none",
            f"See whether its keys are wanted; if not, empty it (CLUSTER RESET on {node.endpoint.pod}).",
            node.member,
        )
    else:
        _replicate(k, node, primary, found)


def _replicate(k: Knowledge, node: NodeView, primary: NodeView, found: Findings) -> None:
    peer = node.peers.get(primary.node_id)
    if peer is None or peer.handshake or peer.role is not Role.PRIMARY:
        found.wait(node.member, f"it knows {primary.member} as a primary")
    elif primary.member not in k.owned and k.target[primary.member.shard] - union(k.owned.values()):
        # Its choice isn't final before it owns slots: a member with the data may still turn up. But where others own
        # all that it is to get, there is no such member, and it needs a copy before it gets them.
        found.symptom(node.member, f"{primary.member} owns slots")
    else:
        found.do(Replicate(node.member, primary.member, primary.node_id))


def _help_election(k: Knowledge, shard: Shard, found: Findings) -> None:
    """Bring about what doesn't come about by itself: an election that no replica asks for, or, where a person declared
    it, a takeover without one.

    A replica doesn't ask that was restarted and has never been linked since, nor one that lost its link long ago: to
    the server its data is of unknown age, or too old. Here it is the best copy there is: all members of its shard
    answer, or have been silent for as long as was declared.
    """
    if shard.problem is not None:
        return
    best = best_copy(shard.heirs)
    if shard.without_vote:
        found.do(TakeOver(best.member))
        return
    after_s = k.spec.takeover_after_s
    missing = [member for member in k.spec.shard_members(shard.index) if member in k.view.missing]
    if not missing:
        asks_itself = any(heir.link is None or heir.link.was_up for heir in shard.heirs)
    else:
        asks_itself = after_s is None or not all(k.silent_for(member, after_s) for member in missing)
    if asks_itself or not k.majority_heard or len({heir.primary_id for heir in shard.heirs}) != 1:
        return
    voters = [k.nodes[member] for member in k.owned]
    if voters and all(knows(voter, best) and knows(best, voter) for voter in voters):
        found.do(Promote(best.member))


def best_copy(heirs: Sequence[NodeView]) -> NodeView:
    """The replica that has most of what its lost primary had."""
    return max(heirs, key=lambda n: (n.offset, n.keys, -n.member.ordinal))


def _free_a_replica(k: Knowledge, shard: Shard, found: Findings) -> None:
    """Where all of a shard's members replicate nodes of other shards, make one a primary again.

    Only one whose data is a copy of a primary that answers, or that has none.
    """
    if any(member in k.view.missing for member in k.spec.shard_members(shard.index)):
        return
    for node in shard.nodes:
        upstream = k.view.member_of_id.get(node.primary_id)
        copied = upstream is not None and in_sync(node, k.nodes[upstream])
        if copied or not has_copy(node):
            found.do(Detach(node.member))
            return
    for node in shard.nodes[:1]:
        found.wait(node.member, "it is in sync with the primary that it replicates now")
