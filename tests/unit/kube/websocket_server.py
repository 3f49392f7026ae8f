"""The API server's end of a port-forward, in this process: a websocket that speaks `v4.channel.k8s.io`."""

from __future__ import annotations

import base64
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE, PING = 2, 8, 9


class Session:
    """One port-forward as the server sees it."""

    def __init__(self, connection: socket.socket, path: str, headers: dict[str, str]) -> None:
        self.connection, self.path, self.headers = connection, path, headers

    def greet(self, port: int) -> None:
        """The first frame of each channel: the port."""
        for channel in (0, 1):
            self.send(bytes([channel]) + port.to_bytes(2, "little"))

    def send(self, payload: bytes, opcode: int = BINARY) -> None:
        size = len(payload)
        if size < 126:
            head = bytes([0x80 | opcode, size])
        elif size < 65536:
            head = bytes([0x80 | opcode, 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([0x80 | opcode, 127]) + size.to_bytes(8, "big")
        self.connection.sendall(head + payload)

    def receive(self) -> tuple[int, bytes]:
        """One frame: its opcode and its unmasked payload; (CLOSE, b"") at the end."""
        head = self._exactly(2)
        if not head:
            return CLOSE, b""
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
        mask, payload = self._exactly(4), self._exactly(size)
        return head[0] & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))

    def pump(self, target: socket.socket) -> None:
        """Carries data both ways until one side ends."""

        def back() -> None:
            with suppress(OSError):
                while data := target.recv(65536):
                    self.send(b"\x00" + data)
                self.send(b"\x03\xe8", CLOSE)

        thread = threading.Thread(target=back, daemon=True)
        thread.start()
        while True:
            opcode, payload = self.receive()
            if opcode == CLOSE:
                break
            if opcode == BINARY and payload[0] == 0:
                target.sendall(payload[1:])
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                more = self.connection.recv(size - len(data))
            except OSError:
                return b""
            if not more:
                return b""
            data += more
        return data


class ForwardServer:
    """Listens on loopback; `behave` gets each session after the handshake, or None to refuse with `status`."""

    def __init__(
        self, behave: Callable[[Session], None] | None, *, status: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        self.sessions: list[Session] = []
        self._behave, self._status, self._tls = behave, status, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._quietly, args=(connection,), daemon=True).start()

    def _quietly(self, connection: socket.socket) -> None:
        with suppress(OSError):  # what a client does to it is the test's to judge
            self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        if self._tls:
            connection = self._tls.wrap_socket(connection, server_side=True)
        request = b""
        while b"\r\n\r\n" not in request:
            more = connection.recv(4096)
            if not more:
                return
            request += more
        first, *lines = request.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if self._behave is None:
            body = b'{"message": "no, you may not"}'
            answer = f"HTTP/1.1 {self._status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            connection.sendall(answer)
            connection.close()
            return
        digest = hashlib.sha1(f"{headers['sec-websocket-key']}{GUID}".encode(), usedforsecurity=False).digest()
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
        )
        session = Session(connection, first.split(" ")[1], headers)
        self.sessions.append(session)
        self._behave(session)
        connection.close()
