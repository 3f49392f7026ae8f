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
