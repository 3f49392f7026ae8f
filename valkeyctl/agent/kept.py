"""What this Pod's server runs with, kept in files on the memory volume that agent and server share.

A new Pod takes it from the mounted ConfigMap and Secret. From then on only what a running server has accepted is
written, so that the next start in the same Pod reads neither a mount that is a minute old nor a setting that the server
refused (report B5). Nothing here survives the Pod.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from valkeyctl.agent.mounts import read_together

BASE, LIVE, DEFAULTS = "valkey.conf", "live.conf", "defaults.json"
"""The files of the ConfigMap: what takes a start of the server, what it takes while it runs, and its own defaults."""

_BASE, _LIVE = "base.conf", LIVE
_CURRENT, _FORMER, _PRIMARY = "password", "password.former", "password.primary"


@dataclass(frozen=True)
class Passwords:
    """Passwords of the server, as bytes, never shown.

    `current` is the one that the Secret says, `former` are those that are accepted for some time beside it, and
    `primary` is the one with which this server signs in to a primary.
    """

    current: bytes = field(repr=False)
    former: tuple[bytes, ...] = field(default=(), repr=False)
    primary: bytes = field(default=b"", repr=False)

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """All that the server lets in, the current one first."""
        return (self.current, *self.former)


@dataclass(frozen=True)
class Kept:
    """The files in the folder `run`. All but `begin` need that it was called in this Pod."""

    run: Path

    def begin(self, config: Path, secret: Path) -> None:
        """Takes the files of a new Pod from the mounted ConfigMap and password file; in an older one does nothing.

        Raises OSError where a mount is missing, ValueError where the password is empty: such a server would be open to
        everyone.
        """
        if (self.run / _BASE).exists():
            return
        password = secret.read_bytes()
        if not password:
            raise ValueError(f"the password is empty: {secret}")
        settings = read_together((config / LIVE, config / BASE))
        self.write_live(settings[config / LIVE].decode())
        self.write_passwords(Passwords(password, primary=password))
        # Last: it says that all is there.
        replace_file(self.run / _BASE, settings[config / BASE])

    @property
    def base(self) -> str:
        """The lines of the server's file that this Pod began with."""
        return (self.run / _BASE).read_text()

    @property
    def live(self) -> str:
        """The lines of the server's file that were last applied."""
        return (self.run / _LIVE).read_text()

    def write_live(self, text: str) -> None:
        """Keeps what the server has accepted."""
        replace_file(self.run / _LIVE, text.encode())

    @property
    def passwords(self) -> Passwords:
        """The passwords that the server was last told."""
        former = (self.run / _FORMER).read_text().split() if (self.run / _FORMER).exists() else []
        return Passwords(
            current=(self.run / _CURRENT).read_bytes(),
            former=tuple(bytes.fromhex(line) for line in former),
            primary=(self.run / _PRIMARY).read_bytes(),
        )

    def write_passwords(self, passwords: Passwords) -> None:
        """Keeps them. Whoever reads in between finds one that the server accepts: it accepts the former ones too."""
        replace_file(self.run / _FORMER, "\n".join(password.hex() for password in passwords.former).encode())
        replace_file(self.run / _PRIMARY, passwords.primary)
        replace_file(self.run / _CURRENT, passwords.current)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file that only this user may read, so that readers find either the old or the new content."""
    beside = path.with_name(f".{path.name}.new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    beside.replace(path)
