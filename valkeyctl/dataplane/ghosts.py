"""Nodes that members tell of and that aren't members who answered: where each of them belongs.

What is done about such a node depends on this alone, so it is decided in one place: a node that may come back is waited
for, one that is gone for good is forgotten, and one that belongs to somebody else stops everything (reports C1, C2,
C6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from valkeyctl.dataplane.model import Member, Spec, member_of_host
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.view import NodeView, Outcome, Peer, Unreachable, View


class Kind(Enum):
    """What such a node is to the instance."""

    AWAY = "a declared member that didn't answer, and may come back as it was"
    GONE = "it can't come back: its place is taken by another node, or nobody has an address for it"
    UNDECLARED = "a member of this instance that isn't declared (any more), and alive"
    FOREIGN = "somebody else's"
    UNNAMED = "nobody has heard its name yet, nor misses it, and it owns nothing"


@dataclass(frozen=True)
class Ghost:
    """One such node. `told_by` is how each member that knows it sees it; `member` the place that its name points to."""

    node_id: str
    kind: Kind
    member: Member | None
    told_by: Mapping[Member, Peer]

    @property
    def host(self) -> str:
        """The name that it announces, as far as anybody knows one."""
        return next((peer.host for peer in self.told_by.values() if peer.host), "")

    @property
    def address(self) -> str:
        """Its last known address, for messages only."""
        return next((f"{peer.address}:{peer.port}" for peer in self.told_by.values() if peer.address), "")

    @property
    def seen_alive(self) -> bool:
        """Whether some member has an answer from it."""
        return any(_alive(peer) for peer in self.told_by.values())

    @property
    def config_epoch(self) -> int:
        """The newest epoch that anybody knows of it."""
        return max(peer.config_epoch for peer in self.told_by.values())

    @property
    def claims(self) -> SlotSet:
        """The slots that anybody believes to be its."""
        bits = 0
        for peer in self.told_by.values():
            bits |= peer.slots.bits
        return SlotSet(bits) if bits else EMPTY

    def __str__(self) -> str:
        """For people: its name, or its address, and the start of its id."""
        return f"{self.host or self.address or 'a node without an address'} (node {self.node_id[:8]})"


def find_ghosts(spec: Spec, view: View) -> tuple[Ghost, ...]:
    """All such nodes, by id. Temporary entries of an introduction under way are none."""
    told: dict[str, dict[Member, Peer]] = defaultdict(dict)
    for member, node in view.nodes.items():
        for node_id, peer in node.peers.items():
            if node_id not in view.member_of_id and not peer.handshake:
                told[node_id][member] = peer
    return tuple(_ghost(spec, view, node_id, told[node_id]) for node_id in sorted(told))


def _ghost(spec: Spec, view: View, node_id: str, told_by: Mapping[Member, Peer]) -> Ghost:
    host = next((peer.host for peer in told_by.values() if peer.host), "")
    member = member_of_host(spec.instance, host) if host.partition(".")[2] in view.domains else None
    if member is None:
        member = _at_address(view, list(told_by.values()))
    if member is not None and member in view.outcomes:
        kind = _kind_of_declared(view.outcomes[member], node_id)
    elif member is not None:
        kind = Kind.GONE if _dead(list(told_by.values())) else Kind.UNDECLARED
    else:
        kind = _kind_of_nameless(view, list(told_by.values())) if not host else _kind_of_other(list(told_by.values()))
    return Ghost(node_id, kind, member, told_by)


def _kind_of_declared(outcome: Outcome, node_id: str) -> Kind:
    """Of a node with a declared member's name: gone when that member has, or tells, another id now."""
    if isinstance(outcome, NodeView):
        return Kind.GONE
    replaced = isinstance(outcome, Unreachable) and outcome.node_id not in ("", node_id)
    return Kind.GONE if replaced else Kind.AWAY


def _kind_of_nameless(view: View, told: Collection[Peer]) -> Kind:
    """Of a node whose name nobody has heard.

    A member is nameless to another for some seconds after they have met. It then also has no slots to the other,
    since both come with the same packet; so one that owns slots has no name of ours. One that doesn't answer may be
    any member that is missing, and if none is missing, then it is the former self of one.
    """
    if any(peer.slots for peer in told) and not _dead(told):
        return Kind.FOREIGN
    if not all(peer.failed or peer.suspect or not peer.address for peer in told):
        return Kind.UNNAMED
    return Kind.AWAY if view.missing else Kind.GONE


def _kind_of_other(told: Collection[Peer]) -> Kind:
    """Of a node with a name that isn't ours: a dead one that owns nothing is an old entry, not a neighbour."""
    return Kind.GONE if _dead(told) and not any(peer.slots for peer in told) else Kind.FOREIGN


def _dead(told: Collection[Peer]) -> bool:
    return all(peer.failed or not peer.address for peer in told)


def _at_address(view: View, told: Iterable[Peer]) -> Member | None:
    """The member that hasn't answered and has this node's address now: for a node whose name nobody has heard yet."""
    known = {(peer.address, peer.port) for peer in told if peer.address and not peer.host}
    for member, outcome in view.missing.items():
        if isinstance(outcome, Unreachable) and (outcome.endpoint.address, outcome.endpoint.port) in known:
            return member
    return None


def _alive(peer: Peer) -> bool:
    return peer.linked and not peer.failed and not peer.suspect
