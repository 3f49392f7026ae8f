"""A small world of servers, agents and time, to see what the start guard's verdicts lead to.

Servers gossip, elect by majority, restart and copy as the real ones do, in steps of half a second or more; agents tell
each other everything at once, and keep their promises. What a dataset holds is a number: how many of the shard's
writes, in order, are in it. So the greater number is the newer data, which the guard itself can't see: it sees kinds,
streams and offsets only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from valkeyctl.agent.guard import Hold, Start, decide, follows
from valkeyctl.agent.promise import PROMISE_S
from valkeyctl.agent.stand_in import How, Promote, stand_in
from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, equal_layout
from valkeyctl.dataplane.view import Role

NODE_TIMEOUT_S = 5.0
VALID_S = 60.0  # a replica whose data is older is not elected: ten node timeouts and a ping period
RESTART_S = 1.0
END_S = 1000.0
REST_S = 75.0  # longer than any wait of a replica for another


@dataclass(frozen=True)
class Copy:
    """A dataset: how it can be known, and what is in it."""

    data: Data = field(default_factory=Data)
    writes: int = 0


@dataclass
class Pod:
    """A member: its server, its agent and its disk.

    `table` has for each shard who owns it since which epoch. `mute` is an agent that doesn't tell (and permits
    nothing), `present` false a Pod that isn't there. `stuck_until` is until when its server dies while it loads.
    `starting` and `promised_at` are as in `promise.Promise`; `warned` is a start that was told to be a loss.
    `remembers` are members that were its replicas when it last ran, and aren't any more.
    """

    member: Member
    node_id: str
    primary_id: str
    table: dict[int, tuple[str, int]]
    disk: Copy = field(default_factory=Copy)
    live: Copy = field(default_factory=Copy)
    server: Server = Server.DOWN
    present: bool = True
    mute: bool = False
    synced: bool | None = None
    stuck_until: float = 0.0
    asked_at: float | None = RESTART_S
    up_at: float = 0.0
    primary_down_at: float | None = None
    forced_at: float | None = None
    heard_down_at: float | None = None
    linked_at: float | None = None
    starting: bool = False
    promised_at: float = -10.0
    warned: bool = False
    remembers: frozenset[Member] = frozenset()

    @property
    def tells(self) -> bool:
        """Whether its agent answers."""
        return self.present and not self.mute

    @property
    def up(self) -> bool:
        """Whether its server takes part in the cluster."""
        return self.present and self.server is Server.UP

    @property
    def copy(self) -> Copy:
        """What it has, or would have if its server started now."""
        return self.live if self.server is Server.UP else self.disk


@dataclass(frozen=True)
class Served:
    """A server began to serve its shard by a verdict of the guard."""

    at: float
    pod: Member
    writes: int
    best: int
    warned: bool


@dataclass
class World:
    """Pods of an instance, and what happened to them.

    `forks` are the members that served an old history while an agent told of a newer one, without having warned.
    `pairs` are those that served, or were let start to serve, the same shard at the same time, without a warning too.
    """

    pods: dict[Member, Pod]
    now: float = 0.0
    served: list[Served] = field(default_factory=list[Served])
    promoted: list[tuple[float, Member, str]] = field(default_factory=list[tuple[float, Member, str]])
    warned: set[int] = field(default_factory=set[int])
    runs: int = 0
    arrivals: list[tuple[float, Member]] = field(default_factory=list[tuple[float, Member]])
    forks: list[tuple[float, Member]] = field(default_factory=list[tuple[float, Member]])
    pairs: list[tuple[float, Member, Member]] = field(default_factory=list[tuple[float, Member, Member]])

    def __post_init__(self) -> None:
        self.layout = equal_layout(1 + max(member.shard for member in self.pods))
        self.by_id = {pod.node_id: pod for pod in self.pods.values()}
        self.former: dict[str, Member] = {}

    def owner(self, shard: int) -> Pod | None:
        """Who serves a shard: a server that owns it as everyone that runs agrees."""
        newest = max((pod.table[shard] for pod in self.pods.values() if pod.up), key=lambda at: at[1], default=None)
        pod = self.by_id.get(newest[0]) if newest else None
        return pod if pod is not None and pod.up and not pod.primary_id else None

    def play(self, end_s: float = END_S) -> None:
        """Let time go on until nothing happens any more. Where nothing changes for long, time goes in longer steps."""
        pause_s, before, since = 0.5, None, 0.0
        while self.now < end_s:
            self._step()
            seen = self._picture()
            if seen != before:
                pause_s, before, since = 0.5, seen, self.now
            else:
                pause_s = min(2 * pause_s, 5.0)
                if self._is_at_rest() and (self.is_whole or self.now - since > REST_S):
                    return
            self.now += pause_s

    @property
    def is_whole(self) -> bool:
        """Whether every shard is served."""
        return all(self.owner(shard) is not None for shard in range(len(self.layout)))

    def _is_at_rest(self) -> bool:
        waiting = any(pod.present and pod.server is not Server.UP and not pod.mute for pod in self.pods.values())
        return not waiting and not self.arrivals

    def _picture(self) -> object:
        return [
            (
                pod.server,
                pod.primary_id,
                pod.live.writes,
                tuple(pod.table.values()),
                pod.present,
                pod.forced_at,
                pod.starting,
            )
            for pod in self.pods.values()
        ]

    def _step(self) -> None:
        while self.arrivals and self.arrivals[0][0] <= self.now:
            pod = self.pods[self.arrivals.pop(0)[1]]
            pod.present, pod.mute = True, False
            pod.asked_at = self.now if pod.server is Server.DOWN else None
        for pod in self.pods.values():
            if pod.present and pod.server is Server.LOADING and self.now >= pod.up_at:
                self._come_up(pod)
        self._gossip()
        self._note_forks()
        self._replicate()
        self._elect()
        asking = [pod for pod in self.pods.values() if pod.tells and self._asks(pod)]
        if asking:
            tales = {pod.member: self._tale(pod) for pod in self.pods.values() if pod.tells}
            for pod in asking:
                self._promise(tales[pod.member], tales)
            for pod in asking:
                told = {other: heard for other, heard in tales.items() if other != pod.member}
                self._agent(pod, tales[pod.member], told)
            self._note_pairs()
            self._gossip()
            self._replicate()

    def _asks(self, pod: Pod) -> bool:
        """Whether an agent has anything to decide: a start that is asked for, or a primary that doesn't run."""
        if pod.server is Server.DOWN:
            return pod.asked_at is not None and self.now >= pod.asked_at
        primary = self.by_id.get(pod.primary_id)
        return pod.up and pod.primary_id != "" and (primary is None or not primary.up)

    def _come_up(self, pod: Pod) -> None:
        if self.now < pod.stuck_until:
            pod.server, pod.asked_at = Server.DOWN, self.now + RESTART_S
            return
        pod.server, pod.live, pod.linked_at = Server.UP, pod.disk, None
        if not pod.primary_id and pod.table[pod.member.shard][0] == pod.node_id:
            # A new run has a stream of its own. It goes on counting where a snapshot ended; a log doesn't tell.
            self.runs += 1
            pod.live = Copy(Data(Kind.LIVE, f"run {self.runs}", pod.disk.data.offset or 0), pod.disk.writes)

    def _gossip(self) -> None:
        """Everyone that runs takes the newest owner of each shard; who lost its shard follows the new owner."""
        running = [pod for pod in self.pods.values() if pod.up]
        for shard in range(len(self.layout)):
            newest = max((pod.table[shard] for pod in running), key=lambda at: at[1], default=None)
            for pod in running:
                assert newest is not None
                if pod.table[shard][1] < newest[1]:
                    pod.table[shard] = newest
                if pod.member.shard == shard and pod.node_id != newest[0] and pod.primary_id != newest[0]:
                    pod.primary_id, pod.synced = newest[0], None
                    pod.forced_at = pod.heard_down_at = None

    def _replicate(self) -> None:
        for pod in self.pods.values():
            primary = self.by_id.get(pod.primary_id) if pod.up and pod.primary_id else None
            if primary is not None and primary.up and not primary.primary_id:
                pod.live = primary.live
                pod.synced, pod.linked_at = True, self.now
                pod.primary_down_at = pod.forced_at = pod.heard_down_at = None
            elif pod.up and pod.primary_id and pod.primary_down_at is None:
                pod.primary_down_at = self.now

    def _elect(self) -> None:
        """The servers' own election: after the node timeout, by a majority, among replicas whose data is young."""
        for shard in range(len(self.layout)):
            candidates = [
                pod
                for pod in self.pods.values()
                if pod.up
                and pod.member.shard == shard
                and pod.primary_id == pod.table[shard][0]
                and pod.primary_down_at is not None
                and pod.linked_at is not None
                and self.now - pod.primary_down_at > NODE_TIMEOUT_S
                and self.now - pod.linked_at < VALID_S
            ]
            if candidates and self._majority():
                self._promote(max(candidates, key=lambda pod: (pod.live.data.offset or 0, -pod.member.ordinal)), "own")

    def _majority(self) -> bool:
        owners = [self.owner(shard) for shard in range(len(self.layout))]
        return sum(owner is not None for owner in owners) > len(self.layout) // 2

    def _promote(self, pod: Pod, how: str) -> None:
        epoch = 1 + max(epoch for _, epoch in pod.table.values())
        pod.table[pod.member.shard] = (pod.node_id, epoch)
        pod.primary_id, pod.synced = "", None
        pod.live = _in_memory(pod.live)
        self.promoted.append((self.now, pod.member, how))

    def _promise(self, asker: Tale, tales: Mapping[Member, Tale]) -> None:
        """An agent that asks is told by its primary's that this one is held, and may act on it."""
        for member, tale in tales.items():
            if tale.held and asker.running and follows(asker, tale.node_id):
                self.pods[member].promised_at = self.now

    def _is_superseded(self, pod: Pod) -> bool:
        """Whether a server that runs will tell this one, once it runs too, that its shard is another's by now."""
        shard = pod.member.shard
        return any(other.up and other.table[shard][1] > pod.table[shard][1] for other in self.pods.values())

    def _note_forks(self) -> None:
        for pod in self.pods.values():
            shard = pod.member.shard
            if pod.warned or not (pod.up and self._may_serve(pod)):
                continue
            if any(other.tells and other.table[shard][1] > pod.table[shard][1] for other in self.pods.values()):
                self.forks.append((self.now, pod.member))

    def _may_serve(self, pod: Pod) -> bool:
        """Whether a server that runs takes itself for its shard's primary, and nobody that runs tells it better."""
        runs = pod.present and pod.server is not Server.DOWN
        owns = not pod.primary_id and pod.table[pod.member.shard][0] == pod.node_id
        return runs and owns and not self._is_superseded(pod)

    def _note_pairs(self) -> None:
        first: dict[int, Member] = {}
        for pod in self.pods.values():
            if self._may_serve(pod):
                other = first.setdefault(pod.member.shard, pod.member)
                if other != pod.member and not (pod.warned or self.pods[other].warned):
                    self.pairs.append((self.now, other, pod.member))

    def _agent(self, pod: Pod, me: Tale, told: Mapping[Member, Tale]) -> None:
        if pod.server is Server.DOWN:
            assert pod.asked_at is not None
            verdict = decide(me, told, self.now - pod.asked_at)
            pod.starting = isinstance(verdict, Start)
            if isinstance(verdict, Start):
                if self.now - pod.promised_at <= PROMISE_S:
                    return
                if me.role is Role.PRIMARY and me.slots and not self._is_superseded(pod):
                    self._note_serving(pod, warned=verdict.warning)
                    pod.warned = verdict.warning
                pod.server, pod.asked_at, pod.up_at = Server.LOADING, None, self.now + 0.5
                pod.starting = False
            else:
                assert isinstance(verdict, Hold)
                assert self.now - pod.asked_at < verdict.until_s
        else:
            self._maybe_stand_in(pod, me, told)

    def _maybe_stand_in(self, pod: Pod, me: Tale, told: Mapping[Member, Tale]) -> None:
        if pod.heard_down_at is None:
            pod.heard_down_at = self.now
        forced_s = None if pod.forced_at is None else self.now - pod.forced_at
        verdict = stand_in(me, told, self.now - pod.heard_down_at, forced_s=forced_s)
        if not isinstance(verdict, Promote):
            return
        if verdict.how is How.FORCE:
            pod.forced_at = self.now
            if not self._majority() or self._is_superseded(pod):  # nobody votes for an old claim
                return
        self._note_serving(pod, warned=verdict.warning)
        pod.warned = verdict.warning
        self._promote(pod, verdict.how)

    def _note_serving(self, pod: Pod, *, warned: bool) -> None:
        mates = [mate for mate in self.pods.values() if mate.tells and mate.member.shard == pod.member.shard]
        best = max(mate.copy.writes for mate in mates)
        self.served.append(Served(self.now, pod.member, pod.copy.writes, best, warned))
        if warned:
            self.warned.add(pod.member.shard)

    def _tale(self, pod: Pod) -> Tale:
        shard = pod.member.shard
        primary = not pod.primary_id
        owns = primary and pod.table[shard][0] == pod.node_id
        return Tale(
            member=pod.member,
            server=pod.server,
            held=pod.server is Server.DOWN and not pod.starting,
            node_id=pod.node_id,
            role=Role.PRIMARY if primary else Role.REPLICA,
            primary_id=pod.primary_id,
            slots=self.layout[shard] if owns else EMPTY,
            config_epoch=pod.table[shard][1] if owns else 0,
            current_epoch=max(epoch for _, epoch in pod.table.values()),
            data=pod.copy.data,
            synced=None if primary else pod.synced,
            owners=tuple(
                Owner(node_id, self._member(node_id), epoch, self.layout[other])
                for other, (node_id, epoch) in pod.table.items()
                if node_id != pod.node_id
            ),
            followers=tuple(self._followers(pod)),
        )

    def _followers(self, pod: Pod) -> Iterable[Follower]:
        """Node tables know the replicas of a shard as they were last seen; here, as they are, but for `remembers`."""
        shard_id = pod.primary_id or pod.node_id
        for mate in self.pods.values():
            remembered = pod.server is not Server.UP and mate.member in pod.remembers
            follows_too = mate.member.shard == pod.member.shard and (mate.primary_id == shard_id or remembered)
            if mate is not pod and follows_too:
                yield Follower(mate.node_id, mate.member, shard_id)

    def _member(self, node_id: str) -> Member | None:
        pod = self.by_id.get(node_id)
        return pod.member if pod is not None else self.former.get(node_id)


def _in_memory(copy: Copy) -> Copy:
    return replace(copy, data=replace(copy.data, kind=Kind.LIVE))
