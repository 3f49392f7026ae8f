"""A small pure model of a cluster: it shows views to the planner and carries out steps as servers would.

Time is in `settle`: gossip has spread, replicas have copied, elections are over. Between two settlements nothing moves
by itself, so a test decides how much the planner sees of it. Whatever would lose data, or break a promise of the
planner, raises Unsafe.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Absent, Endpoint, Member, NodeView, Role, Spec, View, pod_name, steps
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.steps import Action
from valkeyctl.dataplane.view import Outcome, Peer, ReplicaLink


class Unsafe(AssertionError):  # noqa: N818  (what the step is)
    """A step broke a promise: it would lose data, or a server would refuse it."""


@dataclass
class Node:
    """A server. `data` names what it holds; `known` is what it believes of others; `banned` whom it has forgotten."""

    member: Member
    node_id: str
    address: str
    epoch: int = 0
    role: Role = Role.PRIMARY
    primary_id: str = ""
    slots: SlotSet = EMPTY
    data: frozenset[str] = frozenset()
    linked: bool = False
    alive: bool = True
    known: dict[str, Peer] = field(default_factory=dict[str, Peer])
    banned: set[str] = field(default_factory=set[str])


class World:
    """All servers that there are or were, and the data that must not be lost."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.nodes: dict[str, Node] = {}
        self.here: dict[Member, str] = {}
        self.data: set[str] = set()
        self._ids = itertools.count(1)
        for member in spec.members:
            self.fresh(member)

    # --- what the environment does -----------------------------------------------------------------------------------

    def fresh(self, member: Member) -> Node:
        """Put an empty server in a member's place; the one that was there is gone, and what it alone held is lost."""
        self.remove(member)
        number = next(self._ids)
        node = Node(member, f"{number:040x}", f"10.0.{number // 250}.{number % 250 + 1}")
        self.nodes[node.node_id] = node
        self.here[member] = node.node_id
        return node

    def remove(self, member: Member) -> None:
        """Take a member's server away for good."""
        gone = self.here.pop(member, None)
        if gone is not None:
            self.nodes[gone].alive = False
            self.data &= self._held()

    def write(self, member: Member) -> None:
        """Write something to a primary that serves slots."""
        node = self.at(member)
        if node.role is Role.PRIMARY and node.slots:
            name = f"written to {member} #{next(self._ids)}"
            node.data |= {name}
            self.data.add(name)

    def at(self, member: Member) -> Node:
        """The server in a member's place."""
        return self.nodes[self.here[member]]

    def primary_of(self, shard: int) -> Member:
        """The member that owns slots of a shard, the one with most data if there are several."""
        owners = [node for node in self._alive() if node.member.shard == shard and node.slots]
        return max(owners, key=lambda node: len(node.data)).member

    # --- what the planner sees ---------------------------------------------------------------------------------------

    def view(self, *, for_s: float = 60.0) -> View:
        """An observation; members without a server have been absent for `for_s`."""
        outcomes: dict[Member, Outcome] = {}
        for member in self.spec.members:
            outcomes[member] = self._seen(self.at(member)) if member in self.here else Absent(member, for_s)
        return View(outcomes)

    def _seen(self, node: Node) -> NodeView:
        replica = node.role is Role.REPLICA
        peers = dict(node.known)
        covered = self._covered(node)
        return NodeView(
            endpoint=self.endpoint(node),
            node_id=node.node_id,
            role=node.role,
            primary_id=node.primary_id,
            slots=node.slots,
            config_epoch=node.epoch,
            current_epoch=max([node.epoch, *(peer.config_epoch for peer in peers.values())]),
            state_ok=covered == SlotSet.all(),
            version="9.1.2",
            keys=len(node.data),
            offset=0,
            link=_link(node) if replica else None,
            peers=peers,
        )

    def _covered(self, node: Node) -> SlotSet:
        covered = node.slots
        for peer in node.known.values():
            if not peer.failed:
                covered |= peer.slots
        return covered

    def endpoint(self, node: Node) -> Endpoint:
        """Where a server is."""
        pod = pod_name(self.spec.instance, node.member)
        return Endpoint(node.member, pod, f"{pod}.headless.test.svc", node.address)

    # --- what steps do -----------------------------------------------------------------------------------------------

    def take(self, step: Action) -> None:
        """Carry out a step as a server would, which also means to refuse what it would refuse."""
        node = self.at(step.member)
        match step:
            case steps.SetEpoch(epoch=epoch):
                _ensure(not node.known and node.epoch == 0, "an epoch is set on a stranger without one only")
                node.epoch = epoch
            case steps.AssignSlots(slots=slots, raise_epoch=raise_epoch):
                self._assign(node, slots, raise_epoch=raise_epoch)
            case steps.DropSlots(slots=slots):
                _ensure(not (node.data and slots.bits & node.slots.bits), "slots are dropped by an empty node only")
                node.slots -= slots
                node.known = {i: replace(peer, slots=peer.slots - slots) for i, peer in node.known.items()}
            case steps.Introduce(to=to) | steps.Remind(to=to):
                self._meet(node, self.at(to))
            case steps.Replicate(primary_id=primary_id):
                self._replicate(node, primary_id)
            case steps.Detach():
                _ensure(self.data <= self._held(without=node), "a detached node drops its data")
                node.role, node.primary_id, node.data, node.linked = Role.PRIMARY, "", frozenset(), False
            case steps.Forget(node_id=node_id):
                self._forget(node, node_id)
            case steps.Promote():
                _ensure(node.role is Role.REPLICA and bool(node.data), "only a replica with data is promoted")
                self._elect(node)
            case steps.TakeOver():
                self._take_over(node)
            case steps.HandOver(primary=primary):
                self._hand_over(node, self.at(primary))
            case steps.CloseSlot() | steps.SetNodeTimeout():
                raise Unsafe(f"nothing here calls for {step.describe()}")

    def _assign(self, node: Node, slots: SlotSet, *, raise_epoch: bool) -> None:
        _ensure(node.role is Role.PRIMARY, "slots go to primaries")
        for other in self.nodes.values():
            _ensure(not other.alive or other is node or not other.slots.bits & slots.bits, "one owner a slot")
        busy = any(peer.slots.bits & slots.bits for peer in node.known.values())
        _ensure(not busy and not node.slots.bits & slots.bits, "the server calls a slot busy that it believes owned")
        for heir in self._alive():
            former = self.nodes.get(heir.primary_id)
            waits = former is not None and not former.alive and former.slots.bits & slots.bits and heir.data
            _ensure(not waits, "slots aren't given away while somebody can take over")
        node.slots |= slots
        if raise_epoch:
            node.epoch = 1 + max([node.epoch, *(peer.config_epoch for peer in node.known.values())])

    def _meet(self, one: Node, other: Node) -> None:
        clash = one.slots.bits & other.slots.bits
        strangers = one.node_id not in other.known and other.node_id not in one.known
        _ensure(not (clash and strangers and one.data and other.data), "who both have data for a slot never meet")
        self._hear(one, other)
        self._hear(other, one)

    def _replicate(self, node: Node, primary_id: str) -> None:
        target = node.known.get(primary_id)
        _ensure(target is not None and target.role is Role.PRIMARY, "only a known primary is replicated")
        empty = not node.slots and not node.data
        _ensure(node.role is Role.REPLICA or empty, "a primary with slots or data is never demoted")
        copies = self._held(without=node)
        _ensure(self.data <= copies, "the only copy is never given up")
        node.role, node.primary_id, node.linked, node.slots = Role.REPLICA, primary_id, False, EMPTY

    def _forget(self, node: Node, node_id: str) -> None:
        _ensure(node.primary_id != node_id, "a server doesn't forget its primary")
        _ensure(not self.nodes[node_id].alive, "nobody forgets a node that lives")
        gone = self.nodes[node_id]
        for heir in self._alive():
            owner_elsewhere = not gone.slots.bits & ~self._owned().bits
            awaits = heir.primary_id == node_id and heir.data and not owner_elsewhere
            _ensure(not awaits, "no forgetting while a replica awaits promotion")
        node.known.pop(node_id, None)
        node.banned.add(node_id)

    # --- what servers do by themselves -------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let gossip, elections, demotions and copies come to their end."""
        before = None
        while before != (before := self._signature()):
            self._gossip()
            self._notice_the_dead()
            for node in self._alive():
                former = self.nodes.get(node.primary_id)
                if node.role is Role.REPLICA and former is not None and not former.alive and node.data:
                    self._elect(node)
            self._copy()

    def _signature(self) -> tuple[object, ...]:
        return tuple(
            (n.role, n.primary_id, n.slots, n.epoch, n.data, n.linked, frozenset(n.known.values()))
            for n in self._alive()
        )

    def _gossip(self) -> None:
        alive = {node.node_id: node for node in self._alive()}
        for node in alive.values():
            for node_id in list(node.known):
                other = alive.get(node_id)
                if other is None:
                    continue
                for third in [i for i in other.known if i in alive and i != node.node_id and i not in node.banned]:
                    if third not in node.known:
                        self._hear(node, alive[third])
                        self._hear(alive[third], node)
                self._hear(node, other)
                self._hear(other, node)

    def _hear(self, node: Node, other: Node) -> None:
        """`node` hears from `other`; of what both claim, the newer epoch has it."""
        if node is other:
            return
        node.banned.discard(other.node_id)
        older = (node.epoch, node.node_id) < (other.epoch, other.node_id)
        if node.role is other.role is Role.PRIMARY and node.slots.bits & other.slots.bits and older:
            _ensure(node.data <= self._held(without=node), "who loses slots to a newer epoch loses their keys")
            node.slots -= other.slots
            if not node.slots and node.member.shard == other.member.shard:
                node.role, node.primary_id, node.linked = Role.REPLICA, other.node_id, False
        node.known = {
            i: replace(peer, slots=peer.slots - other.slots) if peer.config_epoch <= other.epoch else peer
            for i, peer in node.known.items()
        }
        node.known[other.node_id] = self._peer(other)

    def _peer(self, node: Node) -> Peer:
        endpoint = self.endpoint(node)
        return Peer(
            node_id=node.node_id,
            role=node.role,
            primary_id=node.primary_id,
            address=endpoint.address,
            port=endpoint.port,
            bus_port=endpoint.bus_port,
            host=endpoint.host,
            config_epoch=node.epoch,
            slots=node.slots,
            linked=True,
        )

    def _notice_the_dead(self) -> None:
        for node in self._alive():
            for node_id, peer in node.known.items():
                if not self.nodes[node_id].alive:
                    node.known[node_id] = replace(peer, linked=False, failed=True)

    def _elect(self, heir: Node) -> None:
        former = self.nodes[heir.primary_id]
        owners = [n for n in self._alive() if n.role is Role.PRIMARY and n.slots]
        dead = [i for i, peer in heir.known.items() if not self.nodes[i].alive and peer.slots]
        reach = [n for n in owners if heir.node_id in n.known and n.node_id in heir.known]
        if former.slots and not former.slots - self._owned():
            # Somebody else has got them; the server follows whom its primary lost its slots to.
            taker = next(n for n in owners if n.slots.bits & former.slots.bits)
            heir.primary_id = taker.node_id if taker.node_id in heir.known else heir.primary_id
            return
        if not former.slots or len(reach) <= (len(owners) + len(dead)) // 2:
            return
        heir.slots, heir.role, heir.primary_id = former.slots - self._owned(), Role.PRIMARY, ""
        heir.epoch = 1 + max(node.epoch for node in self.nodes.values())
        for node in reach:
            self._hear(node, heir)

    def _take_over(self, heir: Node) -> None:
        """Without a vote: only as declared, only from a primary that is gone, only the best copy."""
        _ensure(self.spec.takeover_after_s is not None, "nobody takes over without a vote unless that is declared")
        former = self.nodes[heir.primary_id]
        _ensure(heir.role is Role.REPLICA and not former.alive, "nobody takes over from a primary that lives")
        others = [n for n in self._alive() if n.primary_id == heir.primary_id]
        _ensure(all(n.data <= heir.data for n in others), "the best copy takes over")
        heir.slots, heir.role, heir.primary_id = former.slots - self._owned(), Role.PRIMARY, ""
        heir.epoch = 1 + max(node.epoch for node in self.nodes.values())

    def _hand_over(self, heir: Node, primary: Node) -> None:
        """Both take part: the heir has all that its primary took before it takes over."""
        _ensure(heir.role is Role.REPLICA and heir.primary_id == primary.node_id, "the heir replicates the primary")
        _ensure(heir.linked and primary.alive and primary.slots, "a handover is between two that are in sync")
        voters = [n for n in self._alive() if n.slots and heir.node_id in n.known and n.node_id in heir.known]
        owners = [n for n in self._alive() if n.slots]
        _ensure(len(voters) > len(owners) // 2, "a handover takes a majority that knows the heir")
        heir.data = primary.data
        heir.slots, heir.role, heir.primary_id, heir.linked = primary.slots, Role.PRIMARY, "", False
        heir.epoch = 1 + max(node.epoch for node in self.nodes.values())
        primary.slots, primary.role, primary.primary_id, primary.linked = EMPTY, Role.REPLICA, heir.node_id, True
        for node in [primary, *voters]:
            self._hear(node, heir)
            self._hear(heir, node)

    def _copy(self) -> None:
        for node in self._alive():
            primary = self.nodes.get(node.primary_id)
            if node.role is not Role.REPLICA or primary is None or not primary.alive:
                node.linked = False
                continue
            _ensure(node.data <= self._held(without=node), "a full copy replaces what only this node held")
            node.data, node.linked = primary.data, True

    # --- judgement ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing that could be kept is lost."""
        _ensure(self.data <= self._held(), "data is lost")

    def layout(self) -> dict[int, SlotSet]:
        """The slots that each shard's servers own."""
        layout = dict.fromkeys(range(self.spec.shards), EMPTY)
        for node in self._alive():
            layout[node.member.shard] |= node.slots
        return layout

    def _alive(self) -> list[Node]:
        return [self.nodes[node_id] for node_id in self.here.values()]

    def _owned(self) -> SlotSet:
        owned = EMPTY
        for node in self._alive():
            owned |= node.slots
        return owned

    def _held(self, *, without: Node | None = None) -> set[str]:
        held: Iterable[frozenset[str]] = (node.data for node in self._alive() if node is not without)
        return set().union(*held)


def _link(node: Node) -> ReplicaLink:
    was_up = node.linked or bool(node.data)
    return ReplicaLink(up=node.linked, syncing=False, was_up=was_up)


def _ensure(good: object, promise: str) -> None:
    if not good:
        raise Unsafe(promise)
