"""Planners for roles alone: whoever uses them heals nothing else meanwhile."""

from __future__ import annotations

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member, Spec
from valkeyctl.dataplane.plan import Done, Plan, Steps
from valkeyctl.dataplane.plan_handover import can_hand_over, hand_over, owner_of
from valkeyctl.dataplane.plan_introduce import remind_of_slots
from valkeyctl.dataplane.plan_replicas import in_sync, lag_bytes
from valkeyctl.dataplane.shards import Shard, decide_shards
from valkeyctl.dataplane.steps import HandOver
from valkeyctl.dataplane.view import NodeView, View


def plan_roles(spec: Spec, view: View) -> Plan:
    """What to do next so that the members named in `spec.primaries` have the role, and every node knows it. Pure.

    The former primary need not be in sync again: the new one's version may be one that it can't follow.
    """
    k = Knowledge(spec, view)
    shards = decide_shards(k)
    found = Findings()
    hand_over(k, shards, found)
    for shard in shards:
        if shard.index in spec.primaries and owner_of(k, shard) is None:
            found.wait(Member(shard.index, 0), f"shard {shard.index} has one primary that answers")
    remind_of_slots(k, shards, found)
    steps = (*found.actions, *found.waits, *found.symptoms)
    return Steps(steps) if steps else Done()


def plan_retreat(spec: Spec, view: View, *, keep: int) -> Plan:
    """What to do next so that every primary is among the first `keep` members of its shard (report C7). Pure.

    `spec` has all members that there are now, those that are to go among them. A shard whose primary can't be told is
    waited for, since it may be one that goes.
    """
    k = Knowledge(spec, view)
    shards = decide_shards(k)
    found = Findings()
    for shard in shards:
        _retreat(k, shards, shard, keep, found)
    steps = (*found.actions, *found.waits)
    return Steps(steps) if steps else Done()


def leaving_primaries(spec: Spec, view: View, *, keep: int) -> tuple[NodeView, ...]:
    """The primaries among those that are to go."""
    k = Knowledge(spec, view)
    owners = (owner_of(k, shard) for shard in decide_shards(k))
    return tuple(owner for owner in owners if owner is not None and owner.member.ordinal >= keep)


def _retreat(k: Knowledge, shards: tuple[Shard, ...], shard: Shard, keep: int, found: Findings) -> None:
    primary = owner_of(k, shard)
    first = Member(shard.index, 0)
    if primary is None:
        found.wait(first, f"shard {shard.index} has one primary that answers: it may be a member that goes")
        return
    if primary.member.ordinal < keep:
        for node in shard.nodes:
            if node.member.ordinal >= keep and node.slots:
                found.wait(node.member, f"it hears that {primary.member} has taken over")
        return
    heirs = [node for node in shard.nodes if node.member.ordinal < keep and in_sync(node, primary)]
    best = min(heirs, key=lambda node: (lag_bytes(node, primary), node.member.ordinal), default=None)
    if best is None:
        found.wait(first, f"a member that stays is in sync with {primary.member}, the primary, which is to go")
    elif not found.actions and can_hand_over(k, shards, primary, best):
        found.do(HandOver(best.member, primary.member))
    else:
        found.wait(best.member, f"it can take the primary's role over from {primary.member}, which is to go")
