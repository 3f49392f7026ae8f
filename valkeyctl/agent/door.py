"""How the server's container asks the agent for something, and waits for its word: files and pipes on a shared volume.

The asker writes a random token to `request`, and gets it back in `permit`. Both are replaced as a whole, so that each
side can end and come back at any moment and goes on from what it finds. The pipes `wake` and `go` only wake the other
side, so that nobody has to look again and again: what counts is in the files.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from pathlib import Path

_TAKEN_BACK = "-"


class Door:
    """The agent's side of one such folder; start.sh and handover.sh are at the other."""

    def __init__(self, folder: Path) -> None:
        """Make folder and pipes where they don't exist yet: an asker may hold them open already."""
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("wake", "go"):
            _make_pipe(folder / name)
        # Both ends in one: so that it never reads as ended when the last asker closes it.
        self._wake = os.open(folder / "wake", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, timeout_s: float) -> None:
        """Return when somebody has asked, at the latest after `timeout_s`."""
        if select.select([self._wake], [], [], timeout_s)[0]:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)

    def knock(self) -> None:
        """Have whoever is in `wait` return; from another thread of the agent."""
        with suppress(BlockingIOError):  # so many knocks are unheard that one more makes no difference
            os.write(self._wake, b"\n")

    def asked(self) -> str:
        """The token of a request that has no answer yet; "" when there is none."""
        token = _word(self._folder / "request")
        return "" if token == _word(self._folder / "permit").lstrip(_TAKEN_BACK) else token

    def answered(self) -> str:
        """The token of the request that was answered last; "" when there was none, or the answer was taken back."""
        token = _word(self._folder / "permit")
        return "" if token.startswith(_TAKEN_BACK) else token

    def answer(self, token: str, text: str = "") -> None:
        """Answer a request; the asker goes on at once. `text`, one line, tells what became of it. Idempotent."""
        self._write(f"{token} {text}".rstrip())
        self.ring()

    def take_back(self) -> None:
        """Whatever the last answer permitted is over; the request that it was for isn't asked any more. Idempotent."""
        if token := self.answered():
            self._write(_TAKEN_BACK + token)

    def _write(self, line: str) -> None:
        written = self._folder / "permit.new"
        written.write_text(f"{line}\n")
        written.replace(self._folder / "permit")

    def ring(self) -> None:
        """Have the asker look at the answer. Does nothing when nobody waits."""
        try:
            go = os.open(self._folder / "go", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # nobody has it open for reading
            return
        # Nobody reads any more, or so many rings are unread that one more makes no difference.
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(go, b"\n")
        os.close(go)


def _word(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0].partition(" ")[0]
    except OSError:
        return ""


def _make_pipe(path: Path) -> None:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(path.stat().st_mode):
            path.unlink()
            os.mkfifo(path, 0o600)
