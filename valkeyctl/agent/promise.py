"""What this agent promises to those who may stand in for its server: that none runs, and that none starts for a moment.

Whoever was told so may act on it until `PROMISE_S` is over, whatever becomes of this agent meanwhile. So it is noted on
the shared volume before it is told, and an agent that comes back stands by what the one before has promised.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from valkeyctl.agent.kept import replace_file

PROMISE_S = 1.0
"""How long nothing starts after somebody was told so who may act on it; who acts is quicker (`promotion.ACT_S`)."""


class Promise:
    """Whether a start may be permitted; from any thread. `file` is on a volume that outlives the agent's process.

    Two things never overlap: that somebody may act on having been told that the server is held, and a start.
    """

    def __init__(self, file: Path, *, permitted: bool, now: Callable[[], float] = time.monotonic) -> None:
        """`permitted` is what was so before this process. `now` is a clock that all processes of the machine share, in
        seconds; it begins anew when the machine does.
        """
        self._file, self._now = file, now
        self._lock = threading.Lock()
        self._permitted, self._starting = permitted, False
        self._given_at = self._noted()

    @property
    def held(self) -> bool:
        """Whether no start is permitted, or about to be."""
        return not self._permitted and not self._starting

    def give(self) -> bool:
        """Promise that nothing starts for `PROMISE_S`; False where that can't be promised any more.

        Raises OSError where it can't be noted: then nothing is promised either.
        """
        with self._lock:
            if not self.held:
                return False
            now = self._now()
            replace_file(self._file, f"{now!r}\n".encode())
            self._given_at = now
            return True

    def intend(self, *, start: bool) -> bool:
        """Say what the verdict on a start is; nothing is promised from now on if it is to start. Whether it may start
        now: False while somebody may still act on an earlier promise, who is to be waited for.
        """
        with self._lock:
            self._starting = start
            return start and self._now() - self._given_at > PROMISE_S

    def permit(self) -> None:
        """A start is permitted: to be called only after `intend` said so."""
        with self._lock:
            self._permitted, self._starting = True, False

    def withdraw(self) -> None:
        """What was permitted is over: the server has ended, or asks to start anew. Idempotent."""
        with self._lock:
            self._permitted = False

    def _noted(self) -> float:
        now = self._now()
        try:
            given_at = float(self._file.read_text())
        except FileNotFoundError:
            return float("-inf")
        except (OSError, ValueError):
            return now
        # Of a time to come: noted before the machine began anew, nobody knows how long ago.
        return given_at if given_at <= now else now
