"""Make every member know every other, at the address that it has now."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.steps import Introduce, SetEpoch
from valkeyctl.dataplane.view import NodeView

MOST_AT_ONCE = 40
"""How many introductions one member makes at a time; gossip spreads the rest, and the next round sees what is missing.
"""


def introduce_members(k: Knowledge, found: Findings) -> None:
    """Introduce each pair of members that doesn't know each other, directly.

    A single seed would leave the rest to gossip, which takes a second or more; directly it takes a fifth of that. Pairs
    whose entry is stale, because one came back under a new address, are introduced again in the same way; the servers
    recognise one another by id and correct the address (report C1).
    """
    nodes = list(k.nodes.values())
    # An epoch can be set only on a node that knows nobody, so that comes first; and what two strangers both claim has
    # to be settled before they meet, or the server settles it by deleting one side's keys.
    postponed = bool(k.disputes) or any(isinstance(step, SetEpoch) for step in found.steps)
    under_way = {node.member: _under_way(node) for node in nodes}
    for i, node in enumerate(nodes):
        unknown = [other for other in (*nodes[i + 1 :], *nodes[:i]) if not knows(node, other)]
        if not unknown:
            continue
        names = ", ".join(str(other.member) for other in unknown[:3])
        found.wait(node.member, f"it knows {names}{f' and {len(unknown) - 3} more' if len(unknown) > 3 else ''}")
        if postponed:
            continue
        # One of the two is enough: the one that lacks the other, and of two that do the first.
        mine = [other for other in unknown if node.member < other.member or knows(other, node)]
        fresh = [
            other
            for other in mine
            if _place(other) not in under_way[node.member] and _place(node) not in under_way[other.member]
        ]
        for other in fresh[:MOST_AT_ONCE]:
            found.do(Introduce(node.member, other.member))


def knows(node: NodeView, other: NodeView) -> bool:
    """Whether `node` has a standing link to `other`, at the address that `other` has now."""
    peer = node.peers.get(other.node_id)
    if peer is None or peer.handshake or not peer.linked or peer.failed or peer.suspect:
        return False
    endpoint = other.endpoint
    return peer.port == endpoint.port and _plain(peer.address) == _plain(endpoint.address)


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
