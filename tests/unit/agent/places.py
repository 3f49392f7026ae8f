"""A member's place in a folder, and parts of an agent that a test plays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from valkeyctl.agent.environment import Environment
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Role, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import SlotSet

ONE, OTHER = Member(0, 0), Member(0, 1)
ONE_ID, OTHER_ID = "1" * 40, "2" * 40
SLOTS = SlotSet.span(0, 16383)


def place(folder: Path, member: Member = ONE) -> Environment:
    """The environment of a member whose mounts are folders; its Secret and settings are there."""
    for name in ("config", "data", "run"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "config" / "valkey.conf").write_text("appendonly no\n")
    (folder / "config" / "live.conf").write_text('maxmemory "1gb"\n')
    (folder / "password").write_bytes(b"secret")
    pod = f"t-{member}"
    return Environment(
        pod=pod,
        namespace="n",
        instance="t",
        address="127.9.0.1",
        host=f"{pod}.t-headless.n.svc",
        member=member,
        config=folder / "config",
        secret=folder / "password",
        data=folder / "data",
        run=folder / "run",
    )


def primary_tale(**changed: object) -> Tale:
    """ONE, down and held, a primary with nothing on its disk whose replica was OTHER."""
    fields: dict[str, object] = {
        "member": ONE,
        "server": Server.DOWN,
        "held": True,
        "node_id": ONE_ID,
        "slots": SLOTS,
        "config_epoch": 1,
        "current_epoch": 1,
        "followers": (Follower(OTHER_ID, OTHER, ONE_ID),),
    }
    return Tale(**{**fields, **changed})  # type: ignore[arg-type]


def replica_tale(**changed: object) -> Tale:
    """OTHER, up, a replica of ONE that has all its data."""
    fields: dict[str, object] = {
        "member": OTHER,
        "server": Server.UP,
        "node_id": OTHER_ID,
        "role": Role.REPLICA,
        "primary_id": ONE_ID,
        "current_epoch": 1,
        "data": Data(Kind.LIVE, "r" * 40, 1000),
        "synced": True,
        "owners": (Owner(ONE_ID, ONE, 1, SLOTS),),
    }
    return Tale(**{**fields, **changed})  # type: ignore[arg-type]


def promoted_tale() -> Tale:
    """OTHER after it was promoted."""
    return replica_tale(role=Role.PRIMARY, primary_id="", slots=SLOTS, config_epoch=2, current_epoch=2, owners=())


@dataclass
class PlayedWatch:
    """A watch whose state a test sets."""

    state: ServerState = field(default_factory=lambda: ServerState(0, Phase.DOWN, time.monotonic(), time.monotonic()))
    pokes: int = 0
    late: bool = False

    def poke(self) -> None:
        self.pokes += 1

    def wait(self, _after: int, _timeout_s: float) -> ServerState:
        return self.state

    def look_again(self, _timeout_s: float) -> ServerState:
        """A look that shows the same again; one that comes too late where `late`."""
        if not self.late:
            self.state = replace(self.state, at=time.monotonic())
        return self.state

    def turn(self, phase: Phase, *, info: bytes = b"") -> ServerState:
        """Take another state, and return it."""
        now = time.monotonic()
        self.state = ServerState(self.state.number + 1, phase, now, now, info=info)
        return self.state


@dataclass
class PlayedTelling:
    """Tells the tale that a test gives; an exception is raised."""

    tale: Tale | Exception
    missed: int = 0

    def now(self) -> Tale:
        if isinstance(self.tale, Exception):
            raise self.tale
        return self.tale

    def or_nothing(self) -> Tale:
        return self.tale if isinstance(self.tale, Tale) else Tale(ONE, data=Data(Kind.UNKNOWN))

    def missed_some(self) -> None:
        self.missed += 1


@dataclass
class PlayedPeers:
    """Answers with the tales that a test gives."""

    tales: Callable[[], Mapping[Member, Tale]]
    asked: list[frozenset[Member]] = field(default_factory=list[frozenset[Member]])

    def ask(self, members: Iterable[Member], _timeout_s: float) -> Mapping[Member, Tale]:
        wanted = frozenset(members)
        self.asked.append(wanted)
        return {member: tale for member, tale in self.tales().items() if member in wanted}


class Running:
    """Runs a part's thread while the context lasts. It must end when it is asked to."""

    def __init__(self, run: Callable[[threading.Event], None]) -> None:
        self.stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(run,))

    def _run(self, run: Callable[[threading.Event], None]) -> None:
        try:
            run(self.stopping)
        except BaseException as error:  # noqa: BLE001 - told when the context ends
            self._failure = error

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join(10)
        assert not self._thread.is_alive()
        assert self._failure is None, self._failure


def eventually(holds: Callable[[], object], within_s: float = 10.0) -> None:
    """Return once it holds; fail when it doesn't in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.01)
