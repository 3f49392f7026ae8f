"""The own server, watched over one connection: its end is noticed at once, its state is looked at every second."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from valkeyctl.agent.logs import Log
from valkeyctl.agent.resp import Command, ErrorReply, Link, Nonsense, Reply, connected
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.dataplane import wire

AT_REST_S = 1.0
"""Between two looks at a server that serves as it should."""
IN_MOTION_S = 0.1
"""Between two looks at one that comes up, or isn't in sync; also between two tries to connect."""
MOTION_S = 30.0
"""How long that goes on after the last change; then nobody expects one within a second."""
ANSWER_S = 1.0
"""How long an answer may take before the server counts as silent."""
LARGE_TABLE = 64 << 10  # bytes; longer node tables are looked at more rarely, so that looking costs the same
_LOOK: tuple[Command, ...] = tuple(wire.OBSERVATION)


class Watch:
    """Looks at one server from one thread of its own (`run`); whoever wants to know reads `state` from any.

    `listeners` are called with every look, before anybody else sees it, by the watching thread; they must be quick.
    """

    def __init__(self, address: str, port: int, passwords: Callable[[], tuple[bytes, ...]], log: Log) -> None:
        """`passwords` are those that the server may take, tried in order on each connection."""
        self._where = (address, port)
        self._passwords = passwords
        self._log = log
        now = time.monotonic()
        self._state = ServerState(0, Phase.DOWN, now, now)
        self._changed = threading.Condition()
        self._moved_at = now
        self._told = ""
        self._bell, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.listeners: list[Callable[[ServerState], None]] = []

    @property
    def state(self) -> ServerState:
        """The last look."""
        return self._state

    def wait(self, after: int, timeout_s: float) -> ServerState:
        """The last look as soon as its number is above `after`, or whatever it is when the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.number > after, timeout_s)
            return self._state

    def poke(self) -> None:
        """Have the server looked at now."""
        with suppress(BlockingIOError):  # it is about to look anyway
            os.write(self._ring, b".")

    def look_again(self, timeout_s: float) -> ServerState:
        """A look that begins after this call, or the last one when the time is over."""
        called_at = time.monotonic()
        self.poke()
        with self._changed:
            self._changed.wait_for(lambda: self._state.at >= called_at, timeout_s)
            return self._state

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Watch until `stopping` is set."""
        while not stopping.is_set():
            beat()
            link = self._connect()
            if link is None:
                self._rest(None)
                continue
            try:
                while not stopping.is_set():
                    beat()
                    self._look(link)
                    if self._rest(link):
                        break
            except (OSError, Nonsense) as error:
                self._broken(error)
            finally:
                link.close()

    def _connect(self) -> Link | None:
        """A connection that is signed in; None, with the state told, when there is none."""
        try:
            return connected(*self._where, self._passwords(), ANSWER_S)
        except PermissionError as error:
            self._tell(Phase.REFUSING, detail=str(error))
        except (OSError, Nonsense) as error:
            self._broken(error)
        return None

    def _broken(self, error: Exception) -> None:
        if isinstance(error, TimeoutError):
            self._tell(Phase.SILENT, detail="no answer")
        elif isinstance(error, ConnectionRefusedError):
            self._tell(Phase.DOWN)
        # Anything else is the end of a connection, which is not yet the end of a server: connecting anew will tell.

    def _look(self, link: Link) -> None:
        began_at = time.monotonic()
        replies = link.ask(*_LOOK)
        errors = [reply for reply in replies if isinstance(reply, ErrorReply)]
        if errors:
            code = errors[0].code
            phase = Phase.LOADING if code == "LOADING" else Phase.SILENT if code == "BUSY" else Phase.REFUSING
            self._tell(phase, detail=errors[0].text)
            return
        nodes, cluster_info, info = (_text(reply) for reply in replies)
        told = replace(self._next(Phase.SERVING), at=began_at, nodes=nodes, cluster_info=cluster_info, info=info)
        if told.facts.get("loading", "0") != "0" or told.facts.get("async_loading", "0") != "0":
            self._tell(Phase.LOADING)
        else:
            self._publish(told)

    def _rest(self, link: Link | None) -> bool:
        """Wait until the next look is due, or somebody asks for it; whether the server has hung up meanwhile."""
        now = time.monotonic()
        moving = now - self._moved_at < MOTION_S
        if self._state.serving and not self._state.not_ready:
            pause_s = AT_REST_S * max(1.0, len(self._state.nodes) / LARGE_TABLE)
        else:
            pause_s = IN_MOTION_S if moving else AT_REST_S
        waited = select.select([self._bell, *([link] if link else [])], [], [], pause_s)[0]
        if self._bell in waited:
            os.read(self._bell, 4096)
            if not self._state.serving:
                self._moved_at = now
        return link in waited

    def _tell(self, phase: Phase, *, detail: str = "") -> None:
        self._publish(replace(self._next(phase), detail=detail))

    def _next(self, phase: Phase) -> ServerState:
        now, last = time.monotonic(), self._state
        return ServerState(last.number + 1, phase, now, last.since if phase is last.phase else now)

    def _publish(self, state: ServerState) -> None:
        told = _description(state)
        if told != self._told:
            self._told, self._moved_at = told, state.at
            self._log.info("watch", told)
        for listener in self.listeners:
            listener(state)
        with self._changed:
            self._state = state
            self._changed.notify_all()


def _text(reply: Reply) -> bytes:
    if not isinstance(reply, bytes):
        raise Nonsense("a reply of another kind than was asked for")
    return reply


def _description(state: ServerState) -> str:
    """How the server is, in words; equal as long as nothing has changed that a person cares for."""
    if not state.serving:
        return f"the server is {state.phase}{f': {state.detail}' if state.detail else ''}"
    role = "a replica" if state.is_replica else "a primary"
    return f"the server is {role}, {state.not_ready or 'ready'}"
