"""Who decides which member is the primary, as all other parts of a dataset's agent see it.

Three do: `up` and the leading agent (a `replica` without automatic failover), the Lease (with it), the Sentinels
(`failover`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.dataplane.model import Member

Told = Mapping[Member, DatasetTale]
"""The other members that have told of themselves, each by its newest tale, none older than a second."""


@dataclass(frozen=True)
class StartAs:
    """The server may start: as a replica of `follow` (None: of nobody), or as the primary where it is `writable`.

    A replica of nobody takes no writes, keeps what it has, and gives no copy to anybody. `warning` says that newer data
    may be lost by it.
    """

    why: str
    follow: Member | None = None
    writable: bool = False
    warning: bool = False

    def __post_init__(self) -> None:
        if self.writable and self.follow is not None:
            raise ValueError("a primary follows nobody")

    def __str__(self) -> str:
        """One line for a log."""
        role = "the primary" if self.writable else f"a replica of {self.follow or 'nobody yet'}"
        return f"the server may start as {role}: {self.why}"


@dataclass(frozen=True)
class Wait:
    """The server must not start yet. The wait ends at `until_s` whatever happens, counted as `waited_s` is."""

    why: str
    until_s: float

    def __str__(self) -> str:
        """One line for a log."""
        return f"the server waits, for {self.until_s:g} s at most: {self.why}"


class Decider(Protocol):
    """One who decides, or knows who was decided for. All methods may be called from any thread and return soon."""

    @property
    def primary(self) -> Member | None:
        """Who is the primary by the newest decision that is known here; None where that isn't known for sure.

        When this is the own member, and the own server is a primary, its agent has clients come to it at once.
        """
        ...

    def start_as(self, me: DatasetTale, told: Told, waited_s: float) -> StartAs | Wait:
        """How the own server, which is down, may start. `waited_s` counts from when the start was asked for.

        Never writable, but where nobody else can be, and nobody has newer data.
        """
        ...

    def hand_over(self, deadline: float) -> str:
        """The own server is about to be stopped: where it is the primary, have another take the role over, and wait
        for that until `deadline` (monotonic clock). What became of it, for people. Never raises.
        """
        ...

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Do what is to be done while the server runs, until `stopping` is set. Its thread."""
        ...
