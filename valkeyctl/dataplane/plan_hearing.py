"""Before slots change hands: who takes them has heard whose they are, and how new that claim is.

To a server that hasn't heard, a slot has no owner, and it turns away keys that are sent to it, and clients. And who
takes a slot raises its epoch above all that it knows of. It has to end up above the giver's: until the giver has heard
that the slot is taken, it claims it too, and the newer epoch has it, the other side deleting its keys. Two primaries
with one epoch settle that when they hear of each other, the one by raising its own; so no such one gives slots away.
"""

from __future__ import annotations

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan_introduce import knows
from valkeyctl.dataplane.slots import SlotSet
from valkeyctl.dataplane.steps import Remind
from valkeyctl.dataplane.view import NodeView, Role


def all_is_heard(k: Knowledge, giver: NodeView, taker: NodeView, slots: SlotSet, found: Findings) -> bool:
    """Whether these slots may go from the one to the other. Where something hasn't been heard yet, has it told."""
    peer = taker.peers.get(giver.node_id)
    if peer is None or not slots.issubset(peer.slots) or peer.config_epoch < giver.config_epoch:
        found.symptom(taker.member, f"it hears which slots {giver.member} owns")
        _tell(giver, taker, found)
        return False
    for rival in k.view.nodes.values():
        if rival is not giver and rival.role is Role.PRIMARY and rival.config_epoch == giver.config_epoch:
            found.symptom(giver.member, f"it has an epoch that {rival.member} hasn't")
            # The one with the smaller id gives way, when it hears of the other.
            smaller, larger = sorted((giver, rival), key=lambda node: node.node_id)
            _tell(larger, smaller, found)
            return False
    return True


def _tell(teller: NodeView, other: NodeView, found: Findings) -> None:
    """Otherwise it hears at the next ping between the two, which may take half a node timeout."""
    step = Remind(teller.member, other.member)
    if knows(teller, other) and knows(other, teller) and step not in found.actions:
        found.do(step)
