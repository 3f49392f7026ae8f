"""Move the primary's role within a shard, as planned: a handover, never a takeover.

The server does it without losing an acknowledged write, and without a pause that clients notice, as long as the
replica is in sync and a majority of the primaries agrees. So it is asked for in no other state, and for one shard at a
time: two elections at once may need a second try, for which both primaries would have to stand still.
"""

from __future__ import annotations

from collections.abc import Sequence

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.plan_introduce import knows
from valkeyctl.dataplane.plan_replicas import in_sync
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.steps import HandOver
from valkeyctl.dataplane.view import NodeView


def hand_over(k: Knowledge, shards: Sequence[Shard], found: Findings) -> None:
    """Hand the primary's role to the members that are declared to have it."""
    busy = bool(found.actions)
    for shard in shards:
        ordinal, primary = k.spec.primaries.get(shard.index), owner_of(k, shard)
        if ordinal is None or primary is None or primary.member.ordinal == ordinal:
            continue
        wanted = Member(shard.index, ordinal)
        heir = k.nodes.get(wanted)
        if not busy and heir is not None and can_hand_over(k, shards, primary, heir):
            found.do(HandOver(wanted, primary.member))
            busy = True
        else:
            found.symptom(wanted, f"it can take the primary's role over from {primary.member}")


def owner_of(k: Knowledge, shard: Shard) -> NodeView | None:
    """A shard's primary that owns slots and is the only one that does; None while that isn't settled."""
    owners = [node for node in shard.nodes if node.member in k.owned]
    return owners[0] if len(owners) == 1 and shard.primary is owners[0] else None


def can_hand_over(k: Knowledge, shards: Sequence[Shard], primary: NodeView, heir: NodeView) -> bool:
    """Whether a handover from `primary` to `heir` will go through now, and disturbs nothing that is under way.

    Not while somebody else is about to be elected anywhere (a voter has one vote in an epoch), nor while keys of the
    shard are on their way, nor before the voters know the heir.
    """
    if any(shard.heirs for shard in shards) or not k.majority_heard:
        return False
    if not in_sync(heir, primary) or not (knows(heir, primary) and knows(primary, heir)):
        return False
    if primary.is_moving_slots or any(node.migrating or node.importing for node in (primary, heir)):
        return False
    voters = [k.nodes[member] for member in k.owned]
    ready = sum(1 for voter in voters if knows(voter, heir) and knows(heir, voter))
    return ready > len(k.elector_ids) // 2
