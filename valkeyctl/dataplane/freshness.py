"""Whose id nobody can have forgotten: those that a run has seen before any other node knew them, or with their slots.

A server that forgets a node bans it for a minute, has the others forget it too by its pings, and tells nobody whom it
bans. Who is banned comes back nevertheless: since 8.1 a node without a link from another one introduces itself to it
again, once in a node timeout, and a ban doesn't turn introductions away. For a moment everybody then knows it, just as
if nothing were wrong, until the next pings have it forgotten again. One look can't tell the two apart. That an id was
seen while nobody knew it can: whom nobody knew, nobody has forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.view import NodeView, Outcome


class Freshness:
    """Watches the ids of one run, over all its looks. Not for several threads."""

    def __init__(self) -> None:
        self._fresh: set[str] = set()
        self._known_to: dict[str, frozenset[str]] = {}

    def mark(self, outcomes: Mapping[Member, Outcome]) -> Mapping[Member, Outcome]:
        """The outcomes of one look, with `NodeView.fresh` as all looks so far have it.

        An id isn't fresh any more when a node that knew it knows it no longer. A node that knows nobody now was reset
        itself, and has forgotten none of the others.
        """
        nodes = [outcome for outcome in outcomes.values() if isinstance(outcome, NodeView)]
        known_to = {
            node.node_id: frozenset(peer_id for peer_id, peer in node.peers.items() if not peer.handshake)
            for node in nodes
        }
        for teller_id, known in known_to.items():
            if known:
                self._fresh -= self._known_to.get(teller_id, frozenset()) - known
        known_to_any = frozenset[str]().union(*known_to.values())
        # A reset that keeps the id keeps the epoch too, but for a node that never heard of one.
        self._fresh |= {
            node.node_id
            for node in nodes
            if not node.peers and not node.current_epoch and node.node_id not in known_to_any
        }
        self._fresh |= {node.node_id for node in nodes if node.slots and _all_agree(node, nodes)}
        self._known_to |= known_to
        return {
            member: replace(outcome, fresh=outcome.node_id in self._fresh) if isinstance(outcome, NodeView) else outcome
            for member, outcome in outcomes.items()
        }


def _all_agree(owner: NodeView, nodes: Sequence[NodeView]) -> bool:
    """Whether all others know a node as the owner of its slots."""
    told = (other.peers.get(owner.node_id) for other in nodes if other is not owner)
    return all(peer is not None and owner.slots.issubset(peer.slots) for peer in told)
