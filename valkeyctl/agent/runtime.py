"""What the parts of the agent share: the leader and the settings are given one of these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from valkeyctl.agent.environment import Environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.tale import Tale
from valkeyctl.dataplane.model import Member


class Server(Protocol):
    """The own server, watched; `watch.Watch` is one."""

    @property
    def state(self) -> ServerState:
        """The last look. About one second old at most while the server serves."""
        ...

    def wait(self, after: int, timeout_s: float) -> ServerState:
        """The last look as soon as its number is above `after`, or whatever it is when the time is over."""
        ...

    def poke(self) -> None:
        """Have it looked at now. Returns at once."""
        ...


class Peers(Protocol):
    """The other members' agents; `peers.Peers` is one."""

    def addresses(self) -> Mapping[Member, str]:
        """Where the other members are, as far as is known: by the API server, else by the own server's node table."""
        ...

    def learn(self, addresses: Mapping[Member, str]) -> None:
        """Take over addresses that the API server told. A member that isn't among them keeps what is known of it."""
        ...

    @property
    def missing(self) -> frozenset[Member]:
        """The members that were asked just now and didn't answer: they may be at other addresses by now."""
        ...

    def ask(self, members: Iterable[Member], timeout_s: float) -> Mapping[Member, Tale]:
        """The tales that these members' agents tell now; who doesn't answer in time isn't in it."""
        ...


@dataclass(frozen=True)
class Runtime:
    """One agent, as its leader and its settings see it.

    `password` reads what the server takes now (bytes, never to be logged). `stopping` is set when the process is asked
    to end: a part then returns from its `run` within two seconds. `beat(part)` is to be called at least every 60 s by a
    part's thread, so that a part that hangs is found. A part that raises ends the process, and the kubelet starts it
    again.
    """

    environment: Environment
    log: Log
    stopping: threading.Event
    server: Server
    peers: Peers
    password: Callable[[], bytes]
    beat: Callable[[str], None]


class Part(Protocol):
    """What main starts in a thread of its own once the server runs, made with a Runtime: Leader, ConfigSync."""

    def run(self) -> None:
        """Work until `stopping` is set."""
        ...
