"""Messages of HTTP, and the agent's port."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from valkeyctl.agent import http
from valkeyctl.agent.logs import Log
from valkeyctl.agent.web import Web, probe


def test_reads_what_it_writes() -> None:
    written = http.request("POST", "/peer/tale?x", "a-host", {"A-Header": "one: two"}, b"\r\n\r\nbody")
    for end in range(len(written)):
        assert http.parse(written[:end]) is None
    read = http.parse(written)
    assert read is not None
    assert (read.method, read.path, read.headers["a-header"], read.body) == (
        "POST",
        "/peer/tale",
        "one: two",
        b"\r\n\r\nbody",
    )
    answer = http.parse(http.response(503, b"no"))
    assert answer is not None
    assert (answer.status, answer.body) == ("503", b"no")


@pytest.mark.parametrize(
    "received",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"x" * (http.LARGEST + 1),
    ],
)
def test_refuses_what_is_no_message(received: bytes) -> None:
    with pytest.raises(http.Malformed):
        http.parse(received)


@pytest.mark.parametrize("received", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab"])
def test_a_message_that_breaks_off_is_none(received: bytes) -> None:
    assert http.parse(received) is None
    with pytest.raises(http.Malformed):
        http.parse(received, ended=True)


class Served:
    """A web with one probe that a test can turn, and one path that fails."""

    def __init__(self) -> None:
        self.good = True
        self.log = io.StringIO()
        self.stopping = threading.Event()
        self.beats = 0

        def fails(_: http.Message) -> bytes:
            raise KeyError("a fault")

        paths = {"/ready": probe(lambda: (self.good, "it is so")), "/fails": fails}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        web = Web("127.0.0.1", self.port, paths, Log(to=self.log))
        self.thread = threading.Thread(target=web.run, args=(self.stopping, self._beat))
        self.thread.start()

    def _beat(self) -> None:
        self.beats += 1

    def ask(self, method: str, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.stopping.set()
    made.thread.join(10)
    assert not made.thread.is_alive()


def test_probes(served: Served) -> None:
    assert served.ask("GET", "/ready") == (200, "it is so\n")
    served.good = False
    assert served.ask("GET", "/ready") == (503, "it is so\n")
    assert served.ask("POST", "/ready")[0] == 405
    assert served.ask("GET", "/other")[0] == 404
    assert served.beats > 0


def test_one_request_that_fails_is_told_and_hurts_no_other(served: Served) -> None:
    assert served.ask("GET", "/fails")[0] == 500
    assert "a request for /fails failed: KeyError" in served.log.getvalue()
    assert served.ask("GET", "/ready")[0] == 200


def test_a_client_that_says_nothing_keeps_nobody_waiting(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as silent:
        began = time.monotonic()
        assert served.ask("GET", "/ready")[0] == 200
        assert time.monotonic() - began < 1.5
        silent.settimeout(10)
        assert silent.recv(1) == b"", "it is hung up on in the end"


def test_nonsense_is_answered_as_such(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"hello\r\n\r\n")
        client.settimeout(10)
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")
