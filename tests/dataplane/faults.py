"""What may happen to a cluster that loses nothing by itself: power losses, and what people do by hand.

So the product has no reason to refuse, and everything has to be there at the end. Where it depends on how the cluster
stands whether something could be lost, a fault looks first, and does nothing then. Whom it hits is told by numbers of
any size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import valkey

from tests.dataplane import scenes
from tests.dataplane.servers import Fleet
from valkeyctl.dataplane import SLOTS, Member, NodeView, Role, SlotSet, View
from valkeyctl.dataplane.plan_replicas import in_sync
from valkeyctl.dataplane.slots import union

Chosen = TypeVar("Chosen")
HANDOVER_S = 5.5
"""A server gives a handover up after 5 s."""
BANNED_S = 61.0
"""How long a server that was told to forget a node lets nobody bring it back."""


class Faults:
    """Faults in a fleet of servers whose disks have all that they acknowledged. `tell` hears what was done."""

    def __init__(self, fleet: Fleet, tell: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._tell = tell
        #: Whether a slot was opened by hand since all was right: two may leave keys that only a person can place.
        self.opened = False
        #: Until when (monotonic) somebody doesn't let a node come back.
        self.banned_until = 0.0

    def all_is_right(self) -> None:
        """What was done before has no effect any more."""
        self.opened = False

    def is_up(self, member: Member) -> bool:
        """Whether a member's server runs."""
        return self._fleet.servers[member].process is not None

    # --- power -------------------------------------------------------------------------------------------------------

    def kill(self, which: int, *, back: bool) -> None:
        """Power loss at one member. It comes back with its disk under a new address: at once, or when it is resumed."""
        up = sorted(self._fleet.directory())
        if not up:
            return
        member = _one_of(up, which)
        if back or self._may_stay_away(member):
            self._tell(f"kill {member}{' and start it again' if back else ''}")
            self._fleet.stop(member)
            if back:
                self._fleet.resume(member)

    def resume(self, members: Sequence[Member]) -> None:
        """Those of them that were killed are back with their disks."""
        down = [member for member in members if not self.is_up(member)]
        if down:
            self._tell(f"start {', '.join(map(str, down))} again")
            self._fleet.resume(*down)

    def resume_one(self, which: int) -> None:
        """One of those that were killed is back."""
        down = [member for member in sorted(self._fleet.servers) if not self.is_up(member)]
        if down:
            self.resume([_one_of(down, which)])

    def restart_all(self) -> None:
        """Power loss everywhere; what servers only remember in memory is gone."""
        up = sorted(self._fleet.directory())
        self._tell(f"kill {', '.join(map(str, up))}, and start them again")
        self._fleet.restart(*up)
        self.banned_until = 0.0

    def lose_disk(self, which: int) -> None:
        """A replica of which its primary has all comes back empty, as another node."""
        spare = _spare(self._look())
        if spare:
            member = _one_of(spare, which).member
            self._tell(f"replace {member} by an empty server")
            self._fleet.replace(member)

    # --- by hand -----------------------------------------------------------------------------------------------------

    def reset(self, which: int, how: str) -> None:
        """CLUSTER RESET of a replica of which its primary has all. With FLUSHALL: its log still has the keys, and only
        a person can say that nobody wants them.
        """
        spare = _spare(self._look())
        if spare:
            node = _one_of(spare, which)
            self._by_hand(node, "CLUSTER", "RESET", how)
            self._by_hand(node, "FLUSHALL")

    def mislead(self, which: int, whom: int) -> None:
        """CLUSTER REPLICATE of another shard's primary, at a replica of which its own primary has all."""
        view = self._look()
        spare = _spare(view)
        if spare:
            node = _one_of(spare, which)
            wrong = [other for other in view.nodes.values() if other.slots and other.node_id != node.primary_id]
            if wrong:
                self._by_hand(node, "CLUSTER", "REPLICATE", _one_of(wrong, whom).node_id)

    def forget(self, which: int, whom: int) -> None:
        """CLUSTER FORGET at one member; its pings have all others forget that node too."""
        nodes = list(self._look().nodes.values())
        if len(nodes) > 1:
            node = _one_of(nodes, which)
            other = _one_of([other for other in nodes if other is not node], whom)
            self._by_hand(node, "CLUSTER", "FORGET", other.node_id)
            self.banned_until = time.monotonic() + BANNED_S

    def drop_slots(self, which: int, first: int, count: int) -> None:
        """CLUSTER DELSLOTSRANGE at one member, of slots that it believes to be its own or another's."""
        nodes = list(self._look().nodes.values())
        if nodes:
            node = _one_of(nodes, which)
            believed = node.slots | union(peer.slots for peer in node.peers.values())
            slots = SlotSet.span(first, min(SLOTS - 1, first + count)) & believed
            if slots:
                self._by_hand(node, "CLUSTER", "DELSLOTSRANGE", *slots.bounds)

    def open_slot(self, slot: int, whom: int, ends: str) -> None:
        """CLUSTER SETSLOT MIGRATING or IMPORTING or "both"."""
        nodes = self._look().nodes.values()
        owner = next((node for node in nodes if node.role is Role.PRIMARY and slot in node.slots), None)
        takers = [node for node in nodes if node is not owner and node.slots]
        if owner is None or not takers or self.opened:
            return
        taker, self.opened = _one_of(takers, whom), True
        if ends != "migrating":
            self._by_hand(taker, "CLUSTER", "SETSLOT", slot, "IMPORTING", owner.node_id)
        if ends != "importing":
            self._by_hand(owner, "CLUSTER", "SETSLOT", slot, "MIGRATING", taker.node_id)

    def hand_over(self, which: int) -> None:
        """CLUSTER FAILOVER, in which the replica's primary has a part; the servers end it, or give it up."""
        replicas = [node for node in self._look().nodes.values() if node.role is Role.REPLICA]
        if replicas:
            node = _one_of(replicas, which)
            if self._by_hand(node, "CLUSTER", "FAILOVER"):
                deadline = time.monotonic() + HANDOVER_S
                while scenes.look(self._fleet).nodes[node.member].role is Role.REPLICA and time.monotonic() < deadline:
                    time.sleep(0.05)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _look(self) -> View:
        return scenes.look(self._fleet)

    def _by_hand(self, node: NodeView, *command: str | int) -> bool:
        """Whether the server takes it."""
        said = ""
        try:
            self._fleet.ask(node.member, *command)
        except (valkey.ValkeyError, OSError) as error:
            said = f": {error}"
        self._tell(f"by hand at {node.member}: {' '.join(map(str, command))}{said}")
        return not said

    def _may_stay_away(self, member: Member) -> bool:
        """Whether nothing that was acknowledged is lost when another member is elected meanwhile."""
        view = self._look()
        node = view.nodes.get(member)
        if node is None or node.role is Role.REPLICA or not node.slots:
            return node is not None
        copies = [other for other in view.nodes.values() if other.primary_id == node.node_id]
        return bool(copies) and all(in_sync(copy, node) and copy.offset >= node.offset for copy in copies)


def _spare(view: View) -> list[NodeView]:
    """The replicas whose primary has all that they have, and answers."""
    primaries = {node.node_id: node for node in view.nodes.values() if node.role is Role.PRIMARY and node.slots}
    return [n for n in view.nodes.values() if n.primary_id in primaries and in_sync(n, primaries[n.primary_id])]


def _one_of(choices: Sequence[Chosen], which: int) -> Chosen:
    return choices[which % len(choices)]
