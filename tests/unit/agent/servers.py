"""Servers that are none: they say what a test wants, on a loopback address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Scripted:
    """Accepts connections and answers each read of bytes with what `answer` makes of them; None hangs up."""

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.received: list[bytes] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def end(self) -> None:
        """End as a process does: nobody listens, and every connection breaks."""
        # Only closing it would leave it listening for as long as a thread waits in `accept`.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.hang_up()

    def close(self) -> None:
        """End, if that hasn't been done."""
        if self._listening.fileno() >= 0:
            self.end()

    def hang_up(self) -> None:
        """Break every connection, and go on listening."""
        while self._open:
            connection = self._open.pop()
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1 << 16):
                self.received.append(data)
                answer = self._answer(data)
                if answer is None:
                    connection.close()
                    return
                connection.sendall(answer)
        except OSError:
            pass
