"""The arbiter as a part of the agent: its threads, its letters, and what the other parts ask it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from valkeyctl.agent import http
from valkeyctl.agent.dataset.deciding import StartAs, Told, Wait
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.letters import Letters, NotOurs
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.primacy.arbiter import LOOK_S, Arbiter, Server
from valkeyctl.agent.primacy.choice import EndpointOf
from valkeyctl.agent.primacy.clerk import Clerk, Place
from valkeyctl.agent.primacy.fence import Fence, boot_time
from valkeyctl.agent.primacy.memory import Memory
from valkeyctl.agent.primacy.names import Names
from valkeyctl.agent.primacy.timing import Timing
from valkeyctl.agent.primacy.word import Word, decode
from valkeyctl.agent.resp import Link, connected
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.primary_lease import Seat

if TYPE_CHECKING:
    from valkeyctl.kube.access import Api

PATH = "/peer/primacy"
ASK_S = 0.5
"""How long the other agents may take to answer."""
SERVER_S = 0.3
"""The same for another member's server."""
TURN_S, REST_S = 0.1, 0.5
"""Between two decisions, where something is under way and where nothing is."""
API_AFTER_S = 1.0
"""A server that doesn't run after that needs the API server to be asked; until then its start comes first."""
NOBODY_S = 1.0
"""How long a replica that is to take over is looked for."""


class Primacy:
    """Holds, gives and takes the Lease for one member, and has its server take writes only while it holds it.

    A `Decider`, and the one part of the agents that promotes a server where `VALKEY_AUTOMATIC_FAILOVER` is set: whoever
    heals beside it says `decided_elsewhere` and `last_primary=holder`, and neither promotes nor hands over.
    """

    def __init__(
        self,
        environment: Environment,
        log: Log,
        *,
        duration_s: int,
        watch: Server,
        held: Callable[[], bool],
        connect: Callable[[], Link],
        passwords: Callable[[], tuple[bytes, ...]],
        addresses: Callable[[], Mapping[Member, str]],
        endpoint_of: EndpointOf,
        declared: Callable[[], ReplicationSpec | None],
        stands_still: Callable[[], bool],
        api: Callable[[], Api],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`watch` is the own server, watched; `held` the gate's word that no server runs and none may start.

        `connect` gives a signed-in connection to the own server, or raises OSError or Nonsense; `passwords` are the
        instance's. `addresses` are where the other agents are; `endpoint_of` is where a member's server is, `host`
        being what others are told to follow it as, and `address` "" while it isn't known. `declared` is what is
        declared of the dataset, as far as is known (None: not yet); `stands_still`: it is declared that agents don't
        fail over, and this one is only there until its Pod is replaced. `api` makes the connection to the API server
        when it is first needed; it may raise a KubeError. `on_change` is called when `primary` has changed: to write
        the endpoints and the label. It must be quick.

        Makes the file that watchdog.sh watches, where there is none. Raises OSError where that isn't possible.
        """
        place = environment
        self._place, self._watch, self._addresses, self._on_change = place, watch, addresses, on_change
        self.endpoint_of, self._passwords = endpoint_of, passwords
        timing, memory, fence = Timing(duration_s), Memory(place.run), Fence(place.run)
        me = Seat(place.member, memory.token)
        self._wake = threading.Event()
        self._letters = Letters(place, passwords, decode, PATH, "primacy ")
        self._clerk = Clerk(
            Place(place.namespace, place.instance, me), timing, api=api, clock=boot_time, log=log, news=self._wake.set
        )
        self._arbiter = Arbiter(
            place.instance,
            me,
            timing,
            watch=watch,
            held=held,
            connect=lambda member: self._connected(connect, member),
            endpoint_of=endpoint_of,
            declared=declared,
            stands_still=stands_still,
            fence=fence,
            memory=memory,
            clerk=self._clerk,
            others=self,
            clock=boot_time,
            log=log,
            wake=self._wake.set,
        )
        self._asked_as: Word | None = None
        self._peers = Peers(place, self._letters, self._own_word, log)
        family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
        self._names = Names(place.host_of, family)
        self._told: tuple[dict[Member, str], dict[Member, str]] = ({}, {})
        self._told_primary: Member | None = None
        self._role: tuple[Phase, bool] | None = None
        self._failed: BaseException | None = None

    # --- for the other parts of the agent ----------------------------------------------------------------------------

    @property
    def paths(self) -> Mapping[str, Callable[[http.Message], bytes]]:
        """What the agent's port answers for this part, by path."""
        return {PATH: self._hear}

    def listen(self, state: ServerState) -> None:
        """To be called with every look at the server: a change of it is acted on at once."""
        role = (state.phase, state.is_replica)
        if role != self._role:
            self._role = role
            self._wake.set()

    @property
    def holder(self) -> Member | None:
        """Who holds the Lease, as last seen, however old that is; None where nobody does, or it isn't known."""
        seen = self._clerk.seen
        return seen.lease.holder.member if seen is not None and seen.lease.holder is not None else None

    @property
    def is_primary(self) -> bool:
        """Whether the own server is the primary by right now: it says so, and the Lease, or the promises, last."""
        until, state = self._arbiter.fence.until, self._watch.state
        return until is not None and boot_time() < until and state.serving and not state.is_replica

    @property
    def primary(self) -> Member | None:
        """The holder while its Lease hasn't run out as far as this member sees; itself only as `is_primary`."""
        if self.is_primary:
            return self._place.member
        seen = self._clerk.seen
        if seen is None or seen.lease.holder is None or boot_time() - seen.since >= self._arbiter.timing.take_s:
            return None
        holder = (seen.lease.yielding or seen.lease.holder).member
        return holder if holder != self._place.member else None

    def start_as(self, me: DatasetTale, told: Told, waited_s: float) -> StartAs | Wait:
        """The own server, which has ended, may always start: as a replica. Notes that it takes no writes."""
        del me, told, waited_s
        self._arbiter.fence.stand_down()
        holder = self.holder
        if holder is None or holder == self._place.member:
            return StartAs("the Lease will say who takes writes")
        return StartAs(f"{holder} holds the Lease", follow=holder)

    def hand_over(self, deadline: float) -> str:
        """Hand the role over before the server stops; what became of it, for people. Waits until it is done.

        `deadline` by the monotonic clock. Where the server isn't the primary it returns at once.
        """
        began_at, was_primary = time.monotonic(), False
        while (now := time.monotonic()) < deadline:
            state = self._watch.look_again(LOOK_S)
            if not state.serving:
                return f"the server is {state.phase}"
            if state.is_replica:
                return "handed over: the server is a replica now" if was_primary else "the server is a replica"
            was_primary = True
            self._arbiter.leave_until = boot_time() + (deadline - now)
            self._wake.set()
            if not self._arbiter.in_sync and now - began_at > NOBODY_S:
                return "there is no replica in sync to hand over to"
            time.sleep(TURN_S / 2)
        return "no replica took over in time"

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Decide and act, until `stopping` is set. Asks the API server once the own server runs, or after a second."""
        helpers: dict[str, Callable[[], None]] = {
            "primacy-names": lambda: self._names.run(stopping),
            "primacy-fence": lambda: self._keep_in_time(stopping),
            "primacy-lease": lambda: self._later(stopping, lambda: self._clerk.run(stopping)),
            "primacy-follow": lambda: self._later(stopping, lambda: self._clerk.follow(stopping)),
        }
        for name, work in helpers.items():
            threading.Thread(target=self._help, args=(name, work, stopping), name=name, daemon=True).start()
        while not stopping.is_set():
            beat()
            if self._failed is not None:
                raise self._failed
            self._names.wanted = self._arbiter.others
            busy = self._arbiter.turn()
            self._tell_changes()
            self._wake.wait(TURN_S if busy else REST_S)
            self._wake.clear()

    # --- letters -----------------------------------------------------------------------------------------------------

    def ask(self, own: Word, members: frozenset[Member]) -> Mapping[Member, Word]:
        """Ask other arbiters, all at once; who doesn't answer in time isn't among the answers."""
        self._learn()
        self._asked_as = own
        words = self._peers.ask(members, ASK_S)
        if len(words) < len(members):
            self._names.look_now()
        return words

    def _learn(self) -> None:
        """Of what the API server told and what names say, whatever has changed last is where a member is."""
        for before, told in zip(self._told, (self._addresses(), self._names.addresses()), strict=True):
            news = {member: at for member, at in told.items() if before.get(member) != at}
            before.update(news)
            self._peers.learn(news)

    def _own_word(self) -> Word:
        assert self._asked_as is not None  # noqa: S101 - `ask` has just set it
        return self._asked_as

    def _hear(self, asked: http.Message) -> bytes:
        """Another arbiter gives its word, and asks for ours, and perhaps for a promise."""
        if asked.method != "POST":
            return http.response(405, b"arbiters ask by POST\n", {"Allow": "POST"})
        try:
            theirs, nonce = self._letters.read_question(asked)
        except NotOurs as error:
            return http.response(403, f"{error}\n".encode())
        return self._letters.answer(theirs.member, nonce, self._arbiter.hear(theirs))

    def _connected(self, connect: Callable[[], Link], member: Member) -> Link:
        if member == self._place.member:
            return connect()
        endpoint = self.endpoint_of(member)
        return connected(endpoint.address or endpoint.host, endpoint.port, self._passwords(), SERVER_S)

    # --- threads -----------------------------------------------------------------------------------------------------

    def _keep_in_time(self, stopping: threading.Event) -> None:
        while not stopping.wait(self._arbiter.keep_in_time()):
            pass

    def _tell_changes(self) -> None:
        if self.primary != self._told_primary:
            self._told_primary = self.primary
            self._on_change()

    def _later(self, stopping: threading.Event, work: Callable[[], None]) -> None:
        """Importing what speaks to the API server takes its time, which the start of the server comes before."""
        deadline = time.monotonic() + API_AFTER_S
        while self._watch.state.phase is Phase.DOWN and time.monotonic() < deadline:
            if stopping.wait(TURN_S / 2):
                return
        work()

    def _help(self, name: str, work: Callable[[], None], stopping: threading.Event) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it was, it ends the process
            self._failed = error
        else:
            if not stopping.is_set():
                self._failed = RuntimeError(f"{name} ended by itself")
        self._wake.set()
