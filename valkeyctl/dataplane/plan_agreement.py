"""What has to be true beside the steps: members answer, all agree who owns which slots, and all serve."""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.view import Absent, NodeView, Role, Why

NEEDS_A_PERSON = frozenset({Why.AUTH_FAILED, Why.RIGHT_MISSING})


def await_members(k: Knowledge, found: Findings) -> None:
    """Wait for members that didn't answer. A refused login or a missing right goes away only by a person's hand."""
    for member, outcome in k.view.missing.items():
        if isinstance(outcome, Absent):
            found.wait(member, "it has a running Pod")
        elif outcome.why in NEEDS_A_PERSON:
            found.refuse(outcome.detail, "", member)
        else:
            found.wait(member, f"it answers ({outcome.detail})")


def await_agreement(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Wait until every member sees every shard's slots where they are, and serves."""
    primaries = [shard.primary for shard in shards if shard.primary is not None]
    for node in k.nodes.values():
        differs = [primary.member.shard for primary in primaries if not agrees(k, node, primary)]
        if differs:
            found.symptom(node.member, f"it agrees on the slots of shard {', '.join(map(str, differs))}")
        elif not node.state_ok:
            found.symptom(node.member, "it calls the cluster's state ok")


def agrees(k: Knowledge, node: NodeView, primary: NodeView) -> bool:
    """Whether `node` sees the shard's primary as such, with just the slots that it owns."""
    owned = k.owned.get(primary.member)
    bits = owned.bits if owned is not None else 0
    if node.node_id == primary.node_id:
        return node.slots.bits == bits
    peer = node.peers.get(primary.node_id)
    return peer is not None and not peer.handshake and peer.role is Role.PRIMARY and peer.slots.bits == bits
