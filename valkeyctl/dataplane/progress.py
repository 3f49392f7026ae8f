"""What a converge tells while it runs."""

from __future__ import annotations

from dataclasses import dataclass


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
