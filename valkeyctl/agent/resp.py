"""A small client of a server, on the standard library: what the agent asks before valkey-py may be imported (ADR 0051).

Protocol: https://valkey.io/topics/protocol/ (RESP 2).
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Word = str | int | bytes
Command = Sequence[Word]
_LARGEST = 64 << 20  # bytes of one reply: far more than the node table of the largest cluster


@dataclass(frozen=True)
class ErrorReply:
    """A server's refusal of one command, in its own words: "LOADING server is loading the dataset in memory"."""

    text: str

    @property
    def code(self) -> str:
        """The first word, by which refusals are told apart."""
        return self.text.partition(" ")[0]


Reply = bytes | int | None | ErrorReply | list["Reply"]


class Nonsense(Exception):  # noqa: N818  (what it is)
    """What came isn't the protocol."""


class Link:
    """One connection to one server, for one thread. After an OSError or Nonsense it is of no more use."""

    def __init__(self, address: str, port: int, timeout_s: float) -> None:
        """Connect. Connecting, and each round trip after it, may take `timeout_s`. Raises OSError."""
        self._socket = socket.create_connection((address, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")

    def sign_in(self, password: bytes) -> ErrorReply | None:
        """Sign in as the default user; the refusal where there was one. Raises as `ask`."""
        reply = self.ask(("AUTH", password))[0]
        return reply if isinstance(reply, ErrorReply) else None

    def ask(self, *commands: Command) -> list[Reply]:
        """Send all commands at once; their replies in order, refusals among them.

        Raises OSError when the connection breaks off or is silent for too long, and Nonsense.
        """
        self._socket.sendall(b"".join(_packed(command) for command in commands))
        return [self._reply() for _ in commands]

    def fileno(self) -> int:
        """For select and poll: readable when the server hangs up."""
        return self._socket.fileno()

    def gone(self) -> bool:
        """Whether the server has hung up. Between two calls of `ask` nothing else makes the connection readable."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Hang up. Never raises."""
        try:
            self._reader.close()
            self._socket.close()
        except OSError:
            pass

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self) -> bytes:
        line = self._reader.readline(_LARGEST)
        if not line:
            raise ConnectionResetError("the server hung up")
        if not line.endswith(b"\r\n"):
            raise Nonsense("a line without an end")
        return line[:-2]

    def _reply(self) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest.decode(errors="replace"))
        try:
            number = int(rest)
        except ValueError:
            raise Nonsense("a reply of an unknown kind") from None
        if kind == b":":
            return number
        if kind not in (b"$", b"*") or number > _LARGEST:
            raise Nonsense("a reply of an unknown kind")
        if number < 0:
            return None
        if kind == b"*":
            return [self._reply() for _ in range(number)]
        body = self._reader.read(number + 2)
        if len(body) < number + 2:
            raise ConnectionResetError("the server hung up")
        return body[:-2]


def connected(address: str, port: int, passwords: Iterable[bytes], timeout_s: float) -> Link:
    """A connection that is signed in with the first of these passwords that the server takes.

    Raises OSError, of which PermissionError says that it took none, and Nonsense.
    """
    tried = tuple(passwords)
    if not tried:
        Link(address, port, timeout_s).close()  # whether anybody is there is to be told in any case
    refused = "no password is known"
    for password in tried:
        link = Link(address, port, timeout_s)
        try:
            refusal = link.sign_in(password)
        except BaseException:
            link.close()
            raise
        if refusal is None or refusal.code == "LOADING":
            return link
        link.close()
        refused = refusal.text
    raise PermissionError(refused)


def _packed(command: Command) -> bytes:
    words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
