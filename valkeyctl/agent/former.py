"""Is what a stopped server left on a disk that of a former member, which the others went on without?

A shard that leaves may leave a disk behind on which it says otherwise: of a member that was out of reach then. If that
disk is kept and comes back with the shard, its server would be a node of old, with data of old, that nobody has a use
for. So it is set aside, and the member starts as a new node. ADR 0050 tells why it is judged so. Everything here is
pure.
"""

from __future__ import annotations

from enum import Enum

from valkeyctl.agent.guard import Told
from valkeyctl.agent.tale import Server, Tale
from valkeyctl.dataplane.slots import SlotSet, union
from valkeyctl.dataplane.view import Role


class Standing(Enum):
    """What a member that is down is to those who run."""

    MEMBER = "it is one of them, or they all come back together"
    FORMER = "they serve all slots, its shard none of them, and nobody knows it"
    UNSURE = "not enough of them were heard"


def knows_other_shards(me: Tale) -> bool:
    """Whether there is anybody who could have gone on without this member's shard."""
    return bool(me.node_id) and any(one.member is not None and one.member.shard != me.member.shard for one in me.owners)


def standing(me: Tale, told: Told) -> Standing:
    """What the member of `me`, whose server is down, is to those that have `told` of themselves.

    Only who runs can say that it was forgotten: a table on a disk is as old as its own. Who knows it says so at once;
    who couldn't be asked has not said that it doesn't.
    Where its shard serves any slot, it has a primary there to follow, and needs no new start.
    """
    if not knows_other_shards(me):
        return Standing.MEMBER
    running = [tale for tale in told.values() if tale.server is Server.UP]
    if any(tale.knows_asker for tale in running):
        return Standing.MEMBER
    serving = [tale for tale in running if tale.role is Role.PRIMARY and tale.slots]
    if any(tale.member.shard == me.member.shard for tale in serving):
        return Standing.MEMBER
    nobody_knows = all(tale.knows_asker is False for tale in running)
    if nobody_knows and union(tale.slots for tale in serving) == SlotSet.all():
        return Standing.FORMER
    if not running and any(tale.member.shard != me.member.shard for tale in told.values()):
        return Standing.MEMBER
    return Standing.UNSURE
