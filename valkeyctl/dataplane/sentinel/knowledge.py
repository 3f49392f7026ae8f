"""What follows from what was seen: who is the primary, which Sentinels say so, and what they remember of the gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from valkeyctl.dataplane.model import Address, Endpoint, Member
from valkeyctl.dataplane.sentinel.model import Sentinel, SentinelSpec, majority
from valkeyctl.dataplane.sentinel.view import KnownReplica, Monitored, SentinelsView, SentinelView, ServerView
from valkeyctl.dataplane.view import Absent, Role


class Knowledge:
    """One observation, understood. Pure."""

    def __init__(self, spec: SentinelSpec, view: SentinelsView) -> None:
        self.spec = spec
        self.view = view

    @cached_property
    def declared(self) -> Mapping[Sentinel, SentinelView]:
        """The declared Sentinels that answered."""
        return {member: self.view.sentinels[member] for member in self.spec.declared if member in self.view.sentinels}

    @cached_property
    def watching(self) -> Mapping[Sentinel, Monitored]:
        """What those that know the name monitor under it."""
        return {member: told.monitored for member, told in self.declared.items() if told.monitored is not None}

    @property
    def servers(self) -> Mapping[Member, ServerView]:
        """The declared servers that answered."""
        return self.view.nodes

    @cached_property
    def failing_over(self) -> tuple[Member, ...]:
        """Who takes part in a failover or a handover now and says so: Sentinels (also leaving ones) and servers."""
        leaders = [m for m, told in self.view.sentinels.items() if told.monitored and told.monitored.failing_over]
        return (*leaders, *(member for member, server in self.servers.items() if server.failing_over))

    @property
    def most_answer(self) -> bool:
        """Whether a majority of the declared Sentinels answered."""
        return len(self.declared) >= majority(self.spec.sentinels)

    @cached_property
    def live(self) -> ServerView | None:
        """The server that is the primary; None while that isn't sure.

        A server's own word alone is never enough where the Sentinels name another one: it has to be named by the
        Sentinel that knows the newest configuration of all that agree with a server, or, where none does, be the only
        one that calls itself primary and be followed by a majority, with nobody silent who may be it.
        """
        primaries = [server for server in self.servers.values() if server.role is Role.PRIMARY]
        votes = Counter[tuple[int, Member]]()
        for told in self.watching.values():
            votes.update((told.config_epoch, server.member) for server in primaries if self.is_at(told.address, server))
        if votes:
            newest = max(epoch for epoch, _ in votes)
            ranked = Counter({member: count for (epoch, member), count in votes.items() if epoch == newest})
            (best, count), *others = ranked.most_common(2)
            if not others or others[0][1] < count:
                return self.servers[best]
            return next((self.servers[member] for member in ranked if member == self.spec.primary), None)
        return self._live_without_word(primaries)

    def _live_without_word(self, primaries: list[ServerView]) -> ServerView | None:
        # Who is monitored and silent may be the primary, or is being failed over: that is the Sentinels' to see.
        if any(self._is_silent(told.address) for told in self.watching.values()):
            return None
        if len(primaries) != 1:
            by_name = [server for server in primaries if server.member == self.spec.primary]
            return by_name[0] if by_name and not self.watching else None
        only = primaries[0]
        following = [s for s in self.servers.values() if s.primary is not None and self.is_at(s.primary, only)]
        followed = 1 + len(following) >= majority(len(self.spec.servers))
        return only if followed or only.member == self.spec.primary else None

    def _is_silent(self, address: Address) -> bool:
        """Whether an address is that of a declared server which doesn't answer."""
        return any(
            self.spec.is_at(address, member, self.endpoint(member))
            for member in self.spec.servers
            if member not in self.servers
        )

    def endpoint(self, member: Member) -> Endpoint | None:
        """Where a declared server is now; None without a Pod."""
        outcome = self.view.servers[member]
        return None if isinstance(outcome, Absent) else outcome.endpoint

    def is_at(self, address: Address, server: ServerView) -> bool:
        """Whether an address is that of a server."""
        return self.spec.is_at(address, server.member, server.endpoint)

    def member_at(self, address: Address) -> Member | None:
        """The declared server that has an address; None for a stranger's."""
        return next((m for m in self.spec.servers if self.spec.is_at(address, m, self.endpoint(m))), None)

    @cached_property
    def agreeing(self) -> tuple[Sentinel, ...]:
        """The Sentinels that monitor the primary."""
        live = self.live
        return tuple(m for m, told in self.watching.items() if live is not None and self.is_at(told.address, live))

    @cached_property
    def astray(self) -> tuple[Sentinel, ...]:
        """The Sentinels that monitor another server under the name."""
        return tuple(member for member in self.watching if member not in self.agreeing)

    @cached_property
    def misleading(self) -> tuple[Sentinel, ...]:
        """The Sentinels that are leaving and monitor another server than the primary, which they tell the others."""
        live, seen = self.live, self.view.sentinels
        told = {member: seen[member].monitored for member in self.spec.leaving if member in seen}
        return tuple(m for m, what in told.items() if live and what and not self.is_at(what.address, live))

    @cached_property
    def voters(self) -> int:
        """How many Sentinels can have a say about the primary now, those that are leaving among them."""
        live, told = self.live, [told.monitored for told in self.view.sentinels.values()]
        return sum(1 for monitored in told if live and monitored and self.is_at(monitored.address, live))

    @cached_property
    def unaware(self) -> tuple[Sentinel, ...]:
        """The Sentinels that don't know the name."""
        return tuple(member for member in self.declared if member not in self.watching)

    @cached_property
    def newest_epoch(self) -> int:
        """The newest configuration that a Sentinel has which monitors the primary."""
        return max((self.watching[member].config_epoch for member in self.agreeing), default=0)

    @cached_property
    def followers(self) -> tuple[ServerView, ...]:
        """The declared servers that follow the primary, in sync or not."""
        live = self.live
        return tuple(s for s in self.servers.values() if live and s.primary is not None and self.is_at(s.primary, live))

    def is_in_sync(self, server: ServerView) -> bool:
        """Whether a server follows the primary with its link up."""
        return server in self.followers and server.link is not None and server.link.up

    def replica_of(self, told: SentinelView, member: Member) -> KnownReplica | None:
        """A declared server as a Sentinel knows it as a replica; None where it doesn't."""
        endpoint = self.endpoint(member)
        known = [replica for replica in told.replicas if self.spec.is_at(replica.address, member, endpoint)]
        return next(iter(sorted(known, key=lambda replica: replica.down)), None)

    def lacks(self, member: Sentinel, those: Iterable[Sentinel] | None = None) -> tuple[str, ...]:
        """Whom a Sentinel that monitors the primary doesn't know or reach yet, of all that answer and should be known.

        With `those`: of these Sentinels alone.
        """
        told = self.declared[member]
        known = {other.sentinel_id for other in told.others if other.linked}
        expected = self.declared if those is None else those
        others = [m for m in expected if m != member and self.declared[m].sentinel_id not in known]
        if those is not None:
            return tuple(map(str, others))
        replicas = [s.member for s in self.followers if self.replica_of(told, s.member) is None]
        return tuple(str(lacking) for lacking in (*others, *replicas))
