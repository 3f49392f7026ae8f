"""Who owns which slots: settle double claims, give away what nobody owns; never move keys."""

from __future__ import annotations

from collections.abc import Container, Sequence, Set

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.slots import EMPTY, SlotSet, union
from valkeyctl.dataplane.steps import AssignSlots, DropSlots, SetEpoch
from valkeyctl.dataplane.view import NodeView


def settle_claims(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Let one of two owners go where that loses nothing: the one without any key."""
    for one, other, slots in k.disputes:
        if one.keys and other.keys:
            found.refuse(
                f"{one.member} and {other.member} don't know each other, both claim slots {slots}, and both hold keys",
                "Look at both, and empty the one (FLUSHALL) whose keys aren't wanted.",
                one.member,
                other.member,
            )
        else:
            loser = min(one, other, key=lambda n: (n.keys, k.target[n.member.shard] & slots == slots, n.config_epoch))
            found.do(DropSlots(loser.member, slots))
    for shard in shards:
        for node in shard.nodes:
            if shard.primary is None or node is shard.primary or node.member not in k.owned:
                continue
            # Where both hold keys, those of the one move to the other like any others.
            if not node.keys and not node.running_jobs and not k.disputes:
                found.do(DropSlots(node.member, k.owned[node.member]))


def assignable(k: Knowledge, shards: Sequence[Shard], shard: Shard) -> SlotSet:
    """The planned slots that nobody owns and that a shard's primary is to be given now."""
    if _all_disks_are_empty(k) or k.must_wait_for:
        return EMPTY
    return k.target[shard.index] & _ownerless(k, shards)


def assign_slots(k: Knowledge, shards: Sequence[Shard], found: Findings, *, apart: Set[Member]) -> None:
    """Give each shard's primary the planned slots that nobody owns, if it isn't `apart`.

    Never slots that a member which hasn't answered may own, nor those of a lost owner while somebody may take over from
    it, or without consent where keys may be gone for good.
    """
    if _all_disks_are_empty(k):
        _refuse_to_form_on_empty_disks(k, found)
        return
    to_give = _ownerless(k, shards)
    epoch = k.newest_epoch
    for shard in shards:
        slots = k.target[shard.index] & to_give
        if shard.waits_for:
            found.wait(k.spec.shard_members(shard.index)[0], shard.waits_for)
        if shard.problem is not None:
            found.problems.append(shard.problem)
        if not slots or shard.primary is None:
            continue
        if k.must_wait_for:
            names = ", ".join(map(str, k.must_wait_for))
            found.wait(shard.primary.member, f"{names} answers: it may own slots {slots}")
            continue
        primary = shard.primary
        if primary.member in apart:
            continue
        if not primary.peers and primary.config_epoch == 0:
            epoch += 1
            found.do(SetEpoch(primary.member, epoch))
            found.do(AssignSlots(primary.member, slots))
        else:
            lost = bool(slots & union(k.lost.values()))
            _assign_in_a_cluster(primary, slots, k.view.member_of_id, found, lost=lost)


def _ownerless(k: Knowledge, shards: Sequence[Shard]) -> SlotSet:
    given_up = frozenset[str]().union(*(shard.given_up for shard in shards))
    return k.free | union(k.lost[node_id] for node_id in given_up)


def _all_disks_are_empty(k: Knowledge) -> bool:
    return k.spec.formed and k.spec.persistent and not k.spec.accept_data_loss and k.empty_throughout


def _refuse_to_form_on_empty_disks(k: Knowledge, found: Findings) -> None:
    """Volumes outlive Pods: where every one is empty, something has happened to them that a person should know of."""
    if k.view.missing:
        for member in k.view.missing:
            found.wait(member, "it answers: every other member's disk came back empty")
        return
    found.refuse(
        "the instance has been Ready before, and every disk came back empty: all its data is gone",
        "Bring its volumes back, or set `allowDataLoss: true` for the instance: then it is formed anew, empty.",
    )


def _assign_in_a_cluster(
    primary: NodeView, slots: SlotSet, owners: Container[str], found: Findings, *, lost: bool
) -> None:
    """Assign what the primary itself believes to be free; first let it drop beliefs that are out of date."""
    stale = {node_id: peer.slots & slots for node_id, peer in primary.peers.items() if peer.slots.bits & slots.bits}
    outdated = union(believed for node_id, believed in stale.items() if node_id in owners)
    if outdated:
        found.do(DropSlots(primary.member, outdated))
    ready = slots - union(stale.values())
    if ready:
        found.do(AssignSlots(primary.member, ready, raise_epoch=True, lost=lost))
    if stale:
        found.symptom(primary.member, f"it forgets the former owner of slots {union(stale.values())}")
