"""A world in which arbiters live: servers, a watchdog for each, an API server, a network, and one time for all.

The arbiters are the real ones, with the files that they write; only their threads are taken in turn here. Whatever they
wait for may take any time: `World.pauses` says at which of these moments an agent freezes, and for how long. The world
raises `TwoPrimaries` as soon as two servers take writes.
"""

from __future__ import annotations

import io
import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.agent.primacy.servers import PORT, Server, host_of
from valkeyctl.agent.logs import Log
from valkeyctl.agent.primacy.arbiter import Arbiter
from valkeyctl.agent.primacy.clerk import Clerk, Place
from valkeyctl.agent.primacy.fence import FILE, Fence
from valkeyctl.agent.primacy.memory import Memory
from valkeyctl.agent.primacy.timing import Timing
from valkeyctl.agent.primacy.word import Word, decode
from valkeyctl.agent.resp import Command, Reply
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.dataplane.model import Endpoint, Member, pod_name
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.errors import ApiConflict, ApiUnreachable
from valkeyctl.kube.primary_lease import Seat

TICK_S = 0.2
LOOK_S = 0.5
WATCHDOG_S = 0.4
"""How late a watchdog may be, beside the time until it looks."""
DURATION_S = 10


class TwoPrimaries(AssertionError):  # noqa: N818 - what it is
    """Two servers took writes at the same time."""


@dataclass
class Link:
    """A connection to a server's process."""

    world: World
    by: Member
    server: Server

    def ask(self, *commands: Command) -> list[Reply]:
        """As the real one; the agent may freeze before anything is sent, and before it has read the replies."""
        self.world.pause(self.by)
        self.world.before_asking(self.by, commands)
        if not self.server.alive:
            raise ConnectionResetError
        if self.server.frozen:
            self.server.inbox.append(commands)
            self.world.pass_time(1.0, frozen=self.by)
            raise TimeoutError
        replies = [self.server.do(command) for command in commands]
        self.world.check()
        self.world.pause(self.by)
        return replies

    def tell(self, *_commands: Command) -> None:
        """Replicas say how far they are at once here."""

    def close(self) -> None:
        """Hang up."""


@dataclass
class Watch:
    """The agent's look at its server."""

    world: World
    member: Member
    number: int = 0
    state: ServerState = field(default_factory=lambda: ServerState(0, Phase.DOWN, 0.0, 0.0))

    def look_again(self, timeout_s: float) -> ServerState:  # noqa: ARG002 - as the real one
        server = self.world.servers.get(self.member)
        self.number += 1
        now = self.world.now
        if server is None or not server.alive:
            self.state = ServerState(self.number, Phase.DOWN, now, now)
        elif server.frozen:
            self.state = ServerState(self.number, Phase.SILENT, now, now)
        else:
            server.listed = [
                m for m, o in self.world.servers.items() if o.alive and o.linked and o.upstream == self.member
            ]
            self.state = ServerState(self.number, Phase.SERVING, now, now, info=server.info)
        return self.state

    def poke(self) -> None:
        """It is looked at soon."""


@dataclass
class Api:
    """The API server, as one agent reaches it. What isn't answered may have been carried out, or may be later."""

    world: World
    by: Member

    def hasty(self, _answer_s: float) -> Api:
        return self

    def get(self, _path: str) -> dict[str, Any]:
        self.world.waits_for_api(self.by)
        return self.world.lease

    def replace(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        fate = self.world.waits_for_api(self.by, body)
        if fate == "lost":
            raise ApiUnreachable("no answer")
        written = self.world.put(body)
        self.world.after_writing(self.by)
        if fate == "slow":
            self.world.wait_in_request(1.5)
        return written


@dataclass
class Pod:
    """One member's Pod: its memory volume, its agent and what that is made of, and the watchdog of its server."""

    world: World
    member: Member
    run: Path
    frozen_until: float = 0.0
    dead_until: float = 0.0
    busy: bool = False
    in_request: bool = False
    restart_at: float = float("inf")
    looked_at: float = float("-inf")
    plain: bool = False
    still: bool = False
    log: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new process of the agent, with what the one before it has left."""
        world = self.world
        self.watch = Watch(world, self.member)
        self.fence, memory = Fence(self.run), Memory(self.run)
        self.me = Seat(self.member, memory.token)
        timing, log = Timing(DURATION_S), Log(to=self.log)
        api = Api(world, self.member)
        self.clerk = Clerk(
            Place("n", "t", self.me),
            timing,
            api=lambda: api,
            clock=world.clock,
            log=log,
            news=lambda: None,  # type: ignore[arg-type,return-value]
        )
        self.arbiter = Arbiter(
            "t",
            self.me,
            timing,
            watch=self.watch,
            held=lambda: True,
            connect=self._connect,  # type: ignore[arg-type]
            endpoint_of=endpoint_of,
            declared=lambda: world.spec,
            stands_still=lambda: self.still,
            fence=self.fence,
            memory=memory,
            clerk=self.clerk,
            others=self,
            clock=world.clock,
            log=log,
            wake=lambda: None,
            sleep=lambda _seconds: world.pass_time(TICK_S, frozen=self.member),
        )
        self.watch.look_again(0)

    @property
    def awake(self) -> bool:
        """Whether its arbiter runs; a `plain` Pod has none, and no watchdog."""
        return not self.plain and self.world.now >= max(self.frozen_until, self.dead_until)

    def ask(self, own: Word, members: frozenset[Member]) -> Mapping[Member, Word]:
        """The other arbiters' words."""
        self.world.pause(self.member)
        told: dict[Member, Word] = {}
        for member in sorted(members):
            other = self.world.pods.get(member)
            if other is not None and other.awake and not other.busy and self.world.reaches(self.member, member):
                told[member] = decode(other.arbiter.hear(decode(own.encode())).encode())
        self.world.pause(self.member)
        return told

    def tick(self) -> None:
        """What its agent's threads do in one tick, and its container."""
        world = self.world
        if self.busy or not self.awake:
            return
        server = world.servers.get(self.member)
        if server is None or not server.alive:
            self._restart()
        if world.now - self.looked_at >= (LOOK_S if self.watch.state.serving else TICK_S):
            self.watch.look_again(0)
            self.looked_at = world.now
        self.busy = True
        try:
            self.arbiter.keep_in_time()
            if not self.in_request:
                self.busy, self.in_request = False, True
                try:
                    self.clerk.step()
                finally:
                    self.in_request = False
                if self.busy or not self.awake:
                    return
                self.busy = True
            self.arbiter.turn()
        finally:
            self.busy = False

    def watchdog(self) -> None:
        """Does what watchdog.sh does, at the latest moment at which it would."""
        world, server = self.world, self.world.servers.get(self.member)
        if server is None or not server.alive or self.plain:
            return
        role, *until = (self.run / FILE).read_text().split()
        if role == "primary" and world.now * 100 >= int(until[0]) + WATCHDOG_S * 100:
            world.kill_server(self.member)

    def _restart(self) -> None:
        world = self.world
        if world.now < self.restart_at:
            return
        self.restart_at = float("inf")
        self.fence.stand_down()
        seen = self.clerk.seen
        holder = seen.lease.holder.member if seen is not None and seen.lease.holder is not None else None
        world.start_server(self.member, holder if holder != self.member else None)

    def _connect(self, member: Member) -> Link:
        server = self.world.servers.get(member)
        self.world.before_connecting(self.member)
        self.world.pause(self.member)
        if not self.world.reaches(self.member, member):
            self.world.pass_time(0.5, frozen=self.member)
            raise TimeoutError
        if server is None or not server.alive:
            raise ConnectionRefusedError
        return Link(self.world, self.member, server)


class World:
    """All of it. `pauses` are the moments at which something takes its time: for each the seconds, mostly 0."""

    def __init__(self, members: int, seed: int = 0, *, persistent: bool = False) -> None:
        self.now = 1000.0
        self.root = Path(tempfile.mkdtemp(prefix="arbiters-"))
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.pausing = 0.0
        self.spec = ReplicationSpec("t", members - 1, formed=True, persistent=persistent)
        self.persistent = persistent
        self.lease: dict[str, Any] = {
            "metadata": {"name": "t-primary", "resourceVersion": "1", "annotations": {}},
            "spec": {"holderIdentity": "t-s0-0", "leaseDurationSeconds": DURATION_S, "leaseTransitions": 0},
        }
        self.lease["metadata"]["annotations"]["valkeyctl/primary-candidates"] = ",".join(map(str, range(members)))
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.delayed: list[tuple[float, dict[str, Any]]] = []
        self.cut_from_api: set[Member] = set()
        self.cuts: set[frozenset[Member]] = set()
        self.servers: dict[Member, Server] = {}
        self._disk_streams: dict[Member, str] = {}
        self.disks: dict[Member, list[int]] = {}
        self.pods: dict[Member, Pod] = {}
        self.acknowledged: list[int] = []
        self.refused_since: float | None = None
        self.longest_gap_s = 0.0
        self.lossy = False
        self.before_asking: Callable[[Member, Sequence[Command]], None] = lambda _by, _commands: None
        self.before_connecting: Callable[[Member], None] = lambda _by: None
        self.after_writing: Callable[[Member], None] = lambda _by: None
        self._writes = itertools.count(1)
        self._runs = itertools.count(1)
        self._depth = 0
        for member in self.spec.members:
            self.start_server(member, None)
        for member in self.spec.members:
            self.make_pod(member)

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.root, ignore_errors=True)

    def clock(self) -> float:
        return self.now

    def make_pod(self, member: Member) -> None:
        """A Pod with an empty memory volume."""
        run = Path(tempfile.mkdtemp(prefix=f"{member}-", dir=self.root))
        self.pods[member] = Pod(self, member, run)

    # --- what passes -------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass for everybody."""
        end = self.now + seconds
        while self.now < end:
            self.tick()

    def pass_time(self, seconds: float, *, frozen: Member) -> None:
        """Let time pass for all but one agent, which waits."""
        pod = self.pods[frozen]
        was, pod.busy = pod.busy, True
        self._depth += 1
        try:
            self.run(seconds)
        finally:
            self._depth -= 1
            pod.busy = was

    def pause(self, member: Member) -> None:
        """A moment at which an agent may freeze."""
        if self._depth < 3 and self.random.random() < self.pausing:
            self.pass_time(self.random.choice((0.3, 2.0, 6.0, 9.4, 11.0, 25.0)), frozen=member)

    def waits_for_api(self, member: Member, body: dict[str, Any] | None = None) -> str:
        """What becomes of a request: "" where it is answered, "slow" where that takes long after it was done, "lost"
        where it isn't. Raises ApiUnreachable.
        """
        if member in self.cut_from_api:
            self.wait_in_request(2.0)
            raise ApiUnreachable("no answer")
        if self._depth < 3 and self.random.random() < self.pausing:
            fate = self.random.choice(("slow", "lost", "late"))
            if fate == "late" and body is not None:
                self.delayed.append((self.now + self.random.choice((1.0, 5.0, 12.0, 30.0)), body))
            if fate == "slow":
                return fate
            self.wait_in_request(2.0)
            if fate == "lost" and body is not None and self.random.random() < 0.5:
                self._try_put(body)
            if body is None:
                raise ApiUnreachable("no answer")
            return "lost"
        return ""

    def wait_in_request(self, seconds: float) -> None:
        """The thread that asks waits, and the agent's others go on."""
        self._depth += 1
        try:
            self.run(seconds)
        finally:
            self._depth -= 1

    def put(self, body: dict[str, Any]) -> dict[str, Any]:
        """Write the Lease. Raises ApiConflict."""
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ApiConflict("the object has been modified", status=409)
        version = str(int(self.lease["metadata"]["resourceVersion"]) + 1)
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return self.lease

    def _try_put(self, body: dict[str, Any]) -> None:
        with suppress(ApiConflict):
            self.put(body)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Have something happen then, whatever else is under way."""
        self.due.append((self.now + seconds, what))

    def tick(self) -> None:
        """A fifth of a second."""
        self.now = round(self.now + TICK_S, 3)
        for one in [one for one in self.due if one[0] <= self.now]:
            self.due.remove(one)
            one[1]()
        for due in [one for one in self.delayed if one[0] <= self.now]:
            self.delayed.remove(due)
            self._try_put(due[1])
        for member, pod in self.pods.items():
            pod.watchdog()
            if pod.awake and not pod.busy and member not in self.cut_from_api:
                pod.clerk.note(self.lease)  # what its watch tells
        for server in self.servers.values():
            server.tick(self.servers, self.reaches)
        self.check()
        self._write()
        for pod in self.random.sample(list(self.pods.values()), len(self.pods)):
            pod.tick()
            self.check()

    def _write(self) -> None:
        """A client that writes to everybody's address."""
        taken = False
        for server in self.servers.values():
            if server.writable:
                write = next(self._writes)
                server.take(write)
                self.acknowledged.append(write)
                taken = True
        if taken:
            self.refused_since = None
        else:
            self.refused_since = self.now if self.refused_since is None else self.refused_since
            self.longest_gap_s = max(self.longest_gap_s, self.now - self.refused_since)

    def check(self) -> None:
        """Never two."""
        primaries = [member for member, server in self.servers.items() if server.writable]
        if len(primaries) > 1:
            raise TwoPrimaries(f"{primaries} at {self.now}\n{self.logs()}")

    def reaches(self, one: Member, other: Member) -> bool:
        return one == other or frozenset((one, other)) not in self.cuts

    # --- what happens ------------------------------------------------------------------------------------------------

    def start_server(self, member: Member, follow: Member | None) -> None:
        """A new process on the member's disk, as a replica."""
        kept = self.disks.get(member)
        server = Server(member, f"run{next(self._runs)}", upstream=follow)
        if kept is not None:
            server.log, server.stream, server.placed = list(kept), self._disk_streams[member], True
        self.servers[member] = server

    def kill_server(self, member: Member) -> None:
        """kill -9; its container starts again."""
        server = self.servers[member]
        if not server.alive:
            return
        self.lossy = True
        server.alive = False
        if self.persistent:
            self.disks[member] = list(server.log)
            self._disk_streams[member] = server.stream
        self.pods[member].restart_at = self.now + 0.5

    def freeze_server(self, member: Member) -> None:
        self.servers[member].frozen = True

    def thaw_server(self, member: Member) -> None:
        server = self.servers[member]
        if server.alive and server.frozen:
            server.frozen = False
            server.late_ticks = self.random.choice((0, 1, 3, 6))
            self.pods[member].watch.look_again(0)
            self.check()

    def freeze_agent(self, member: Member, seconds: float) -> None:
        self.pods[member].frozen_until = self.now + seconds

    def kill_agent(self, member: Member, seconds: float) -> None:
        """The agent's process ends, and another one begins after that time. Not while it is in the middle of a call."""
        pod = self.pods[member]
        if not pod.busy and not pod.in_request:
            pod.begin()
            pod.dead_until = self.now + seconds

    def lose_node(self, member: Member) -> None:
        """All of a member is gone, and comes back as a new Pod."""
        pod = self.pods[member]
        if pod.busy or pod.in_request:
            return
        self.kill_server(member)
        self.make_pod(member)
        self.pods[member].dead_until = self.now + 3.0
        self.pods[member].restart_at = self.now + 3.0

    def heal(self) -> None:
        """End all faults."""
        self.pausing = 0.0
        self.cut_from_api.clear()
        self.cuts.clear()
        for member, pod in self.pods.items():
            pod.frozen_until = min(pod.frozen_until, self.now)
            self.thaw_server(member)

    @property
    def primary(self) -> Member | None:
        """The one server that takes writes."""
        found = [member for member, server in self.servers.items() if server.writable]
        return found[0] if found else None

    def settled(self) -> bool:
        """Whether all is as it should be: one primary, and everybody follows it."""
        primary = self.primary
        return primary is not None and all(
            server.alive and (member == primary or (server.linked and server.upstream == primary))
            for member, server in self.servers.items()
        )

    def logs(self) -> str:
        return "\n".join(
            f"{member}: {line}" for member, pod in self.pods.items() for line in pod.log.getvalue().splitlines()
        )


def endpoint_of(member: Member) -> Endpoint:
    """Where a member's server is, and what it is called."""
    return Endpoint(member, pod_name("t", member), host_of(member), "", PORT)
