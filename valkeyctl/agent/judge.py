"""Is something off? Judged by what the own server tells alone, so that an agent at rest asks nobody else.

Pure. A judgement is only a suspicion: who acts on it looks at every member first, and does what the plan says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from valkeyctl.agent.environment import Environment
from valkeyctl.agent.state import ServerState
from valkeyctl.dataplane import wire
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.slots import SlotSet, union
from valkeyctl.dataplane.view import NodeView, Peer, Role

OFF_S = 1.0
"""So long something has to be off before anybody acts: what servers settle among themselves they settle sooner."""
TURN_S = 0.5
"""The members try one after the other, so that they don't all ask the API server at once."""
LATEST_TURN, ORDINAL_APART = 10, 4
"""For members that know nobody, as all do that came back without their disks: the turns of those far from the first."""
SHORTEST_S, LONGEST_S = 5.0, 60.0
"""How long a try that changed nothing is not repeated: it doubles from try to try, until the view changes."""


@dataclass(frozen=True)
class Judgement:
    """What the own server's view means.

    `troubles` say what is off, one line each, in words that stay the same as long as that does. `alive` are the members
    that seem alive, this one among them; `role` is the own server's. Nothing is known (and `role` None) while the own
    server doesn't tell.
    """

    troubles: tuple[str, ...] = ()
    alive: frozenset[Member] = frozenset()
    role: Role | None = None

    def rank(self, member: Member) -> int:
        """How many members that seem alive come before this one; where it knows nobody, by its own place alone."""
        if not self.alive - {member}:
            return min(LATEST_TURN, member.shard + ORDINAL_APART * member.ordinal)
        return sum(1 for other in self.alive if other < member)


def judge(environment: Environment, state: ServerState, declared: Collection[Member] = ()) -> Judgement:
    """What the last look at the own server means. `declared` are the instance's members, empty where not yet known."""
    if not state.serving:
        return Judgement()
    place = Endpoint(
        environment.member,
        environment.pod,
        environment.host,
        environment.address,
        environment.client_port,
        environment.bus_port,
    )
    try:
        me = wire.node_view(place, (state.nodes, state.cluster_info, state.info))
    except (wire.StillLoading, ValueError, LookupError):
        return Judgement()
    alive = {environment.member}
    for peer in me.peers.values():
        member = environment.member_named(peer.host)
        if member is not None and is_alive(peer):
            alive.add(member)
    return Judgement(tuple(find_troubles(me, environment.member_named, declared)), frozenset(alive), me.role)


def is_alive(peer: Peer) -> bool:
    """Whether the own server has an answer from a peer."""
    return peer.linked and not (peer.failed or peer.suspect or peer.handshake)


def find_troubles(me: NodeView, named: Callable[[str], Member | None], declared: Collection[Member]) -> Iterator[str]:
    """What is off in a server's view, one line each. `named` tells which member a host name is."""
    if not me.state_ok:
        yield "the cluster's state is not ok"
    missing = SlotSet.all() - union((me.slots, *(peer.slots for peer in me.peers.values())))
    if missing:
        yield f"slots {missing} have no owner"
    if me.migrating or me.importing:
        yield f"slots {', '.join(map(str, sorted({*me.migrating, *me.importing})))} are open"
    members = {peer.node_id: named(peer.host) for peer in me.peers.values()}
    for peer in sorted(me.peers.values(), key=lambda peer: (peer.host, peer.node_id)):
        yield from _of_peer(peer, members[peer.node_id])
    members[me.node_id] = me.member
    yield from _of_members([member for member in members.values() if member is not None], declared)
    yield from _of_roles(me, members)


def _of_peer(peer: Peer, member: Member | None) -> Iterator[str]:
    who = str(member or peer.host or f"node {peer.node_id[:8]}")
    if peer.handshake:
        yield "an introduction is under way"
    elif member is None:
        yield f"{who} is nobody of this instance"
    elif peer.failed:
        yield f"{who} has failed"
    elif peer.suspect or not peer.linked or not peer.address:
        yield f"{who} does not answer"


def _of_members(known: Collection[Member], declared: Collection[Member]) -> Iterator[str]:
    for member in sorted(set(known)):
        if sum(1 for other in known if other == member) > 1:
            yield f"{member} is known as two nodes"
        if declared and member not in declared:
            yield f"{member} is not declared"
    for member in sorted(set(declared) - set(known)):
        yield f"{member} is not known"


def _of_roles(me: NodeView, members: dict[str, Member | None]) -> Iterator[str]:
    if me.role is Role.REPLICA and (me.link is None or not me.link.up or me.link.syncing):
        yield "its link to its primary is not up"
    nodes = [(me.node_id, me.role, me.primary_id, me.slots)]
    nodes += [(p.node_id, p.role, p.primary_id, p.slots) for p in me.peers.values() if not p.handshake]
    owners: dict[int, Member] = {}
    for node_id, role, _, slots in nodes:
        member = members[node_id]
        if member is None or role is not Role.PRIMARY or not slots:
            continue
        if member.shard in owners:
            yield f"{min(owners[member.shard], member)} and {max(owners[member.shard], member)} both own slots"
        owners[member.shard] = member
    for node_id, role, primary_id, slots in nodes:
        member = members[node_id]
        if member is None or slots:
            continue
        upstream = members.get(primary_id)
        if role is Role.REPLICA and (upstream is None or upstream.shard != member.shard):
            yield f"{member} replicates {upstream or 'an unknown node'}"
        if role is Role.PRIMARY and member.shard in owners:
            yield f"{member} is a primary beside {owners[member.shard]}"


@dataclass
class Patience:
    """When to act on troubles: soon after they came, and ever less often while trying changes nothing.

    Troubles that were told and then went away by themselves are acted on once more: somebody has to tell that, too.
    """

    _troubles: tuple[str, ...] = ()
    _next: float = float("inf")
    _pause_s: float = SHORTEST_S
    _tried: float = float("-inf")
    fresh: bool = field(default=True)
    """Whether nothing has been tried yet since the view changed last."""
    _owes: bool = False

    def due(self, judgement: Judgement, member: Member, now: float) -> bool:
        """Whether to try now; to be asked at every look, with the monotonic clock's time.

        A look at which the own server didn't tell says nothing: what was off then counts as off still.
        """
        if judgement.role is None:
            return self._owes and now >= self._next
        if judgement.troubles != self._troubles:
            had_none, self._troubles = not self._troubles, judgement.troubles
            self._pause_s, self.fresh = SHORTEST_S, True
            turn = now + OFF_S + TURN_S * judgement.rank(member)
            # A view that keeps changing, as while others are at work, puts nothing off.
            self._next = (
                turn if had_none or not self._troubles else min(self._next, max(turn, self._tried + SHORTEST_S / 2))
            )
        return bool(self._troubles or self._owes) and now >= self._next

    def tried(self, now: float, *, well: bool) -> None:
        """Somebody has tried: wait before it is tried again. `well`: all was found, or left, as it should be."""
        self._owes = not well
        self._tried, self._next, self.fresh = now, now + self._pause_s, False
        self._pause_s = min(LONGEST_S, 2 * self._pause_s)

    def postpone(self, now: float, seconds: float) -> None:
        """Somebody is at it: look again after so long."""
        self._owes = True
        self._next = now + seconds
