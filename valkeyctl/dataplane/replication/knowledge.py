"""What follows from one view, for all rules alike: who follows whom, whose data contains whose, who may have more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.replication.history import Lineage
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.view import ReplicationView, ServerView
from valkeyctl.dataplane.view import Absent, Role, Unreachable, Why

MOST_LAG_BYTES = 1 << 20
"""How far a replica may be behind and still count as in sync: what is in flight under load, no more."""
NEEDS_A_PERSON = frozenset({Why.AUTH_FAILED, Why.RIGHT_MISSING})
"""A refused login or a missing right goes away only by a person's hand."""
RESTART_S = 10
"""A replica whose link broke so short a time before its primary started again followed that to its end."""
ALIVE = NEEDS_A_PERSON | {Why.ERROR_REPLY}
"""A server that answers like this runs, and may be the primary."""


@dataclass(frozen=True)
class Knowledge:
    """A view with what follows from it. Everything is computed once, when first asked for."""

    spec: ReplicationSpec
    view: ReplicationView

    @cached_property
    def nodes(self) -> Mapping[Member, ServerView]:
        """The members that answered."""
        return self.view.nodes

    @cached_property
    def lineage(self) -> Lineage:
        """Which stream continues which."""
        return Lineage(node.history for node in self.nodes.values())

    @cached_property
    def claimants(self) -> Sequence[ServerView]:
        """The members that call themselves a primary."""
        return [node for node in self.nodes.values() if node.role is Role.PRIMARY]

    @cached_property
    def upstream_of(self) -> Mapping[Member, Member | None]:
        """Whom each replica follows, or tries to; None when that is none of ours."""
        return {m: self.view.member_at(n.upstream) for m, n in self.nodes.items() if n.role is Role.REPLICA}

    def above(self, member: Member) -> Sequence[Member]:
        """Whom a replica follows, and whom that one does, and so on."""
        chain: list[Member] = []
        above = self.upstream_of.get(member)
        while above is not None and above not in (member, *chain):
            chain.append(above)
            above = self.upstream_of.get(above)
        return chain

    def followers(self, member: Member, *, linked: bool = True) -> int:
        """How many others follow a member; with `linked` only those whose link to it stands."""
        return sum(
            1 for m, up in self.upstream_of.items() if up == member != m and (self.nodes[m].linked or not linked)
        )

    @cached_property
    def incumbent(self) -> Member | None:
        """Who was the primary last: as recorded, or else whom all replicas that name a member follow.

        So whoever starts a server that doesn't know whom to follow must have it follow nobody, and no member.
        """
        if self.spec.last_primary is not None:
            return Member(0, self.spec.last_primary)
        named = {up for member, up in self.upstream_of.items() if up is not None and up != member}
        return named.pop() if len(named) == 1 else None

    @cached_property
    def reached(self) -> frozenset[Member]:
        """The members that didn't answer us, and that others follow with their links up: they live, and may serve."""
        linked = {up for member, up in self.upstream_of.items() if up is not None and self.nodes[member].linked}
        return frozenset(linked & set(self.view.missing))

    @cached_property
    def seen_alive(self) -> frozenset[Member]:
        """The members that didn't answer us and are alive: others reach them, or they answered with an error."""
        return self.reached | {m for m, outcome in self.view.missing.items() if _answers(outcome)}

    @cached_property
    def may_hold_data(self) -> Sequence[Member]:
        """The members that didn't answer and may come back with data: a Pod without a volume that is gone doesn't."""
        return [
            member
            for member, outcome in self.view.missing.items()
            if self.spec.persistent or not isinstance(outcome, Absent)
        ]

    @cached_property
    def awaited(self) -> Sequence[Member]:
        """The members that haven't been missing for long enough to go on without them."""
        return [m for m, outcome in self.view.missing.items() if outcome.for_s < self.spec.patience_s]

    def is_outdone(self, primary: ServerView) -> bool:
        """Whether a primary that nobody has followed yet took nothing by itself, and a replica has more (report F4).

        That is one which started empty, or from an old disk. The replicas of other primaries don't count: which of
        several primaries stays is another question. Nor do its own: they were asked a moment later.
        """
        if primary.established:
            return False
        claiming = {node.member for node in self.claimants}
        return any(
            self.outdoes(other, primary)
            for other in self.nodes.values()
            if other.role is Role.REPLICA and not (other.linked and self.upstream_of[other.member] in claiming)
        )

    def outdoes(self, one: ServerView, other: ServerView) -> bool:
        """Whether `one` has all that `other` has and more; whatever there is is more than nothing."""
        if not other.has_data:
            return one.has_data
        return one.placed and other.placed and self.lineage.exceeds(one.history, other.history)

    def follows_by_name(self, replica: ServerView, primary: ServerView) -> bool:
        """Whether a replica follows a primary under the name that stays when its Pod gets another address."""
        return replica.upstream == name_of(primary)

    def has_own_log(self, node: ServerView) -> bool:
        """Whether a server is the former primary, come back with the log of all that it took.

        A server that loads a log knows its keys, and not its place in the stream.
        """
        from_a_log = node.has_log and node.keys > 0 and not node.placed
        return from_a_log and node.member == self.incumbent and not node.was_linked

    def followed_to_the_end(self, replica: ServerView, former: ServerView) -> bool:
        """Whether a replica that never stopped had its link until the former primary ended, who has started again."""
        cut_off_s = replica.cut_off_s
        return replica.placed and cut_off_s is not None and cut_off_s <= former.uptime_s + RESTART_S

    def in_sync(self, replica: ServerView, primary: ServerView) -> bool:
        """Whether a replica follows this primary, with its link up and its offset caught up."""
        if self.upstream_of.get(replica.member) != primary.member or not replica.linked:
            return False
        return primary.history.offset - replica.history.offset <= MOST_LAG_BYTES


def name_of(node: ServerView) -> Address:
    """How others are to know a server."""
    return Address(node.endpoint.host, node.endpoint.port)


def _answers(outcome: Unreachable | Absent) -> bool:
    return isinstance(outcome, Unreachable) and outcome.why in ALIVE
