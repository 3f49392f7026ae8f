"""As much of HTTP/1.1 as probes and agents speak: one short message each way, then the connection ends.

The standard library's server and client take longer to import than the whole agent takes to start (ADR 0051).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LARGEST = 1 << 20
"""Bytes of a whole message; the tale of a member of the largest cluster has some 30 KiB."""
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Malformed(Exception):  # noqa: N818  (what it is)
    """What came isn't such a message."""


@dataclass(frozen=True)
class Message:
    """A request or a response: its first line in three words, its headers by their lower-case names, its body."""

    start: tuple[str, str, str]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    @property
    def method(self) -> str:
        """Of a request."""
        return self.start[0]

    @property
    def path(self) -> str:
        """Of a request, without its query."""
        return self.start[1].partition("?")[0]

    @property
    def status(self) -> str:
        """Of a response: "200"."""
        return self.start[1]


def parse(received: bytes, *, ended: bool = False) -> Message | None:
    """The message that these bytes are; None when more have to come. Raises Malformed.

    `ended` says that no more will come.
    """
    head, blank, rest = received.partition(b"\r\n\r\n")
    if not blank:
        if ended or len(received) > LARGEST:
            raise Malformed("a message without an end")
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) != 3:
        raise Malformed("the first line has not three words")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "transfer-encoding" in headers:
        raise Malformed("only messages of a known length are understood")
    length = headers.get("content-length", "0")
    if not length.isdigit() or len(length) > 9 or int(length) > LARGEST:
        raise Malformed("the length is no number, or too large")
    if len(rest) < int(length):
        if ended:
            raise Malformed("the message breaks off")
        return None
    return Message((words[0], words[1], words[2]), headers, rest[: int(length)])


def request(method: str, path: str, host: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a request."""
    return _message(f"{method} {path} HTTP/1.1", {"Host": host, **headers}, body)


def response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a response."""
    return _message(f"HTTP/1.1 {status} {_REASONS[status]}", headers or {}, body)


def _message(first: str, headers: Mapping[str, str], body: bytes) -> bytes:
    every = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = [first, *(f"{name}: {value}" for name, value in every.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
