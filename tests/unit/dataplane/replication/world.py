"""A small pure model of one dataset: it shows views to the planner and carries out steps as servers would.

Time is in `settle`: links have come up, replicas have copied, handovers are over. Whatever would lose data that
somebody who answers has, or make two primaries of one, raises Unsafe.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Absent, Endpoint, Member, Role, Unreachable, Why, pod_name
from valkeyctl.dataplane.replication import steps
from valkeyctl.dataplane.replication.history import Lineage
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import (
    Address,
    Handover,
    History,
    ListedReplica,
    Outcome,
    ReplicationView,
    ServerView,
)
from valkeyctl.dataplane.view import ReplicaLink

PORT = 6379
WRITE_BYTES = 10


NOWHERE = History("", 0)


class Unsafe(AssertionError):  # noqa: N818  (what the step is)
    """A step broke a promise."""


@dataclass
class Server:
    """A server: `log` is all that was written to its dataset, in order; `disk` is what it would load again."""

    member: Member
    number: int
    role: Role = Role.PRIMARY
    upstream: Member | None = None
    linked: bool = False
    was_linked: bool = False
    log: tuple[int, ...] = ()
    history: History = NOWHERE
    disk: tuple[tuple[int, ...], History] = ((), NOWHERE)
    announces: bool = False
    followed: bool = False
    started_at: int = 0
    cut_off_at: int = 0
    silent: bool = False


@dataclass
class World:
    """All members, and what clients were told is written."""

    spec: ReplicationSpec
    has_log: bool = False
    here: dict[Member, Server] = field(default_factory=dict[Member, Server])
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    promoted: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        for member in self.spec.members:
            self.fresh(member)

    # --- what the environment does ------------------------------------------------------------------------------------

    def fresh(self, member: Member, role: Role = Role.PRIMARY) -> Server:
        """Put an empty server in a member's place."""
        number = next(self.numbers)
        server = Server(member, number, role, history=self._new_stream(), started_at=self.now)
        self.here[member] = server
        return server

    def remove(self, member: Member) -> None:
        """Take a member's server away."""
        self.here.pop(member, None)
        for other in self.here.values():
            if other.upstream == member:
                self.cut_off(other)

    def cut_off(self, server: Server) -> None:
        """Its link breaks, if it has one."""
        if server.linked:
            server.linked, server.cut_off_at = False, self.now

    def save(self, member: Member) -> None:
        """What a snapshot does."""
        server = self.here[member]
        server.disk = (server.log, server.history)

    def restart(self, member: Member) -> None:
        """Start a server again on its disk; it never starts as a primary."""
        old = self.here[member]
        self.remove(member)
        server = self.fresh(member, Role.REPLICA)
        server.announces, server.upstream = True, old.upstream
        if self.has_log:
            server.log = old.log
        else:
            server.log, server.history = old.disk[0], replace(old.disk[1], second_id="", second_end=0)
            server.disk = old.disk
        if not server.log:
            server.history = self._new_stream()

    def write(self, member: Member) -> None:
        """A client writes to a primary, a good while after whatever happened last."""
        self.now += 60
        server = self.here[member]
        if server.role is not Role.PRIMARY:
            return
        server.log += (next(self.numbers),)
        if server.followed or server.history.offset:
            server.history = replace(server.history, offset=server.history.offset + WRITE_BYTES)

    def settle(self) -> None:
        """Links have come up, and replicas have copied: as often as there may be links between them."""
        for _ in self.here:
            for server in self.all:
                self._sync(server)

    @property
    def all(self) -> list[Server]:
        """The servers that there are."""
        return list(self.here.values())

    @property
    def primaries(self) -> list[Server]:
        """The servers that take writes."""
        return [server for server in self.all if server.role is Role.PRIMARY]

    # --- what the planner sees ----------------------------------------------------------------------------------------

    def view(self, *, for_s: float = 60.0) -> ReplicationView:
        """An observation; who is missing has been so for `for_s`."""
        return ReplicationView(self.spec.instance, {m: self._seen(m, for_s) for m in self.spec.everybody})

    def endpoint(self, member: Member) -> Endpoint:
        """Where a member is."""
        pod = pod_name(self.spec.instance, member)
        return Endpoint(member, pod, f"{pod}.headless.test.svc", f"10.0.0.{member.ordinal + 1}", PORT)

    def _seen(self, member: Member, for_s: float) -> Outcome:
        server = self.here.get(member)
        if server is None:
            return Absent(member, for_s)
        if server.silent:
            return Unreachable(self.endpoint(member), Why.NO_ANSWER, f"{member} is silent", for_s=for_s)
        replica = server.role is Role.REPLICA
        return ServerView(
            endpoint=self.endpoint(member),
            role=server.role,
            run_id=str(server.number),
            version="9.1.2",
            keys=len(server.log),
            history=server.history,
            upstream=self._upstream(server) if replica else None,
            link=ReplicaLink(server.linked, syncing=False, was_up=server.was_linked) if replica else None,
            replicas=tuple(
                ListedReplica(self.address(other.member), online=True, offset=other.history.offset)
                for other in self.all
                if other.upstream == member and other.linked
            ),
            handover=Handover.NONE,
            uptime_s=self.now - server.started_at,
            cut_off_s=self.now - server.cut_off_at if server.was_linked and not server.linked else None,
            established=not replica and server.followed,
            announces=self.endpoint(member).host if server.announces else "",
            has_log=self.has_log,
        )

    def address(self, member: Member) -> Address:
        """How others know a member."""
        return Address(self.endpoint(member).host, PORT)

    def _upstream(self, server: Server) -> Address:
        return self.address(server.upstream) if server.upstream is not None else Address("nobody.invalid", PORT)

    # --- what steps do ------------------------------------------------------------------------------------------------

    def take(self, step: Action) -> None:
        """Carry out a step as a server would, and judge it."""
        server = self.here[step.member]
        match step:
            case steps.Announce():
                server.announces = True
            case steps.Promote():
                self._promote(server)
            case steps.Replicate(primary=primary, to=to) | steps.Demote(primary=primary, to=to):
                _ensure(to == self.address(primary), "a member is told the name of another")
                self._replicate(server, self.here[primary], told=isinstance(step, steps.Demote))
            case steps.HandOver(heir=heir):
                other = self.here[heir]
                _ensure(server.role is Role.PRIMARY and other.linked and other.upstream == server.member, "in sync")
                self._sync(other)
                other.history = self._shifted(other.history)
                other.role, other.upstream, other.linked = Role.PRIMARY, None, False
                server.role, server.upstream, server.linked = Role.REPLICA, other.member, False
                self._sync(server)
            case steps.AbortHandOver():
                raise Unsafe("there is no handover to give up")

    def _promote(self, server: Server) -> None:
        _ensure(server.role is Role.REPLICA, "only a replica is promoted")
        answering = [other for other in self.all if not other.silent and other is not server]
        _ensure(not any(other.role is Role.PRIMARY for other in answering), "there is no other primary")
        followed = {other.upstream for other in [*answering, server] if other.linked}
        _ensure(not any(s.silent and s.member in followed for s in self.all), "nobody follows a primary that is alive")
        if not self.spec.accept_data_loss:
            has = set(server.log)
            _ensure(not any(set(other.log) > has for other in answering), "nobody who answers has all it has and more")
            _ensure(bool(has) or not any(other.log for other in answering), "it isn't empty while others have data")
        server.role, server.upstream, server.linked = Role.PRIMARY, None, False
        server.history = self._shifted(server.history)
        self.promoted += 1

    def _replicate(self, server: Server, primary: Server, *, told: bool) -> None:
        _ensure(server is not primary, "nobody follows itself")
        if server.role is Role.PRIMARY and server.log and not set(server.log) <= set(primary.log):
            _ensure(told or self.spec.accept_data_loss, "what a primary has alone is dropped only after it was told")
        if primary.role is Role.REPLICA:
            _ensure(set(server.log) <= set(primary.log), "only who has nothing of its own follows an heir")
        self.cut_off(server)
        server.role, server.upstream = Role.REPLICA, primary.member

    def _sync(self, server: Server) -> None:
        upstream = self.here.get(server.upstream) if server.upstream is not None else None
        if server.role is not Role.REPLICA or upstream is None or upstream is server:
            return
        if upstream.role is Role.REPLICA and not upstream.linked:
            self.cut_off(server)
            return
        if not upstream.history.offset:
            upstream.history = self._new_stream()
        upstream.followed = True
        lineage = Lineage([server.history, upstream.history])
        partly = server.history.offset > 0 and lineage.contains(upstream.history, server.history)
        if partly and server.history.replication_id != upstream.history.replication_id:
            second = (server.history.replication_id, server.history.offset)
        else:
            second = (server.history.second_id, server.history.second_end) if partly else ("", 0)
        server.log = upstream.log
        server.history = History(upstream.history.replication_id, upstream.history.offset, *second)
        server.linked = server.was_linked = True

    def _shifted(self, history: History) -> History:
        return History(self._new_stream().replication_id, history.offset, history.replication_id, history.offset)

    def _new_stream(self) -> History:
        return History(f"{next(self.numbers):040x}", 0)


def _ensure(promise: bool, text: str) -> None:  # noqa: FBT001  (a condition reads best bare)
    if not promise:
        raise Unsafe(text)
