"""What a converge tells while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """A change worth telling.

    `elapsed_s` since the converge began; `text` is one line of where it stands; `new` are the steps done since the last
    report, `done` all steps so far, in order, one line each; `waiting` says what is waited for.
    """

    elapsed_s: float
    text: str
    new: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass
class MoveClock:
    """How far the moves of slots are, over all observations of a run."""

    total: int = 0
    _left: int = 0
    _began: float = 0.0

    def see(self, left: int) -> None:
        """So many slots have yet to be moved now."""
        if left and not self._left:
            self.total, self._began = left, time.monotonic()
        self.total = max(self.total, left)
        self._left = left

    def __str__(self) -> str:
        """One line for a person; "" while nothing is to be moved."""
        if not self._left:
            return ""
        done = self.total - self._left
        line = f"{done} of {self.total} slots moved"
        if not done:
            return line
        left_s = (time.monotonic() - self._began) * self._left / done
        return f"{line}, about {_spoken(left_s)} left"


def _spoken(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@dataclass
class Teller:
    """Passes changes on, and nothing that was told just before."""

    listener: Callable[[Progress], None]
    done: tuple[str, ...] = ()
    _began: float = field(default_factory=time.monotonic)
    _last: tuple[str, tuple[str, ...]] = ("", ())

    def say(self, text: str, waiting: tuple[str, ...], *, new: tuple[str, ...] = ()) -> None:
        """Tell where things stand; silent when nothing is new."""
        if not new and (text, waiting) == self._last:
            return
        self._last = (text, waiting)
        self.done += new
        self.listener(Progress(time.monotonic() - self._began, text, new, self.done, waiting))
