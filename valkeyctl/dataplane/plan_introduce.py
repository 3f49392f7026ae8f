"""Make every member know every other, at the address that it has now."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache
from ipaddress import ip_address

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.steps import Introduce, Remind, SetEpoch
from valkeyctl.dataplane.view import NodeView, Role

MOST_AT_ONCE = 40
"""How many introductions one member makes at a time; gossip spreads the rest, and the next round sees what is missing.
"""


def introduce_members(k: Knowledge, shards: Sequence[Shard], found: Findings, *, apart: Set[Member]) -> None:
    """Introduce each pair of members that doesn't know each other, directly.

    A single seed would leave the rest to gossip, which takes a second or more; directly it takes a fifth of that. Pairs
    whose entry is stale, because one came back under a new address, are introduced again in the same way; the servers
    recognise one another by id and correct the address (report C1). Nobody is introduced to who is `apart`.
    """
    nodes = [node for member, node in k.nodes.items() if member not in apart]
    # An epoch can be set only on a node that knows nobody, so that comes first; and what two strangers both claim has
    # to be settled before they meet, or the server settles it by deleting one side's keys.
    postponed = bool(k.disputes) or any(isinstance(step, SetEpoch) for step in found.actions)
    under_way = {node.member: _under_way(node) for node in nodes}
    primaries = frozenset(shard.primary.member for shard in shards if shard.primary is not None)
    for i, node in enumerate(nodes):
        unknown = [other for other in (*nodes[i + 1 :], *nodes[:i]) if not knows(node, other)]
        if unknown:
            names = ", ".join(str(other.member) for other in unknown[:3])
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            # While a dispute keeps them apart there is nothing to wait for.
            (found.symptom if k.disputes else found.wait)(node.member, f"it knows {names}{more}")
        # A link that is down to the right address the server restores itself.
        fresh = [
            other
            for other in unknown
            if not has_address(node, other)
            and _place(other) not in under_way[node.member]
            and _place(node) not in under_way[other.member]
            and (has_address(other, node) or _goes_first(node.member, other.member, primaries))
        ]
        if not postponed:
            for other in fresh[:MOST_AT_ONCE]:
                found.do(Introduce(node.member, other.member))


def remind_of_slots(k: Knowledge, shards: Sequence[Shard], found: Findings) -> bool:
    """Let primaries tell their slots to members that know them and not their slots; returns whether all agree.

    Otherwise that waits for the next ping between the two, which may take half a node timeout.
    """
    agreed = True
    for primary in (shard.primary for shard in shards if shard.primary is not None):
        for node in k.nodes.values():
            if agrees(k, node, primary):
                continue
            agreed = False
            found.symptom(node.member, f"it agrees on the slots of {primary.member}")
            if (
                node is not primary
                and primary.slots
                and not k.disputes
                # While slots are moved, this changes faster than it could be told.
                and not found.to_move
                and knows(node, primary)
                and knows(primary, node)
            ):
                found.do(Remind(primary.member, node.member))
    return agreed


def agrees(k: Knowledge, node: NodeView, primary: NodeView) -> bool:
    """Whether `node` sees the shard's primary as such, with just the slots that it owns."""
    owned = k.owned.get(primary.member)
    bits = owned.bits if owned is not None else 0
    if node.node_id == primary.node_id:
        return node.slots.bits == bits
    peer = node.peers.get(primary.node_id)
    return peer is not None and not peer.handshake and peer.role is Role.PRIMARY and peer.slots.bits == bits


def _goes_first(one: Member, other: Member, primaries: Set[Member]) -> bool:
    """Whether `one` of two strangers calls on the other.

    Who calls hears the other's slots at once, and the other hears the caller's only at the next ping. So members
    without slots call on primaries.
    """
    return (one in primaries, one) < (other in primaries, other)


def expects(node: NodeView, other: NodeView) -> bool:
    """Whether `node` is being introduced to `other`."""
    return _place(other) in _under_way(node)


def knows(node: NodeView, other: NodeView) -> bool:
    """Whether `node` has a standing link to `other`, at the address that `other` has now."""
    peer = node.peers.get(other.node_id)
    if peer is None or not peer.linked or peer.failed or peer.suspect:
        return False
    return has_address(node, other)


def has_address(node: NodeView, other: NodeView) -> bool:
    """Whether `node` knows `other` at the address that it has now, linked or not."""
    peer = node.peers.get(other.node_id)
    if peer is None or peer.handshake:
        return False
    place = (_plain(peer.address), peer.port, peer.bus_port)
    return place == (_plain(other.endpoint.address), other.endpoint.port, other.endpoint.bus_port)


def _place(node: NodeView) -> tuple[str, int]:
    return _plain(node.endpoint.address), node.endpoint.port


def _under_way(node: NodeView) -> frozenset[tuple[str, int]]:
    """Where an introduction that `node` has begun leads to."""
    return frozenset((_plain(peer.address), peer.port) for peer in node.peers.values() if peer.handshake)


@lru_cache(maxsize=4096)
def _plain(address: str) -> str:
    """The usual spelling of an address: IPv6 has several."""
    try:
        return str(ip_address(address))
    except ValueError:
        return address
