"""How to get a client to a server: the dialer that others implement, and the direct one over TCP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import valkey
from valkey.connection import Connection, ConnectionPool

from valkeyctl.dataplane.model import Endpoint
from valkeyctl.dataplane.translate import translated


@dataclass(frozen=True)
class Credentials:
    """Who we are to a server: `user` is None for the default user, `password` None where none is set.

    `repr` and `str` never show the password.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)


class Dialer(Protocol):
    """Opens connections to servers."""

    @property
    def credentials(self) -> Credentials:
        """With what it signs in."""
        ...

    def dial(self, endpoint: Endpoint, timeout_s: float) -> valkey.Valkey:
        """A connected client with one connection of its own, to be closed by the caller.

        Connecting, and each answer after it, may take `timeout_s`. Called from several threads at once. Raises the
        errors of valkey-py, OSError or `errors.Unreachable` and `errors.Refused`.
        """
        ...


class _OverSocket(Connection):
    """A connection on top of a stream that somebody else opens; valkey-py only speaks on it."""

    def __init__(self, *, open_socket: Callable[[], socket.socket], **options: object) -> None:
        super().__init__(**options)  # pyright: ignore[reportArgumentType]  # valkey-py types none of its options
        self._open_socket = open_socket

    def _connect(self) -> socket.socket:
        opened = self._open_socket()
        opened.settimeout(self.socket_timeout)
        return opened


def client_over(
    open_socket: Callable[[], socket.socket],
    *,
    endpoint: Endpoint,
    credentials: Credentials,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> valkey.Valkey:
    """A client on top of any stream that `open_socket` gives: a TCP socket, a port-forward.

    With `tls` the server's certificate is verified against the endpoint's `host`, whatever way the stream goes; that
    needs a socket of the operating system, so another kind of stream brings its own TLS and leaves this None. The
    client has one connection, is authenticated when this returns, and answers raw replies as bytes. Raises
    `errors.Unreachable` and `errors.Refused`.
    """

    def opened() -> socket.socket:
        plain = open_socket()
        if tls is None:
            return plain
        plain.settimeout(timeout_s)
        try:
            return tls.wrap_socket(plain, server_hostname=endpoint.host)
        except BaseException:
            plain.close()
            raise

    pool = ConnectionPool(
        connection_class=_OverSocket,
        open_socket=opened,
        host=endpoint.address,
        port=endpoint.port,
        username=credentials.user,
        password=credentials.password,
        socket_timeout=timeout_s,
        # Naming the library would cost two more round trips on every connection.
        lib_name=None,
        lib_version=None,
    )
    client = valkey.Valkey(connection_pool=pool)
    client.response_callbacks.clear()
    # Made by hand: taken from the pool, it would be probed with a read of zero seconds, which not every stream stands.
    connection = pool.make_connection()
    with translated(endpoint):
        connection.connect()
    client.connection = connection
    return client


@dataclass(frozen=True)
class DirectDialer:
    """Connects to the Pod's address: inside the cluster, or where Pods are routed."""

    credentials: Credentials
    tls: ssl.SSLContext | None = None

    def dial(self, endpoint: Endpoint, timeout_s: float) -> valkey.Valkey:
        """See Dialer."""

        def tcp() -> socket.socket:
            opened = socket.create_connection((endpoint.address, endpoint.port), timeout=timeout_s)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened

        return client_over(tcp, endpoint=endpoint, credentials=self.credentials, timeout_s=timeout_s, tls=self.tls)
