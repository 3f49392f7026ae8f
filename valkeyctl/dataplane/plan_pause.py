"""Planners for what is waited for before members stop all at once: nothing is done by them, and nothing healed.

Every member that stops may be the one whose disk is needed later, so all of a shard are to have the same data.
"""

from __future__ import annotations

from collections.abc import Collection

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member, Spec
from valkeyctl.dataplane.plan import Done, Plan, Steps
from valkeyctl.dataplane.plan_handover import owner_of
from valkeyctl.dataplane.plan_replicas import in_sync, lag_bytes
from valkeyctl.dataplane.shards import decide_shards
from valkeyctl.dataplane.view import NodeView, View


def plan_pause(spec: Spec, view: View, *, members: Collection[Member], exactly: bool = False) -> Plan:
    """What is still to be waited for before `members` may stop: that each shard's primary answers, and that all others
    are in sync with it. Pure.

    `exactly`: to the last byte, which comes about only while no writes do. Of shards that have no member among them
    nothing is asked: they have stopped before.
    """
    owners, found = _owners(spec, view), Findings()
    for member in sorted(members):
        owner = owners.get(member.shard)
        if owner is None:
            found.wait(Member(member.shard, 0), f"shard {member.shard} has one primary that answers")
        elif member != owner.member and not _has_all(view.nodes.get(member), owner, exactly=exactly):
            found.wait(member, f"it has all that {owner.member}, its primary, has")
    waits = tuple(dict.fromkeys(found.waits))
    return Steps(waits) if waits else Done()


def serving_primaries(spec: Spec, view: View) -> tuple[Member, ...]:
    """The primaries that answer, one a shard; shards in which that isn't settled have none."""
    return tuple(sorted(owner.member for owner in _owners(spec, view).values()))


def in_sync_with_primary(spec: Spec, view: View) -> frozenset[Member]:
    """All members that have what their shard's primary has, or are it, as far as a look can tell under load."""
    owners = _owners(spec, view)
    return frozenset(
        member
        for member, node in view.nodes.items()
        if (owner := owners.get(member.shard)) is not None and (node is owner or in_sync(node, owner))
    )


def _owners(spec: Spec, view: View) -> dict[int, NodeView]:
    k = Knowledge(spec, view)
    found = {shard.index: owner_of(k, shard) for shard in decide_shards(k)}
    return {index: owner for index, owner in found.items() if owner is not None}


def _has_all(node: NodeView | None, owner: NodeView, *, exactly: bool) -> bool:
    if node is None or not in_sync(node, owner):
        return False
    return not exactly or lag_bytes(node, owner) == 0
