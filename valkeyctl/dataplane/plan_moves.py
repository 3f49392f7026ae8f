"""Move slots between shards that are alive: the fewest, straight to where they are to be, from all that give at once.

Slots go only to a primary that serves, whom everybody knows, and that has a copy of what it gets as soon as its shard
is to have one. So a shard that is new is made whole first, and one that is leaving gives all it has before it goes.

Nobody gives and takes at the same time. Who takes slots raises its epoch, and with it outweighs every older claim: if
it had given slots away just before and hadn't heard yet that they are taken, it would have them back, without their
keys.

What a server has begun by itself is never cancelled, also where it isn't wanted any more: it is let end, and its slots
come back. A cancel that arrives while the slots change hands lets the giver go on to take writes that are then lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan_hearing import all_is_heard
from valkeyctl.dataplane.plan_introduce import knows
from valkeyctl.dataplane.plan_open import Roles, knows_its_slots, on_the_way, one_database_only
from valkeyctl.dataplane.plan_replicas import in_sync
from valkeyctl.dataplane.rounds import Blocked
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.slots import SlotSet, union
from valkeyctl.dataplane.steps import Action, MigrateSlots, MoveKeys, counted
from valkeyctl.dataplane.view import NodeView

MOST_KEYS_AT_ONCE = 500_000
"""How many keys a server is asked to move in one piece: what fails is begun again from its start, and between two
pieces the progress is seen.
"""
MOST_OPEN, FEWEST_OPEN = 256, 8
"""How many slots one primary has open at a time, where keys are sent in batches."""
MOST_OPEN_KEYS = 20_000
"""So many keys they hold, about: a slot is open no longer than it has to be."""


@dataclass(frozen=True)
class Transfer:
    """Slots that one primary is to give to another. `begun` are those on the way already."""

    giver: NodeView
    taker: NodeView
    slots: SlotSet
    begun: SlotSet


def move_slots(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Move what is with another living shard than it is to be, and wait for what servers move by themselves."""
    if k.disputes:
        return
    transfers = list(_transfers(k, shards))
    found.to_move = union(one.slots for one in transfers)
    for node in k.view.nodes.values():
        for job in node.running_jobs:
            found.wait(
                node.member, f"{counted(job.slots)} are moved to {k.view.member_of_id.get(job.other_id, 'a node')}"
            )
    if not k.spec.may_move:
        _leave_it(transfers, found)
        return
    roles = Roles.of(k, found)
    for one in sorted(transfers, key=lambda one: not one.begun):
        hindrance = _hindrance(k, shards, one)
        if hindrance:
            found.symptom(one.taker.member, hindrance)
            continue
        if not all_is_heard(k, one.giver, one.taker, one.slots, found):
            continue
        if not roles.allow(one.giver, one.taker, k.spec.migration.max_parallel):
            found.symptom(one.taker.member, f"{one.giver.member} has its turn to give it {len(one.slots)} slots")
            continue
        step = _step(k, one, found)
        if step is not None:
            found.do(step)


def _transfers(k: Knowledge, shards: Sequence[Shard]) -> Iterator[Transfer]:
    """Who gives what to whom. Slots whose shard has no primary to take them stay where they are for now."""
    takers = {shard.index: shard.primary for shard in shards if shard.primary is not None}
    for member in sorted(k.owned):
        giver = k.nodes[member]
        for shard, wanted in enumerate(k.target):
            slots, taker = k.owned[member] & wanted, takers.get(shard)
            if slots and taker is not None and taker is not giver:
                yield Transfer(giver, taker, slots, on_the_way(k, giver, taker) & slots)


def _leave_it(transfers: Sequence[Transfer], found: Findings) -> None:
    if not transfers:
        return
    told = ", ".join(f"{len(one.slots)} from {one.giver.member} to {one.taker.member}" for one in transfers[:4])
    more = f" and {len(transfers) - 4} more" if len(transfers) > 4 else ""
    found.refuse(
        f"{sum(len(one.slots) for one in transfers)} slots are with another shard than declared: {told}{more}",
        "The next `pulumi up` moves them.",
        *dict.fromkeys(one.giver.member for one in transfers),
    )


def _hindrance(k: Knowledge, shards: Sequence[Shard], one: Transfer) -> str:
    """What has to come about before a primary may be given slots; "" when nothing has to."""
    taker = one.taker
    if not all(knows(node, taker) and knows(taker, node) for node in k.nodes.values() if node is not taker):
        return f"all others know {taker.member} before it takes slots"
    if taker.is_empty and not taker.fresh:
        return "it takes its first slots under an id that nobody can have forgotten"
    if not knows_its_slots(k, taker):
        return f"{taker.member} hears which slots it has given away"
    if not taker.state_ok:
        return "it serves before it takes slots"
    shard = next(shard for shard in shards if shard.primary is taker)
    copies = [node for node in shard.nodes if node is not taker and in_sync(node, taker)]
    if k.spec.replicas and not copies:
        return "a replica is in sync with it before it takes slots"
    return ""


def _step(k: Knowledge, one: Transfer, found: Findings) -> Action | None:
    atomic = one.giver.moves_atomically and one.taker.moves_atomically
    method = k.spec.migration.method
    if method == "atomic" and not atomic:
        found.refuse(
            f"{one.giver.member} and {one.taker.member} can't move slots atomically: that takes Valkey 9.0, and they "
            f"run {one.giver.version} and {one.taker.version}",
            "Declare `migration: {method: auto}`, or upgrade first.",
            one.giver.member,
            one.taker.member,
        )
        return None
    if not atomic or method == "keys" or one.begun:
        if hinders := one_database_only((one.giver, one.taker)) or _cant_read(one):
            found.problems.append(hinders)
            return None
        return _by_keys(k, one, begun_alone=atomic and method != "keys")
    return _atomically(one, found)


def _cant_read(one: Transfer) -> Blocked | None:
    """Why a taker of an older line can't be sent a giver's keys: its servers don't know their format."""
    giver, taker = one.giver, one.taker
    if not giver.moves_atomically or taker.moves_atomically:
        return None
    return Blocked(
        f"{giver.member} runs Valkey {giver.version} and {taker.member} {taker.version}, which can't read keys "
        "of a newer server",
        "Declare the shards and slots as they were until an `up` has brought all members to the newer version; then "
        "change them.",
        (giver.member, taker.member),
    )


def _atomically(one: Transfer, found: Findings) -> Action | None:
    """The next piece, unless one is on its way. A server doesn't begin while slots are open in it, or to be closed."""
    giver, taker = one.giver, one.taker
    if any(job.other_id == taker.node_id for job in giver.running_jobs):
        return None
    if giver.migrating or taker.importing or giver.importing:
        found.symptom(giver.member, "its open slots are closed before it gives others away")
        return None
    most = max(1, _steady(MOST_KEYS_AT_ONCE * max(1, len(giver.slots)) // max(1, giver.keys)))
    slots = one.slots.lowest(most)
    return MigrateSlots(giver.member, taker.member, taker.node_id, slots, first=not taker.slots)


def _steady(count: int) -> int:
    """The power of two below it: while clients write, the same piece is asked for again and again, so that it can be
    counted how often it failed.
    """
    return 1 << (count.bit_length() - 1) if count else 0


def _by_keys(k: Knowledge, one: Transfer, *, begun_alone: bool) -> Action:
    """Some slots at a time, those first that are open already; no others where servers can do it by themselves."""
    giver, taker = one.giver, one.taker
    room = min(MOST_OPEN, max(FEWEST_OPEN, _steady(MOST_OPEN_KEYS * max(1, len(giver.slots)) // max(1, giver.keys))))
    more = 0 if begun_alone else room - len(one.begun)
    slots = one.begun | (one.slots - one.begun).lowest(more)
    return MoveKeys(
        giver.member,
        giver.node_id,
        taker.member,
        taker.node_id,
        slots,
        begun=one.begun,
        first=not taker.slots,
        pipeline=k.spec.migration.pipeline,
    )
