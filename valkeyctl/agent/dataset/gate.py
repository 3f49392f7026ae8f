"""The gate of a dataset's member: no server starts before this agent permits it, and says whom it follows.

The server's container asks through a `Door`, as a cluster's does. Who decides about the primary's role judges
(`deciding`); the files that the server starts with are rendered right before it is permitted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from valkeyctl.agent import render
from valkeyctl.agent.dataset.deciding import Decider, StartAs, Told, Wait
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.dataset.telling import Telling
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.door import Door
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.model import Address, Member

AT_REST_S = 1.0
ASK_AGAIN_S = 0.1
NOTICED_S = 0.02
"""Between two looks whether the end of a server was noticed."""
ASK_S = 0.5
"""How long the others' agents may take to answer."""


@dataclass(frozen=True)
class Court:
    """Whom a gate asks: who decides, what this member tells, the others, and who they are by what is declared."""

    decider: Decider
    telling: Telling
    peers: Peers[DatasetTale]
    declared: Callable[[], Collection[Member]]


class Gate:
    """Judges each start. `listen` is to be called with every look at the server, `run` is its thread."""

    def __init__(self, environment: Environment, watch: Watch, log: Log) -> None:
        """Make the door, so that the server's container finds it."""
        self._environment = environment
        self._watch = watch
        self._log = log
        self._door = Door(environment.run / "start")
        # An agent that comes back finds a server that it permitted before, or one that is about to start.
        self._permitted = bool(self._door.answered())
        self._seen = False
        self._verdict = ""
        self.holding_since: float | None = None

    @property
    def held(self) -> bool:
        """Whether no server runs and none may start before this gate permits it."""
        return not self._permitted

    @property
    def waits_for(self) -> str:
        """Why a start that is asked for isn't permitted yet; "" when none is."""
        return self._verdict if self.holding_since is not None else ""

    def listen(self, state: ServerState) -> None:
        """Notice the end of the server: what was permitted is over then."""
        if state.phase is not Phase.DOWN:
            self._seen = True
        elif self._seen:
            self._seen = self._permitted = False
            self._door.take_back()
            self._door.knock()

    def run(self, court: Court, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Judge what is asked until `stopping` is set."""
        while not stopping.is_set():
            beat()
            token = self._door.asked()
            if token:
                self._judge(token, court, stopping, beat)
                continue
            if self._permitted and self._watch.state.phase is Phase.DOWN:
                self._door.ring()  # the last ring may have been lost with an agent that ended
            self._door.wait(AT_REST_S)

    def _judge(self, token: str, court: Court, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Stay with one request until it is answered, or another one has taken its place."""
        self._permitted = False
        self._verdict = ""
        asked_at = self.holding_since = time.monotonic()
        while not stopping.is_set() and self._door.asked() == token:
            beat()
            if self._watch.state.phase is not Phase.DOWN:
                # Whoever asks is the container's only process: the server before it has ended, and that is about to be
                # noticed.
                self._watch.poke()
                self._door.wait(NOTICED_S)
                continue
            told = court.peers.ask(court.declared(), ASK_S)
            verdict = _verdict_on(court, told, time.monotonic() - asked_at)
            self._say(verdict)
            if isinstance(verdict, StartAs):
                self._permit(token, verdict)
            else:
                self._door.wait(ASK_AGAIN_S)
        self.holding_since = None

    def _permit(self, token: str, verdict: StartAs) -> None:
        place = self._environment
        follow = None if verdict.follow is None else Address(place.host_of(verdict.follow), place.client_port)
        try:
            render.follow(place, follow, writable=verdict.writable)
            render.write(place)
        except render.NotRendered as error:
            # The server's container ends with this as its last line: it then stands in the Pod's status.
            self._log.error("gate", f"the server can't start: {error}")
            self._door.answer(token, str(error))
        else:
            self._permitted = True
            self._door.answer(token)
            self._watch.poke()

    def _say(self, verdict: StartAs | Wait) -> None:
        """What is waited for is told once."""
        if str(verdict) != self._verdict:
            self._verdict = str(verdict)
            warning = isinstance(verdict, StartAs) and verdict.warning
            (self._log.warning if warning else self._log.info)("gate", self._verdict)


def _verdict_on(court: Court, told: Told, waited_s: float) -> StartAs | Wait:
    try:
        me = court.telling.now()
    except (OSError, Unreadable) as error:
        return StartAs(f"its disk tells nothing ({error}), and its own server will say why", warning=True)
    return court.decider.start_as(me, told, waited_s)
