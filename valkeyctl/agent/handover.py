"""Handing the shard over before the server stops: for servers before 9.0, which don't do it themselves on SIGTERM.

The server container's preStop hook asks through a `Door`, and goes on when it is answered, whatever became of it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from valkeyctl.agent.door import Door
from valkeyctl.agent.logs import Log
from valkeyctl.agent.no_failover import must_not_take_over
from valkeyctl.agent.resp import ErrorReply, Link, Nonsense
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.watch import Watch

WITHIN_S = 10.0
"""Then the server stops as it is: its replicas elect one of themselves after the node timeout."""
TRY_S = 5.5
"""How long one replica has; the server gives up a failover that it was asked for after five seconds."""
LOOK_S = 0.05
_REPLICA = re.compile(r"slave\d+")


@dataclass(frozen=True)
class Copy:
    """A replica, as its primary sees it. `offset` in bytes of the replication stream."""

    address: str
    port: int
    offset: int


def copies(state: ServerState) -> list[Copy]:
    """The replicas that are in sync with the own server, the one that has most first."""
    return sorted(_online(state), key=lambda copy: copy.offset, reverse=True)


def _online(state: ServerState) -> Iterator[Copy]:
    """Read lines like `slave0:ip=10.1.2.3,port=6379,state=online,offset=14,lag=0`."""
    for name, value in state.facts.items():
        if _REPLICA.fullmatch(name):
            pairs = (part.partition("=") for part in value.split(","))
            told = {key: what for key, _, what in pairs}
            if told.get("state") == "online" and told.get("ip"):
                yield Copy(told["ip"], int(told.get("port", "0")), int(told.get("offset", "0")))


class Handover:
    """The thread that answers the hook."""

    def __init__(self, door: Door, watch: Watch, connect: Callable[[str, int], Link], log: Log) -> None:
        """`connect` gives a signed-in connection to a server by its address, or raises OSError."""
        self._door = door
        self._watch = watch
        self._connect = connect
        self._log = log

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Answer until `stopping` is set."""
        while not stopping.is_set():
            beat()
            token = self._door.asked()
            if token:
                became = self._hand_over()
                self._log.info("handover", became)
                self._door.answer(token, became)
            self._door.wait(1.0)

    def _hand_over(self) -> str:
        """Make a replica the primary; what became of it, for people."""
        deadline = time.monotonic() + WITHIN_S
        tried: set[tuple[str, int]] = set()
        while (state := self._watch.look_again(1.0)).serving:
            if state.is_replica:
                return "the server is a replica" if not tried else "handed over: the server is a replica now"
            best = next((copy for copy in copies(state) if (copy.address, copy.port) not in tried), None)
            if time.monotonic() > deadline or best is None:
                return "no replica took over" if tried else "there is no replica in sync to hand over to"
            tried.add((best.address, best.port))
            self._ask(best, min(deadline, time.monotonic() + TRY_S))
        return f"the server is {state.phase}"

    def _ask(self, replica: Copy, deadline: float) -> None:
        """Ask one replica to take over, and wait until it has, or won't in time."""
        try:
            with self._connect(replica.address, replica.port) as link:
                if must_not_take_over(link):
                    self._log.info("handover", f"{replica.address} is told to take over from nobody, as for a pause")
                    return
                reply = link.ask(("CLUSTER", "FAILOVER"))[0]
        except (OSError, Nonsense) as error:
            self._log.warning("handover", f"{replica.address} can't be asked: {error}")
            return
        if isinstance(reply, ErrorReply):
            self._log.warning("handover", f"{replica.address} refuses: {reply.text}")
            return
        while time.monotonic() < deadline:
            state = self._watch.look_again(1.0)
            if state.is_replica or not state.serving:
                return
            time.sleep(LOOK_S)
