"""A model of servers and Sentinels: enough of how they behave to plan against, and strict about what is unsafe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Endpoint, Member, Role
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.sentinel import steps
from valkeyctl.dataplane.sentinel.model import Parameters, Sentinel, SentinelSpec, sentinel
from valkeyctl.dataplane.sentinel.selection import eligible
from valkeyctl.dataplane.sentinel.view import (
    KnownReplica,
    KnownSentinel,
    Monitored,
    SentinelOutcome,
    SentinelsView,
    SentinelView,
    ServerView,
)
from valkeyctl.dataplane.view import Absent, ReplicaLink

NAME = "orders"
DEFAULTS = Parameters()


def member(ordinal: int) -> Member:
    """A member of the dataset."""
    return Member(0, ordinal)


def address(ordinal: int) -> Address:
    """How a member is called."""
    return Address(f"t-s0-{ordinal}.t-headless", 6379)


def spec_of(members: int = 3, sentinels: int = 3, **fields: object) -> SentinelSpec:
    """A specification."""
    servers = {member(o): address(o) for o in range(members)}
    return SentinelSpec(NAME, servers, sentinels, sentinels // 2 + 1, **fields)  # type: ignore[arg-type]


def id_of(ordinal: int) -> str:
    """The id of a Sentinel."""
    return f"{ordinal:040x}"


@dataclass
class Server:
    """One server: whom it follows (None: it is a primary), and its priority."""

    follows: int | None
    priority: int = 100


@dataclass
class Watch:
    """What a Sentinel monitors, and whom it remembers: others by ordinal, replicas by ordinal with their priority.

    `strangers` and `lost` are names of Sentinels and replicas that are gone.
    """

    at: Address
    epoch: int = 0
    quorum: int = 2
    parameters: Parameters = DEFAULTS
    others: set[int] = field(default_factory=set[int])
    replicas: dict[int, int] = field(default_factory=dict[int, int])
    strangers: set[str] = field(default_factory=set[str])
    lost: set[str] = field(default_factory=set[str])


@dataclass
class World:
    """Servers that all live and Sentinels that all answer."""

    spec: SentinelSpec
    servers: dict[int, Server]
    sentinels: dict[int, Watch | None]
    version: str = "9.1.2"

    @property
    def primary(self) -> int:
        """The one server that is a primary."""
        (only,) = (ordinal for ordinal, server in self.servers.items() if server.follows is None)
        return only

    def settle(self) -> None:
        """Sentinels tell each other what they know, and ask the servers, until nothing new is told."""
        for _ in range(4):
            for ordinal, watch in self.sentinels.items():
                if watch is None:
                    continue
                self._ask_servers(watch)
                for other, theirs in self.sentinels.items():
                    if other == ordinal or theirs is None:
                        continue
                    meets = watch.at == theirs.at or other in watch.others or self._share_channel(watch, theirs)
                    if meets:
                        watch.others.add(other)
                        if theirs.epoch > watch.epoch:
                            self._switch(watch, theirs.at)
                            watch.epoch = theirs.epoch

    def take(self, step: steps.Action) -> None:  # noqa: C901  (one case a step)
        """Carry out a step, refusing what is unsafe."""
        assert step.describe().startswith(f"{step.member}: ")
        right = address(self.primary)
        ordinal = step.member.ordinal
        watch = self.sentinels.get(ordinal) if isinstance(step.member, Sentinel) else None
        match step:
            case steps.Monitor():
                assert step.address == right, "only the living primary is ever monitored"
                assert watch is None or isinstance(step, steps.MonitorAnew)
                assert watch is None or watch.at != right, "who is right is left alone"
                self.sentinels[ordinal] = Watch(step.address, 0, step.quorum, step.parameters)
            case steps.Remove():
                assert isinstance(step, steps.Drop) or step.member in self.spec.leaving
                assert not isinstance(step, steps.Drop) or (watch is not None and watch.at != right)
                self.sentinels[ordinal] = None
            case steps.SetParameters(parameters=parameters):
                assert watch is not None
                watch.parameters = parameters
            case steps.SetQuorum(quorum=quorum):
                assert watch is not None
                known = len(watch.others) + len(watch.strangers) + 1
                assert quorum <= max(known, watch.quorum), "a quorum of Sentinels that it doesn't know can't be reached"
                watch.quorum = quorum
            case steps.Reset():
                assert watch is not None
                declared = range(self.spec.sentinels)
                for other in declared:
                    theirs = self.sentinels[other]
                    assert theirs is not None
                    assert theirs.at == right, "nobody is reset while one is astray"
                    if other != ordinal:
                        assert theirs.others >= set(declared) - {other}, "one at a time: this one still learns"
                watch.others, watch.replicas, watch.strangers, watch.lost = set(), {}, set(), set()
            case steps.SetPriority(priority=priority):
                assert (priority == 0) == (self.spec.priority(step.member) == 0), "there is somebody to fail over to"
                self.servers[ordinal].priority = priority
            case steps.Follow(to=to):
                assert watch is not None
                assert to.ordinal == self.primary
                assert self._selects(step.member) == to.ordinal, "it would choose another, and demote the primary"
                self._fail_over(watch, to.ordinal)
            case steps.Coordinate(to=to) | steps.HandOver(to=to):
                by = step.member if isinstance(step, steps.Coordinate) else step.sentinel
                leader = self.sentinels[by.ordinal]
                assert leader is not None
                assert leader.at == right
                assert self._selects(by) == to.ordinal, "it would choose another"
                self.servers[self.primary].follows = to.ordinal
                for other, server in self.servers.items():
                    server.follows = None if other == to.ordinal else to.ordinal
                self._fail_over(leader, to.ordinal)
            case steps.SetAuth():
                raise AssertionError("all reach the primary here")

    def view(self) -> SentinelsView:
        """What would be observed."""
        outcomes: dict[Member, SentinelOutcome] = {
            who: self._sentinel_view(who) if who.ordinal in self.sentinels else Absent(who)
            for who in self.spec.everybody
        }
        return SentinelsView(outcomes, {member(o): self._server_view(o) for o in self.servers})

    def _selects(self, who: Member) -> int | None:
        known = sorted(eligible(self._sentinel_view(sentinel(who.ordinal))), key=lambda r: (r.priority, -r.offset))
        if not known or (len(known) > 1 and known[0].priority == known[1].priority):
            return None
        return next(o for o in self.servers if address(o) == known[0].address)

    def _fail_over(self, watch: Watch, to: int) -> None:
        self._switch(watch, address(to))
        watch.epoch = max(w.epoch for w in self.sentinels.values() if w is not None) + 1

    def _switch(self, watch: Watch, at: Address) -> None:
        before, watch.at = watch.at, at
        former = next((o for o in self.servers if address(o) == before), None)
        if former is not None:
            watch.replicas[former] = self.servers[former].priority
        elif before != at:
            watch.lost.add(before.host)
        watch.replicas = {o: priority for o, priority in watch.replicas.items() if address(o) != at}

    def _ask_servers(self, watch: Watch) -> None:
        at = next((o for o in self.servers if address(o) == watch.at), None)
        if at is None:
            return
        for ordinal, server in self.servers.items():
            if server.follows == at or (ordinal in watch.replicas and server.follows is not None):
                watch.replicas[ordinal] = server.priority

    def _share_channel(self, one: Watch, other: Watch) -> bool:
        """Hellos go over the channels of the primary and of all replicas that a Sentinel knows."""
        of_one = {one.at.host, *(address(o).host for o in one.replicas)}
        of_other = {other.at.host, *(address(o).host for o in other.replicas)}
        return bool(of_one & of_other & {address(o).host for o in self.servers})

    def _sentinel_view(self, who: Member) -> SentinelView:
        watch = self.sentinels[who.ordinal]
        endpoint = Endpoint(who, f"t-{who}", f"t-{who}.t-sentinels", f"10.1.0.{who.ordinal}", 26379)
        told = SentinelView(endpoint, id_of(who.ordinal), self.version)
        if watch is None:
            return told
        others = [KnownSentinel(id_of(o), Address(f"10.1.0.{o}", 26379)) for o in sorted(watch.others)]
        others += [
            KnownSentinel(name.rjust(40, "f"), Address(name, 26379), down=True, heard_ms=60_000)
            for name in sorted(watch.strangers)
        ]
        replicas = [KnownReplica(address(o), f"run-{o}", p, 10) for o, p in sorted(watch.replicas.items())]
        replicas += [
            KnownReplica(Address(name, 6379), "", 100, 0, down=True, linked=False) for name in sorted(watch.lost)
        ]
        usable = len(watch.others) + 1
        return replace(
            told,
            monitored=Monitored(watch.at, watch.quorum, watch.epoch, watch.parameters),
            others=tuple(others),
            replicas=tuple(replicas),
            reaches_quorum=usable >= watch.quorum and usable > (usable + len(watch.strangers)) // 2,
        )

    def _server_view(self, ordinal: int) -> ServerView:
        server = self.servers[ordinal]
        endpoint = Endpoint(member(ordinal), f"t-s0-{ordinal}", address(ordinal).host, f"10.0.0.{ordinal}")
        if server.follows is None:
            followers = tuple(address(o) for o, other in self.servers.items() if other.follows == ordinal)
            return ServerView(endpoint, Role.PRIMARY, self.version, 10, server.priority, followers=followers)
        link = ReplicaLink(up=True, syncing=False, was_up=True)
        at = address(server.follows)
        return ServerView(endpoint, Role.REPLICA, self.version, 10, server.priority, primary=at, link=link)


def formed(spec: SentinelSpec | None = None, version: str = "9.1.2") -> World:
    """A world at its goal."""
    spec = spec or spec_of()
    servers = {m.ordinal: Server(None if m.ordinal == 0 else 0) for m in spec.servers}
    watches: dict[int, Watch | None] = {
        o: Watch(address(0), 0, spec.quorum, spec.parameters) for o in range(spec.sentinels)
    }
    world = World(spec, servers, watches, version)
    world.settle()
    return world
