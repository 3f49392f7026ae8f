"""A small pure model of a cluster: it shows views to the planner and carries out steps as servers would.

Time is in `settle`: gossip has spread, replicas have copied, elections are over. Between two settlements nothing moves
by itself, so a test decides how much the planner sees of it. Whatever would lose data, or break a promise of the
planner, raises Unsafe.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Absent, Endpoint, Member, NodeView, Role, Spec, View, pod_name, steps
from valkeyctl.dataplane.freshness import Freshness
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.steps import Action
from valkeyctl.dataplane.view import Job, JobState, Outcome, Peer, ReplicaLink


class Unsafe(AssertionError):  # noqa: N818  (what the step is)
    """A step broke a promise: it would lose data, or a server would refuse it."""


Item = tuple[int, str]
"""What was written: its slot, and a name."""
PHASES = 6
"""How far sending keys may get: the taker's end open, the giver's, some keys sent, all, the taker owns, the giver knows
it.
"""


@dataclass
class Node:
    """A server. `data` names what it holds, each with its slot; `known` is what it believes of others; `banned` whom it
    was told to forget a moment ago. `migrating` and `importing` are its open slots, `jobs` the moves that it does by
    itself.
    """

    member: Member
    node_id: str
    address: str
    epoch: int = 0
    role: Role = Role.PRIMARY
    primary_id: str = ""
    slots: SlotSet = EMPTY
    data: frozenset[Item] = frozenset()
    migrating: dict[int, str] = field(default_factory=dict[int, str])
    importing: dict[int, str] = field(default_factory=dict[int, str])
    jobs: list[Job] = field(default_factory=list[Job])
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
        self.data: set[Item] = set()
        self.moved = 0
        self.method_since_9 = True
        self.phases: Callable[[], int] = lambda: PHASES
        self.fails: Callable[[], bool] = lambda: False
        self._ids = itertools.count(1)
        self._back = False
        self.new_run()
        for member in spec.members:
            self.fresh(member)

    def new_run(self) -> None:
        """Whoever plans from now on has seen nothing of what was before."""
        self.freshness = Freshness()

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
            number = next(self._ids)
            slots = list(node.slots.ranges)
            first, last = slots[number % len(slots)]
            item = (first + number * 7919 % (last - first + 1), f"written to {member} #{number}")
            # A key that isn't here while its slot is given away is written by the taker.
            taker = self.nodes.get(node.migrating.get(item[0], ""))
            (taker if taker is not None and taker.alive else node).data |= {item}
            self.data.add(item)

    def ban_an_empty_one(self) -> None:
        """By hand: the first server tells the others to forget one that has nothing, as long as it is told to."""
        teller, *others = (self.at(member) for member in sorted(self.here))
        for node in others:
            busy = node.slots or node.importing or node.primary_id or any(n.primary_id == node.node_id for n in others)
            taking = any(job.other_id == node.node_id and job.state is JobState.RUNNING for job in self._jobs())
            if not busy and not taking and node.node_id in teller.known:
                del teller.known[node.node_id]
                teller.banned.add(node.node_id)
                return

    def become(self, spec: Spec) -> None:
        """Another declaration: new members have their servers, those that aren't declared any more are leaving."""
        for member in spec.members:
            if member not in self.here:
                self.fresh(member)
        self.spec = replace(spec, leaving=tuple(sorted(set(self.here) - set(spec.members))))

    def delete_the_left(self) -> None:
        """What has left goes: its Pods are deleted."""
        for member in self.spec.leaving:
            _ensure(not self.at(member).slots and not self.at(member).known, "only who has left is deleted")
            self.remove(member)
        self.spec = replace(self.spec, leaving=())

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
        for member in self.spec.everybody:
            outcomes[member] = self._seen(self.at(member)) if member in self.here else Absent(member, for_s)
        return View(self.freshness.mark(outcomes))

    def _seen(self, node: Node) -> NodeView:
        replica = node.role is Role.REPLICA
        peers = dict(node.known)
        opened = {slot for one in self._alive() for slot in (*one.migrating, *one.importing)}
        held = [slot for slot, _ in node.data if slot in opened]
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
            version="9.1.2" if self.method_since_9 else "8.1.8",
            keys=len(node.data),
            offset=0,
            link=_link(node) if replica else None,
            peers=peers,
            migrating=dict(node.migrating),
            importing=dict(node.importing),
            open_slot_keys={slot: held.count(slot) for slot in held},
            jobs=tuple(node.jobs),
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

    def take(self, step: Action) -> None:  # noqa: C901, PLR0912  (one case a step)
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
                self._take_role(node, self.at(primary))
            case steps.MigrateSlots(to_id=to_id, slots=slots):
                self._begin(node, self.nodes[to_id], slots)
            case steps.MoveKeys():
                self._send(node, step)
            case steps.CloseSlot(slot=slot):
                strays = [n for n in self._alive() if n.role is Role.PRIMARY and slot not in n.slots]
                stray = any(item[0] == slot for n in strays for item in n.data)
                _ensure(slot in node.migrating or not stray, "no slot is closed while keys are at its other end")
                node.migrating.pop(slot, None)
                node.importing.pop(slot, None)
            case steps.Leave():
                # A replica may have a copy of what its primary has given away; a primary has nothing.
                copied = node.role is Role.REPLICA and node.data <= self._held(without=node)
                _ensure(not node.slots and (not node.data or copied), "only an empty node leaves")
                knowing = [n for n in self._alive() if node.node_id in n.known and n.member not in self.spec.leaving]
                _ensure(not any(n.known[node.node_id].slots for n in knowing), "nobody sends clients to who leaves")
                _ensure(not any(n.primary_id == node.node_id for n in knowing), "nobody follows who leaves")
                self.fresh(node.member)
            case steps.StartAnew():
                _ensure(not node.slots and not node.data, "only an empty node starts anew")
                self.fresh(node.member)
            case steps.SetNodeTimeout():
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
        gone = self.nodes[node_id]
        _ensure(not gone.alive, "nobody forgets a node that lives")
        for heir in self._alive():
            owner_elsewhere = not gone.slots.bits & ~self._owned().bits
            awaits = heir.primary_id == node_id and heir.data and not owner_elsewhere
            _ensure(not awaits, "no forgetting while a replica awaits promotion")
        node.known.pop(node_id, None)
        node.banned.add(node_id)

    # --- what servers do by themselves -------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let gossip, elections, demotions and copies come to their end; whom some ban comes and goes."""
        self._back = not self._back
        if self._back:
            self._come_back()
        for node in self._alive():
            self._end_jobs(node, JobState.FAILED if self.fails() else JobState.DONE)
        before = None
        while before != (before := self._signature()):
            self._gossip()
            self._notice_the_dead()
            for node in self._alive():
                former = self.nodes.get(node.primary_id)
                if node.role is Role.REPLICA and former is not None and not former.alive and node.data:
                    self._elect(node)
            self._copy()
        if not self._back:
            self._forget_the_banned()

    def _come_back(self) -> None:
        """A node introduces itself to whom it knows and who doesn't know it, banned or not."""
        for node in self._alive():
            for other in self._alive():
                if other.node_id in node.known and node.node_id in other.banned:
                    self._hear(other, node)

    def _forget_the_banned(self) -> None:
        """Pings have all others forget whom one bans, with the slots that they believe to be its."""
        banned = frozenset[str]().union(*(node.banned for node in self._alive()))
        for node in self._alive():
            for node_id in banned & node.known.keys():
                del node.known[node_id]
                node.banned.add(node_id)

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
                if node.node_id in other.banned and node.node_id not in other.known:
                    continue  # What a node tells that it has forgotten it doesn't listen to.
                self._hear(node, other)
                self._hear(other, node)

    def _hear(self, node: Node, other: Node) -> None:
        """`node` hears from `other`; of what both claim, the newer epoch has it."""
        if node is other:
            return
        older = (node.epoch, node.node_id) < (other.epoch, other.node_id)
        if node.role is other.role is Role.PRIMARY and node.slots.bits & other.slots.bits and older:
            self._lose(node, other.slots)
            if not node.slots and node.member.shard == other.member.shard:
                node.role, node.primary_id, node.linked = Role.REPLICA, other.node_id, False
        node.known = {
            i: replace(peer, slots=peer.slots - other.slots) if peer.config_epoch <= other.epoch else peer
            for i, peer in node.known.items()
        }
        node.known[other.node_id] = self._peer(other)

    def _lose(self, node: Node, slots: SlotSet) -> None:
        """A server deletes the keys of slots that turn out to be another's."""
        keys = {item for item in node.data if item[0] in (node.slots & slots)}
        _ensure(keys <= self._held(without=node), "who loses slots to a newer epoch loses their keys")
        node.slots -= slots
        node.data -= keys
        node.migrating = {slot: to for slot, to in node.migrating.items() if slot not in slots}

    def _ensure_nobody_bans(self, node: Node) -> None:
        _ensure(not any(node.node_id in other.banned for other in self._alive()), "nobody bans who takes slots")

    def _begin(self, giver: Node, taker: Node, slots: SlotSet) -> None:
        self._ensure_nobody_bans(taker)
        _ensure(self.method_since_9, "the server knows the command")
        _ensure(slots.issubset(giver.slots) and taker.node_id in giver.known, "it gives what it owns to whom it knows")
        _ensure(taker.alive and taker.role is Role.PRIMARY, "slots go to a primary that lives")
        _ensure(not giver.migrating and not taker.importing, "the server refuses while slots are open")
        _ensure(not any(job.slots & slots for job in giver.jobs if job.state is JobState.RUNNING), "not twice")
        giver.jobs.append(
            Job(str(next(self._ids)), gives=True, other_id=taker.node_id, slots=slots, state=JobState.RUNNING)
        )

    def _end_jobs(self, giver: Node, state: JobState) -> None:
        for number, job in enumerate(giver.jobs):
            if job.state is not JobState.RUNNING:
                continue
            taker = self.nodes[job.other_id]
            possible = taker.alive and taker.role is giver.role is Role.PRIMARY and job.slots.issubset(giver.slots)
            state = state if possible else JobState.FAILED
            giver.jobs[number] = replace(job, state=state, message="" if state is JobState.DONE else "it broke off")
            if state is JobState.DONE:
                taker.data |= {item for item in giver.data if item[0] in job.slots}
                self._hand_over(giver, taker, job.slots)

    def _send(self, giver: Node, step: steps.MoveKeys) -> None:
        """As far as the phases go; the next step goes on from there."""
        taker, slots, phases = self.nodes[step.to_id], step.slots, self.phases()
        self._ensure_nobody_bans(taker)
        _ensure(slots.issubset(giver.slots) and taker.node_id in giver.known, "it gives what it owns to whom it knows")
        _ensure(taker.alive and taker.role is Role.PRIMARY, "slots go to a primary that lives")
        new = slots - step.begun
        _ensure(not any(slot in new for slot, _ in taker.data), "the taker has nothing of a slot that is new")
        keys = sorted(item for item in giver.data if item[0] in slots)
        if phases >= 1:
            taker.importing |= dict.fromkeys(slots, giver.node_id)
        if phases >= 2:
            giver.migrating |= dict.fromkeys(slots, taker.node_id)
        if phases >= 3:
            sent = keys if phases >= 4 else keys[: len(keys) // 2]
            taker.data |= set(sent)
            giver.data -= set(sent)
        if phases >= 5:
            self._hand_over(giver, taker, slots, giver_knows=phases >= 6)

    def _hand_over(self, giver: Node, taker: Node, slots: SlotSet, *, giver_knows: bool = True) -> None:
        self.moved += len(slots)
        taker.slots |= slots
        taker.epoch = 1 + max(node.epoch for node in self.nodes.values())
        taker.importing = {slot: who for slot, who in taker.importing.items() if slot not in slots}
        taker.known = {i: replace(peer, slots=peer.slots - slots) for i, peer in taker.known.items()}
        if giver_knows:
            self._lose(giver, slots)
            self._hear(giver, taker)

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
        self._inherit(heir, former)
        for node in reach:
            self._hear(node, heir)

    def _inherit(self, heir: Node, former: Node) -> None:
        """Open slots stay open: a replica has them too, and the other end hears of the failover."""
        heir.migrating, heir.importing = dict(former.migrating), dict(former.importing)
        for node in self._alive():
            node.importing = {s: heir.node_id if i == former.node_id else i for s, i in node.importing.items()}
            node.migrating = {s: heir.node_id if i == former.node_id else i for s, i in node.migrating.items()}

    def _take_over(self, heir: Node) -> None:
        """Without a vote: only as declared, only from a primary that is gone, only the best copy."""
        _ensure(self.spec.takeover_after_s is not None, "nobody takes over without a vote unless that is declared")
        former = self.nodes[heir.primary_id]
        _ensure(heir.role is Role.REPLICA and not former.alive, "nobody takes over from a primary that lives")
        others = [n for n in self._alive() if n.primary_id == heir.primary_id]
        _ensure(all(n.data <= heir.data for n in others), "the best copy takes over")
        heir.slots, heir.role, heir.primary_id = former.slots - self._owned(), Role.PRIMARY, ""
        heir.epoch = 1 + max(node.epoch for node in self.nodes.values())

    def _take_role(self, heir: Node, primary: Node) -> None:
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

    def check_served(self) -> None:
        """Everything is with the primary that owns its slot."""
        for item in self.data:
            owners = [n for n in self._alive() if n.role is Role.PRIMARY and item[0] in n.slots]
            _ensure(len(owners) == 1 and item in owners[0].data, "a key isn't where its slot is")

    def layout(self) -> dict[int, SlotSet]:
        """The slots that each shard's servers own."""
        layout = dict.fromkeys(range(self.spec.span), EMPTY)
        for node in self._alive():
            layout[node.member.shard] |= node.slots
        return layout

    def _jobs(self) -> list[Job]:
        return [job for node in self._alive() for job in node.jobs]

    def _alive(self) -> list[Node]:
        return [self.nodes[node_id] for node_id in self.here.values()]

    def _owned(self) -> SlotSet:
        owned = EMPTY
        for node in self._alive():
            owned |= node.slots
        return owned

    def _held(self, *, without: Node | None = None) -> set[Item]:
        held: Iterable[frozenset[Item]] = (node.data for node in self._alive() if node is not without)
        return set().union(*held)


def _link(node: Node) -> ReplicaLink:
    was_up = node.linked or bool(node.data)
    return ReplicaLink(up=node.linked, syncing=False, was_up=was_up)


def _ensure(good: object, promise: str) -> None:
    if not good:
        raise Unsafe(promise)
