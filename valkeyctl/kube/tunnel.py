"""A byte stream to one port of one Pod, through the API server.

Speaks the `v4.channel.k8s.io` subprotocol: each frame begins with its channel, 0 for data and 1 for the kubelet's
error text, and each channel's first frame repeats the port. The stream looks like a socket to valkey-py, without a
thread or a socket pair behind it, so that what breaks is raised where it is read.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from valkeyctl.kube.access import Api, path_of
from valkeyctl.kube.errors import KubeError

PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_CHUNK = 128 * 1024


class TunnelError(OSError):
    """The stream could not be opened, or broke. An OSError, as a socket's would be."""


class TunnelClosed(TunnelError):  # noqa: N818 - reads as what happened
    """The other side has closed the stream."""


class Stream(Protocol):
    """The part of a socket that valkey-py uses."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def settimeout(self, timeout_s: float | None, /) -> None: ...
    def gettimeout(self) -> float | None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class Tunnel:
    """One port-forward. Not thread-safe, as a client's connection isn't."""

    def __init__(self, websocket: Any, where: str) -> None:
        self._websocket = websocket
        self._where = where
        self._buffer = bytearray()
        self._greeted: set[int] = set()
        self._ended = False

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end of the stream. Errors: TimeoutError, TunnelError."""
        while not self._buffer:
            if self._ended or not self._next_frame():
                self._ended = True
                return b""
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def sendall(self, data: bytes) -> None:
        """Sends all of `data`. Errors: TimeoutError, TunnelError."""
        if self._ended:
            raise TunnelClosed(f"{self._where}: closed by the other side")
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            self._guarded(self._websocket.send_binary, b"\x00" + bytes(view[start : start + _CHUNK]))

    def settimeout(self, timeout_s: float | None) -> None:
        """Bounds each wait for the network."""
        self._websocket.settimeout(timeout_s)

    def gettimeout(self) -> float | None:
        """What `settimeout` set last."""
        timeout: float | None = self._websocket.gettimeout()
        return timeout

    def shutdown(self, how: int) -> None:
        """Does nothing: a port-forward cannot be half closed."""

    def close(self) -> None:
        """Says goodbye without waiting for an answer. Idempotent."""
        try:
            self._websocket.settimeout(1)
            self._websocket.send_close()
        except Exception:  # noqa: BLE001, S110 - whatever is wrong with it, it goes now
            pass
        self._websocket.shutdown()

    def _next_frame(self) -> bool:
        from websocket import ABNF  # noqa: PLC0415 - imported when the first tunnel was opened

        try:
            opcode, frame = self._guarded(self._websocket.recv_data_frame, True)  # noqa: FBT003 - its own signature
        except TunnelClosed:
            return False
        if opcode == ABNF.OPCODE_CLOSE:
            return False
        if opcode not in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT):
            return True
        payload: bytes = frame.data
        if not payload:
            return True
        channel, body = payload[0], payload[1:]
        if channel not in self._greeted and len(body) == 2:
            self._greeted.add(channel)
        elif channel == _DATA:
            self._buffer += body
        elif channel == _ERROR and body:
            raise TunnelError(f"{self._where}: {_short(body)}")
        return True

    def _guarded(self, act: Callable[..., Any], *arguments: Any) -> Any:
        import websocket  # noqa: PLC0415

        try:
            return act(*arguments)
        except websocket.WebSocketTimeoutException as error:
            raise TimeoutError(f"{self._where}: no answer in time") from error
        except websocket.WebSocketConnectionClosedException:
            raise TunnelClosed(f"{self._where}: closed by the other side") from None
        except websocket.WebSocketException as error:
            raise TunnelError(f"{self._where}: {error}") from error


class TlsStream:
    """TLS over any stream, for one thread at a time. The standard library wraps only the operating system's sockets."""

    def __init__(self, stream: Stream, context: ssl.SSLContext, server_hostname: str) -> None:
        """Does the handshake. Errors: ssl.SSLError, and the stream's."""
        self._stream = stream
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._drive(self._tls.do_handshake)

    def recv(self, size: int) -> bytes:
        """Some decrypted bytes; none at the end."""
        try:
            data: bytes = self._drive(lambda: self._tls.read(size))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        return data

    def sendall(self, data: bytes) -> None:
        """Encrypts and sends all of `data`."""
        view = memoryview(data)
        while view:
            sent: int = self._drive(lambda: self._tls.write(view))  # noqa: B023 - called at once
            view = view[sent:]

    def settimeout(self, timeout_s: float | None) -> None:
        """Bounds each wait for the network."""
        self._stream.settimeout(timeout_s)

    def gettimeout(self) -> float | None:
        """What `settimeout` set last."""
        return self._stream.gettimeout()

    def shutdown(self, how: int) -> None:
        """Does what the stream below does."""
        self._stream.shutdown(how)

    def close(self) -> None:
        """Closes the stream below."""
        self._stream.close()

    def _drive(self, act: Callable[[], Any]) -> Any:
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                self._flush()
                received = self._stream.recv(64 * 1024)
                if received:
                    self._incoming.write(received)
                else:
                    self._incoming.write_eof()
            else:
                self._flush()
                return result

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._stream.sendall(self._outgoing.read())


def open_tunnel(api: Api, namespace: str, pod: str, port: int, timeout_s: float) -> Tunnel:
    """A stream to `port` of `pod`. The Pod's server may still refuse it; that shows at the first read.

    Errors: TimeoutError; TunnelError, also where the API server is away or refuses.
    """
    import websocket  # noqa: PLC0415 - 50 ms that nothing needs which never dials

    where = f"port-forward to {namespace}/{pod}:{port}"
    server = urlsplit(api.target.server)
    path = f"{server.path}{path_of('v1', 'pods', namespace, pod)}/portforward?ports={port}"
    try:
        context, authorization, proxy = api.tls(), api.authorization(), api.proxy()
    except KubeError as error:
        raise TunnelError(str(error)) from error
    options: dict[str, Any] = {"suppress_origin": True, "subprotocols": [PROTOCOL], "timeout": timeout_s}
    options["header"] = [f"Authorization: {authorization}"] if authorization else []
    if proxy:
        through = urlsplit(proxy)
        options |= {"http_proxy_host": through.hostname, "http_proxy_port": through.port or 80}
        if through.username:
            options["http_proxy_auth"] = (through.username, through.password or "")
    else:
        options["http_no_proxy"] = ["*"]
    tls: dict[str, Any] = {}
    if context is not None:
        tls = {"context": context, "server_hostname": api.target.tls_server_name or server.hostname}
    connection = websocket.WebSocket(sslopt=tls, enable_multithread=False, skip_utf8_validation=True)
    scheme = "wss" if context is not None else "ws"
    try:
        connection.connect(f"{scheme}://{server.netloc}{path}", **options)
    except websocket.WebSocketTimeoutException as error:
        raise TimeoutError(f"{where}: no answer in {timeout_s:.1f} s") from error
    except websocket.WebSocketBadStatusException as error:
        raise TunnelError(f"{where}: {_refused(error)}") from error
    except websocket.WebSocketException as error:
        raise TunnelError(f"{where}: {error}") from error
    return Tunnel(connection, where)


def _refused(error: Any) -> str:
    status = int(getattr(error, "status_code", 0))
    body: object = getattr(error, "resp_body", b"") or b""
    text = _short(body) if isinstance(body, bytes) else str(body)
    if status == 404:
        return "the Pod is gone"
    if status in (401, 403):
        return f"not allowed (needs create on pods/portforward): {text}"
    return f"the API server answered {status}: {text}"


def _short(text: bytes) -> str:
    return text.decode(errors="replace").strip()[:300]
