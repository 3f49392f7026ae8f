"""A changed password without a window in which somebody is locked out (report F11).

At first the server takes the new password beside the old one. When every member does so, this server signs in to its
primary with the new one. The old one goes when every member takes the new one, and applications, which get a changed
Secret a minute or so late, have had their time. What is open is in the kept files, so that another agent process goes
on; all waits are bounded, since a password may be changed because the old one is known to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from valkeyctl.agent.kept import Passwords

ASK_EVERY_S = 1.0
"""Between two questions to the members that don't take a new password yet."""


@dataclass(frozen=True)
class Pace:
    """How long the parts of a change take at most, in seconds.

    `old_s`: how long the old password is taken, once every member takes the new one. `move_s`: how long members that
    don't are waited for before this server signs in with the new one all the same. `give_up_s`: how long before the old
    password goes all the same.
    """

    old_s: float = 120.0
    move_s: float = 30.0
    give_up_s: float = 600.0


class Rotation:
    """One server's passwords on their way. `kept` is what the server was last told. Not for several threads."""

    def __init__(
        self,
        kept: Passwords,
        *,
        tell: Callable[[Passwords], bool],
        missing: Callable[[bytes], Collection[str]],
        note: Callable[[str], None],
        pace: Pace = Pace(),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` makes the server take these passwords, keeps them, and returns whether that worked. `missing` asks
        which members, by name, don't take a password (yet), or can't be asked. `note` takes lines for the log.
        """
        self._kept, self._tell, self._missing, self._note = kept, tell, missing, note
        self._pace, self._now = pace, now
        self._began_at = now()
        self._agreed_at: float | None = None
        self._lacking: Collection[str] = ()
        self._asked_at = float("-inf")

    @property
    def kept(self) -> Passwords:
        """What the server was last told."""
        return self._kept

    @property
    def open(self) -> bool:
        """Whether a change is under way."""
        return bool(self._kept.former) or self._kept.primary != self._kept.current

    def change(self, password: bytes) -> None:
        """The Secret says `password`. Does nothing where that is the current one."""
        kept = self._kept
        if password == kept.current:
            return
        former = tuple(one for one in (kept.current, *kept.former) if one != password)
        if self._take(Passwords(password, former, kept.primary)):
            self._began_at, self._agreed_at, self._asked_at = self._now(), None, float("-inf")
            self._note("the server takes the new password, and the former one for now")

    def go_on(self) -> None:
        """Takes the next step where it is due. To be called about once a second while `open`."""
        if not self.open:
            return
        kept, now = self._kept, self._now()
        waited_s = now - self._began_at
        lacking = self._ask(kept.current, now)
        if kept.primary != kept.current:
            if (not lacking or waited_s >= self._pace.move_s) and self._take(
                Passwords(kept.current, kept.former, kept.current)
            ):
                self._note("the server signs in to its primary with the new password")
            return
        agreed_s = None if self._agreed_at is None else now - self._agreed_at
        if (agreed_s is not None and agreed_s >= self._pace.old_s) or waited_s >= self._pace.give_up_s:
            late = f"; it was never seen that {', '.join(lacking)} took the new one" if lacking else ""
            if self._take(Passwords(kept.current, (), kept.current)):
                self._note(f"the server takes the former password no more{late}")

    def _ask(self, password: bytes, now: float) -> Collection[str]:
        """The members that don't take it yet; once all do, that is believed."""
        if self._agreed_at is None and now - self._asked_at >= ASK_EVERY_S:
            self._asked_at, self._lacking = now, self._missing(password)
            if not self._lacking:
                self._agreed_at = now
        return self._lacking

    def _take(self, passwords: Passwords) -> bool:
        if not self._tell(passwords):
            return False
        self._kept = passwords
        return True
