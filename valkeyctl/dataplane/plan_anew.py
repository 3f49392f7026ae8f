"""Give empty members that are to take their first slots a new id, where the one that they have may be banned.

A server that forgets a node bans it for a minute, and its pings tell all others to forget it too: whoever hears that
drops the node and every slot that it believes to be the node's. A member under such an id can't be told from any other
(see `freshness`): it introduces itself again and again, and is known to all until the next ping. Given slots in that
moment, it would lose them in the tables of others, and nobody would serve them. Who is empty loses nothing with its id,
so it gets another one rather than the benefit of the doubt.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.plan_slots import assignable
from valkeyctl.dataplane.shards import Shard
from valkeyctl.dataplane.slots import union
from valkeyctl.dataplane.steps import StartAnew
from valkeyctl.dataplane.view import NodeView


def start_anew(k: Knowledge, shards: Sequence[Shard], found: Findings) -> Set[Member]:
    """Have members start anew that are to take their first slots under an id that was known before this run saw it.

    Returns them: nobody gives them anything, or introduces them, before.
    """
    primaries = ((shard, shard.primary) for shard in shards if shard.primary is not None)
    anew = {node.member for shard, node in primaries if _may_be_banned(k, node) and _takes_slots(k, shards, shard)}
    for member in sorted(anew):
        found.do(StartAnew(member))
    return anew


def _takes_slots(k: Knowledge, shards: Sequence[Shard], shard: Shard) -> bool:
    """Whether it is to be given slots, be they free or another's."""
    from_others = k.spec.may_move and not k.disputes and k.target[shard.index] & union(k.owned.values())
    return bool(from_others or assignable(k, shards, shard))


def _may_be_banned(k: Knowledge, node: NodeView) -> bool:
    """Whether it is empty, to everybody and with all its replicas, and others knew its id before this run did."""
    if node.fresh or not node.is_empty:
        return False
    if any(other.primary_id == node.node_id and other.keys for other in k.nodes.values()):
        return False
    told = [peer for other in k.nodes.values() if (peer := other.peers.get(node.node_id)) is not None]
    return bool(told or node.peers) and not any(peer.slots for peer in told)
