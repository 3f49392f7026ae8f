"""Slots that were left open between two nodes: finish what has begun, return to stable what has not (reports C4, C18).

A slot is open when its owner lets keys go to another node one by one. A key is then on either side, and clients find it
by following redirections. Going on to the end is what never loses one: the owner gives the slot over only when it holds
no key of it. Closing is right only as long as the other side holds none, and the owner's end comes first: from then on
nobody is sent to the other side, so that what is counted there is final.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.ghosts import Kind
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.plan_hearing import all_is_heard
from valkeyctl.dataplane.rounds import Blocked
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.slots import SlotSet
from valkeyctl.dataplane.steps import CloseSlot, MoveKeys, counted
from valkeyctl.dataplane.view import NodeView, Role


def close_open_slots(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Bring every open slot to an end, on every node, replicas too.

    One that is on its way to where it is to be is left to the rule that moves slots, if that may.
    """
    openers: dict[int, list[NodeView]] = {}
    for node in k.view.nodes.values():
        for slot in (*node.migrating, *node.importing):
            openers.setdefault(slot, []).append(node)
    finish: dict[tuple[Member, Member], list[int]] = {}
    for slot in sorted(openers):
        to = _end(k, shards, slot, openers[slot], found)
        if to is not None:
            finish.setdefault(to, []).append(slot)
    roles = Roles.of(k, found)
    for (owner, to), slots in finish.items():
        one, other, these = k.nodes[owner], k.nodes[to], SlotSet.of(slots)
        if not all_is_heard(k, one, other, these, found):
            continue
        if not knows_its_slots(k, other) or not roles.allow(one, other, len(finish)):
            found.symptom(owner, f"it has its turn to finish {counted(these)}, which are open")
            continue
        pipeline = k.spec.migration.pipeline
        found.do(MoveKeys(owner, one.node_id, to, other.node_id, these, begun=these, pipeline=pipeline))


@dataclass
class Roles:
    """Who gives slots away and who takes some: nobody does both at a time."""

    givers: set[Member]
    takers: set[Member]

    @classmethod
    def of(cls, k: Knowledge, found: Findings) -> Roles:
        """As servers are at it by themselves, and as this plan has it so far."""
        roles = cls(set(), set())
        for node in k.view.nodes.values():
            for job in node.running_jobs:
                roles.givers.add(node.member)
                roles.takers |= {member for member in (k.view.member_of_id.get(job.other_id),) if member is not None}
        for step in found.actions:
            if isinstance(step, MoveKeys):
                roles.givers.add(step.member)
                roles.takers.add(step.to)
        return roles

    def allow(self, giver: NodeView, taker: NodeView, most_givers: int) -> bool:
        """Whether these two may do so now, beside the others; remembers it if so."""
        if giver.member in self.takers or taker.member in self.givers:
            return False
        if giver.member not in self.givers and len(self.givers) >= most_givers:
            return False
        self.givers.add(giver.member)
        self.takers.add(taker.member)
        return True


def one_database_only(ends: Iterable[NodeView]) -> Blocked | None:
    """Why slots can't be moved between these nodes key by key, nor their end be told; None where nothing is in the way.

    Servers count and list the keys of a slot in one database, and send them from that one. But a slot changes hands in
    all of them: its former owner then deletes what it still has.
    """
    holders = tuple(sorted(node.member for node in ends if node.other_databases))
    if not holders:
        return None
    return Blocked(
        f"{', '.join(map(str, holders))} {'holds' if len(holders) == 1 else 'hold'} keys in other databases than 0, "
        "which can't be moved key by key: they would be lost",
        "Have the servers move the slots (Valkey 9.0, `migration: {method: auto}`, no slot left open by hand), or "
        "empty these databases (SELECT, FLUSHDB).",
        holders,
    )


def knows_its_slots(k: Knowledge, node: NodeView) -> bool:
    """Whether a node claims nothing that is another's already."""
    return node.slots.bits == k.owned.get(node.member, SlotSet()).bits


def on_the_way(k: Knowledge, owner: NodeView, to: NodeView) -> SlotSet:
    """The slots that are open from `owner` to `to`."""
    return SlotSet.of(
        slot
        for slot in {*owner.migrating, *to.importing}
        if owner.migrating.get(slot) == to.node_id or to.importing.get(slot) == owner.node_id
    ) & k.owned.get(owner.member, SlotSet())


def _end(
    k: Knowledge, shards: Sequence[Shard], slot: int, openers: Sequence[NodeView], found: Findings
) -> tuple[Member, Member] | None:
    """Find how one open slot ends. Returns from whom to whom it is to be finished, where that is it."""
    owner = next((k.nodes[member] for member, slots in k.owned.items() if slot in slots), None)
    others = {other for node in openers for other in (node.migrating.get(slot), node.importing.get(slot)) if other}
    away = [k.ghost_of_id[i] for i in sorted(others) if i in k.ghost_of_id and k.ghost_of_id[i].kind is Kind.AWAY]
    first = min(node.member for node in openers)
    if owner is None or away:
        found.wait(first, f"{away[0] if away else 'an owner'} answers: slot {slot} is open")
        return None
    strays = [
        node
        for node in k.view.nodes.values()
        if node is not owner and node.role is Role.PRIMARY and node.open_slot_keys.get(slot, 0)
    ]
    partner = _partner(k, slot, owner, openers, strays)
    ends = others | {node.node_id for node in openers}
    hinders = one_database_only(
        node for node in k.nodes.values() if (strays if node is owner else node.node_id in ends)
    )
    if hinders is not None:
        found.problems.append(hinders)
        return None
    # Where the owner's keys can't go key by key, and none has gone, servers move the slot once it is closed.
    goes_home = partner is not None and _goes_home(k, shards, slot, partner) and not owner.other_databases
    if partner is not None and (strays or goes_home):
        # With leave to move, and on the way home, it is one of the slots that are moved anyway.
        return None if k.spec.may_move and goes_home else (owner.member, partner.member)
    if strays:
        names = ", ".join(str(node.member) for node in strays)
        found.refuse(
            f"slot {slot} is half moved: {owner.member} owns it and {names} holds keys of it",
            "See whether these keys are wanted; if not, delete them there (CLUSTER GETKEYSINSLOT, DEL).",
            owner.member,
            *(node.member for node in strays),
        )
        return None
    unaware = next((node for node in openers if node is not owner and slot in node.slots), None)
    if unaware is not None:
        # It has given the slot away and doesn't know yet that it is taken. Open, it sends whoever writes to the new
        # owner; closed, it would take the write, and lose it.
        found.symptom(unaware.member, f"it hears that {owner.member} owns slot {slot}")
        return None
    closers = {_where_to_close(k.view.member_of_id, node) for node in openers}
    if slot in owner.migrating:
        closers = {owner.member}
    for member in sorted(closers):
        found.do(CloseSlot(member, slot))
    return None


def _partner(
    k: Knowledge, slot: int, owner: NodeView, openers: Sequence[NodeView], strays: Sequence[NodeView]
) -> NodeView | None:
    """The one node at the other end of an open slot, where there is just one, a primary that answers."""
    told = owner.migrating.get(slot)
    ends = {node.node_id for node in openers if node is not owner and slot in node.importing}
    if told is not None:
        ends = {told}
    candidates = [k.nodes[k.view.member_of_id[i]] for i in ends if k.view.member_of_id.get(i) in k.nodes]
    if len(candidates) != 1 or candidates[0].role is not Role.PRIMARY or candidates[0] is owner:
        return None
    return None if any(node is not candidates[0] for node in strays) else candidates[0]


def _goes_home(k: Knowledge, shards: Sequence[Shard], slot: int, partner: NodeView) -> bool:
    home = k.home[slot]
    return any(shard.index == home and shard.primary is partner for shard in shards)


def _where_to_close(member_of_id: Mapping[str, Member], node: NodeView) -> Member:
    """A replica refuses to close a slot itself, and does so when its primary is told to, open there or not."""
    return member_of_id.get(node.primary_id, node.member)
