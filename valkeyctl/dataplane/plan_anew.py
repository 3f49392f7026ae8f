"""Give members that were partly forgotten a fresh start, where they are empty.

A server that forgets a node bans it for a minute, and its pings tell all others to forget it too: whoever hears that
drops the node and every slot that it believes to be the node's. So one who was forgotten, if only by one, can't come
back under the same id: it would be given slots, and lose them in the tables of others. Under a new id it can.
"""

from __future__ import annotations

from collections.abc import Iterator

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.plan_introduce import expects, has_address
from valkeyctl.dataplane.steps import StartAnew
from valkeyctl.dataplane.view import NodeView, Role


def start_anew(k: Knowledge, found: Findings) -> None:
    """Have empty members that were forgotten by some start anew; nobody introduces them before."""
    for member in forgotten(k):
        found.do(StartAnew(member))


def forgotten(k: Knowledge) -> frozenset[Member]:
    """The empty primaries that know somebody who doesn't know them, nor is about to."""
    return frozenset(_forgotten(k))


def _forgotten(k: Knowledge) -> Iterator[Member]:
    for member, node in k.nodes.items():
        if not _is_empty(node) or any(other.primary_id == node.node_id for other in k.nodes.values()):
            continue
        if any(peer.slots for other in k.nodes.values() if (peer := other.peers.get(node.node_id))):
            continue
        others = (other for other in k.nodes.values() if other is not node)
        if any(_knows_alone(node, other) for other in others):
            yield member


def _knows_alone(node: NodeView, other: NodeView) -> bool:
    # Its link may have ended with the other's knowledge of it.
    return has_address(node, other) and node.node_id not in other.peers and not expects(other, node)


def _is_empty(node: NodeView) -> bool:
    return node.role is Role.PRIMARY and not (
        node.slots or node.keys or node.is_moving_slots or node.migrating or node.importing
    )
