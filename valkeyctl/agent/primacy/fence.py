"""The dead man's switch: a file that says until when this Pod's server may take writes, watched by watchdog.sh.

What holds at any moment, whatever is frozen or killed: a server takes writes only while the file says `primary` with a
time that isn't over (or `alone`). So the file says it before the server is made a primary, and `replica` only after it
is seen that the server is none and can't become one by what was sent to it before.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from valkeyctl.agent.kept import replace_file

FILE = "writable-until"
ALONE = math.inf
"""The end of a time that doesn't end: nobody may take over from this member."""
_REPLICA, _ALONE, _PRIMARY = "replica", "alone", "primary"


Clock = Callable[[], float]
"""Tells the time in seconds; `boot_time`, but in tests."""


def boot_time() -> float:
    """Seconds since the machine was started, asleep or not: what /proc/uptime counts, in any container alike."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fence:
    """Writes the file. From any thread; `lock` is to be held over what has to agree with it."""

    def __init__(self, run: Path) -> None:
        """Go on with what an agent before this one has written. Raises OSError where that isn't possible."""
        self._path = run / FILE
        self.lock = threading.RLock()
        text = self._path.read_text() if self._path.exists() else ""
        self._until = _until(text)
        if text.split() == [] or (self._until is None and text.split()[0] != _REPLICA):
            self._write(_REPLICA)

    @property
    def until(self) -> float | None:
        """Until when the server may take writes, as `boot_time` counts; None where it may not."""
        return self._until

    def arm(self, until: float) -> None:
        """The server may take writes until then (ALONE: without an end). Never moves the end to an earlier time."""
        with self.lock:
            if self._until is not None and until <= self._until < ALONE:
                return
            self._until = until
            self._write(_ALONE if until == ALONE else f"{_PRIMARY} {int(until * 100)}")

    def stand_down(self) -> None:
        """The server takes no writes, and isn't about to. Idempotent."""
        with self.lock:
            if self._until is not None:
                self._until = None
                self._write(_REPLICA)

    def _write(self, line: str) -> None:
        replace_file(self._path, f"{line}\n".encode())


def _until(text: str) -> float | None:
    match text.split():
        case ["primary", until] if until.isdigit():
            return int(until) / 100
        case ["alone"]:
            return ALONE
        case _:
            return None
