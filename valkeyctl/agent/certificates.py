"""Certificates of the running server: loaded anew when their files have changed, without a restart (report B7)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

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


class Certificates:
    """The certificates of one server. `look` is cheap, and may be called every few seconds."""

    def __init__(self) -> None:
        self._loaded: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def look(self, link: Link) -> bool:
        """Has the server load its files where they changed since the last look; True when it did. Idempotent.

        Files that the server refuses (a key that doesn't fit yet: the two are written one after the other) are tried
        again when they change again. Raises Refused with its words, and as `Link.ask`. The first look only remembers.
        """
        files = _files(link)
        now = {name: digest for name, path in files.items() if (digest := _digest(Path(path)))}
        if not self._loaded or set(now) != set(self._loaded):
            self._loaded = now
            return False
        if now in (self._loaded, self._refused):
            return False
        # The same names again: the server reads the files at each of them, and takes all or none.
        reply = link.ask(("CONFIG", "SET", *(word for name in now for word in (name, files[name]))))[0]
        if isinstance(reply, ErrorReply):
            self._refused = now
            raise Refused(reply.text)
        self._loaded = now
        return True


def _files(link: Link) -> dict[str, str]:
    """Setting → path of the certificate files that the server uses."""
    reply = link.ask(("CONFIG", "GET", *_FILES))[0]
    if isinstance(reply, ErrorReply):
        raise Refused(reply.text)
    return {name: path for name, path in pairs_of(list(reply)).items() if path} if isinstance(reply, list) else {}


def _digest(path: Path) -> str:
    """ "" where the file isn't there at the moment: Kubernetes swaps a whole folder."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
