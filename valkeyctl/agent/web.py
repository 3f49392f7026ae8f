"""The agent's port: probes of the kubelet, and questions of other agents. Read-only: nothing is changed through it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping

from valkeyctl.agent import http
from valkeyctl.agent.logs import Log

PATIENCE_S = 2.0
"""How long a client may take for its request, and for taking the answer."""
AT_ONCE = 64
"""Connections that are served at the same time; more wait in the kernel's queue."""

Answer = Callable[[http.Message], bytes]
"""Answers one request with the bytes of a response."""
Question = Callable[[], tuple[bool, str]]
"""What a probe asks: whether it is so, and a line for a person why or why not."""


def probe(question: Question) -> Answer:
    """Answers a GET of the kubelet: 200 for yes, 503 for no, with the reason, which shows in the Pod's events."""

    def answer(asked: http.Message) -> bytes:
        if asked.method not in ("GET", "HEAD"):
            return http.response(405, b"probes are asked by GET\n", {"Allow": "GET"})
        good, why = question()
        return http.response(200 if good else 503, f"{why}\n".encode(), {"Content-Type": "text/plain; charset=utf-8"})

    return answer


class Web:
    """Serves the paths that it is given, each connection in a thread of its own."""

    def __init__(self, address: str, port: int, paths: Mapping[str, Answer], log: Log) -> None:
        """Listen. Raises OSError when that isn't possible."""
        self._paths = paths
        self._log = log
        self._slots = threading.Semaphore(AT_ONCE)
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((address, port))
        self._socket.listen(128)
        self._socket.settimeout(1.0)

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Serve until `stopping` is set."""
        with self._socket:
            while not stopping.is_set():
                beat()
                if not self._slots.acquire(timeout=1.0):
                    continue
                try:
                    connection, _ = self._socket.accept()
                except TimeoutError:
                    self._slots.release()
                    continue
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                answer = self._answer(connection)
                connection.settimeout(PATIENCE_S)
                connection.sendall(answer)
        except OSError:  # a client that has gone, or that takes its time
            pass
        finally:
            self._slots.release()

    def _answer(self, connection: socket.socket) -> bytes:
        received, asked = b"", None
        deadline = time.monotonic() + PATIENCE_S
        while asked is None:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            part = connection.recv(1 << 16)
            received += part
            try:
                asked = http.parse(received, ended=not part)
            except http.Malformed as error:
                return http.response(400, f"{error}\n".encode())
        answer = self._paths.get(asked.path)
        if answer is None:
            return http.response(404, b"no such path\n")
        try:
            return answer(asked)
        except Exception as error:  # noqa: BLE001 - one request that can't be answered is no reason to end
            self._log.error("web", f"a request for {asked.path} failed: {type(error).__name__}: {error}")
            return http.response(500, b"the agent has a fault\n")
