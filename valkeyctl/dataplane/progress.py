"""What a converge tells while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.weight import MB, Weight, amount

TOLD_EVERY_S = 0.5
"""The line of progress changes no more often."""
WEIGH_AFTER_S = 0.5
"""Moves that take longer than that are told in megabytes, too."""


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

    all: SlotSet = EMPTY
    weight: Weight | None = None
    _left: SlotSet = EMPTY
    _began: float | None = None
    _line: str = ""
    _told_at: float = float("-inf")

    def see(self, left: SlotSet, *, moving: bool) -> None:
        """These slots have yet to be moved now; `moving` says that somebody is at it."""
        if not left.issubset(self.all) and not self._left:
            self.all, self.weight, self._began = EMPTY, None, None
        self.all |= left
        if not left or not self._left:
            self._told_at = float("-inf")
        self._left = left
        if moving:
            self.begin()

    def begin(self) -> None:
        """Slots are moved from now on: what came before is no measure of the pace."""
        if self._began is None:
            self._began = time.monotonic()

    @property
    def wants_weight(self) -> bool:
        """Whether it is time to ask what the slots that are left hold. A move that is over soon isn't held up by it."""
        since = time.monotonic() - self._began if self._began is not None else 0.0
        return self.weight is None and bool(self._left) and since >= WEIGH_AFTER_S

    def line(self) -> str:
        """For a person; "" while nothing is moved. Stays the same for `TOLD_EVERY_S`, so that it can be read."""
        if not self._left or self._began is None:
            return ""
        now = time.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._line, self._told_at = told(self.all, self._left, self.weight, now - self._began), now
        return self._line


def told(every: SlotSet, left: SlotSet, weight: Weight | None, elapsed_s: float) -> str:
    """Slots done of all, megabytes where they are known, and the time left once there is a pace. Pure."""
    done = len(every) - len(left)
    parts = [f"{done} of {len(every)} slots moved"]
    whole, rest = (weight.size_of(every), weight.size_of(left)) if weight is not None else (0.0, 0.0)
    is_large = whole >= MB
    if is_large:
        parts.append(amount(whole - rest, of=whole))
    share = (whole - rest) / whole if is_large else done / len(every)
    if done and share > 0:
        parts.append(f"about {_spoken(elapsed_s * (1 - share) / share)} left")
    return ", ".join(parts)


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
