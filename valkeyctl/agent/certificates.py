"""Certificates of the running server: loaded anew when their files have changed, without a restart (report B7)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from valkeyctl.agent.mounts import read_together
from valkeyctl.agent.resp import ErrorReply, Link
from valkeyctl.agent.settings_live import Refused
from valkeyctl.dataplane.settings import pairs_of

_FILES = (
    "tls-cert-file",
    "tls-key-file",
    "tls-client-cert-file",
    "tls-client-key-file",
    "tls-ca-cert-file",
    "tls-dh-params-file",
)

_Picture: TypeAlias = Mapping[str, tuple[str, str]]
"""Setting → path and digest of the file, all as they were at one moment; without those that can't be read from here."""


class Certificates:
    """The certificates of one server. `look` is cheap, and may be called every few seconds."""

    def __init__(self) -> None:
        self._loaded: _Picture | None = None
        self._refused: _Picture | None = None
        self._seen: _Picture | None = None

    def look(self, link: Link) -> bool:
        """Has the server load its files where they have changed and stand still; True when it did. Idempotent.

        Files that are being swapped, or differ from what they were at the look before, are left for the next look:
        whoever writes them may be between a certificate and its key. What the server has read before the first look
        nobody knows, so it loads them once then. Files that it refuses are tried again when they change again.
        Raises Refused with its words, and as `Link.ask`.
        """
        files = _files(link)
        now = self._picture(files)
        steady, self._seen = now == self._seen, now
        if not now or not steady or now in (self._loaded, self._refused):
            return False
        # The same names again: the server reads the files at each of them, and takes all or none.
        reply = link.ask(("CONFIG", "SET", *(word for name in now for word in (name, files[name]))))[0]
        self._seen = self._picture(files)
        if self._seen != now:  # they were swapped under its eyes
            return False
        if isinstance(reply, ErrorReply):
            self._refused = now
            raise Refused(reply.text)
        renewed = (self._loaded or self._refused) is not None
        self._loaded = now
        return renewed

    def _picture(self, files: Mapping[str, str]) -> _Picture | None:
        """None while they are being swapped: they change while they are read, or one isn't there that was before."""
        there = {name: path for name, path in files.items() if os.access(path, os.R_OK)}
        before = self._loaded or {}
        if any(name not in there and before[name][0] == files[name] for name in files.keys() & before.keys()):
            return None
        try:
            contents = read_together({Path(path) for path in there.values()})
        except OSError:
            return None
        return {name: (path, sha256(contents[Path(path)]).hexdigest()) for name, path in there.items()}


def _files(link: Link) -> dict[str, str]:
    """Setting → path of the certificate files that the server uses."""
    reply = link.ask(("CONFIG", "GET", *_FILES))[0]
    if isinstance(reply, ErrorReply):
        raise Refused(reply.text)
    return {name: path for name, path in pairs_of(list(reply)).items() if path} if isinstance(reply, list) else {}
