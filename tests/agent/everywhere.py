"""Clients that write to every member's address all the time: whoever takes a write is seen, and when."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import valkey

from tests.agent.arbiters import Arbiters
from valkeyctl.dataplane import Member

PAUSE_S = 0.01
PATIENCE_S = 60.0
"""A write to a server that is frozen is waited for: it may take it when it thaws."""


@dataclass(frozen=True)
class Taken:
    """A write that a server acknowledged, between two times of the monotonic clock."""

    by: Member
    key: str
    began: float
    ended: float


class Everywhere:
    """Writes to all at once, each key once. A context manager."""

    def __init__(self, arbiters: Arbiters) -> None:
        self._arbiters = arbiters
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._taken: list[Taken] = []
        self._threads = [threading.Thread(target=self._run, args=(member,), daemon=True) for member in arbiters.pods]

    def __enter__(self) -> Everywhere:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()

    @property
    def taken(self) -> list[Taken]:
        """All writes that were acknowledged, in the order of that."""
        with self._lock:
            return sorted(self._taken, key=lambda one: one.ended)

    def turns(self) -> list[Member]:
        """Who took writes, one after the other. Were there two at once, their turns would be many, and short."""
        return [by for by, _ in itertools.groupby(one.by for one in self.taken)]

    def gap_s(self, since: float) -> float:
        """The longest time without an acknowledged write since then, until now."""
        ends = [since, *(one.ended for one in self.taken if one.ended >= since), time.monotonic()]
        return max(later - earlier for earlier, later in itertools.pairwise(ends))

    def after(self, since: float, *, but: Member | None = None) -> list[Taken]:
        """The writes that were begun after then."""
        return [one for one in self.taken if one.began >= since and one.by != but]

    def lost(self, member: Member, *, before: float = float("inf")) -> list[str]:
        """The acknowledged writes that a member doesn't have."""
        keys = [one.key for one in self.taken if one.ended < before]
        with self._arbiters.pods[member].client() as client:
            values = client.mget(keys) if keys else []
        return [key for key, value in zip(keys, values, strict=True) if value is None]

    def _run(self, member: Member) -> None:
        pod = self._arbiters.pods[member]
        for number in itertools.count():
            if self._ending.wait(PAUSE_S):
                return
            with suppress(OSError, valkey.ValkeyError), pod.client(PATIENCE_S) as client:
                self._write(client, member, f"{member}:{number}")

    def _write(self, client: valkey.Valkey, member: Member, first: str) -> None:
        """Write over one connection until something fails."""
        for number in itertools.count():
            began, key = time.monotonic(), f"{first}:{number}"
            client.set(key, "x")
            with self._lock:
                self._taken.append(Taken(member, key, began, time.monotonic()))
            if self._ending.wait(PAUSE_S):
                return
