"""How to get a client to a server: the dialer that others implement, and the direct one over TCP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import valkey

from valkeyctl.dataplane.model import Endpoint


@dataclass(frozen=True)
class Credentials:
    """Who we are to a server: `user` is None for the default user, `password` None where none is set.

    `repr` and `str` never show the password.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)


class Dialer(Protocol):
    """Opens connections to servers."""

    def dial(self, endpoint: Endpoint, timeout_s: float) -> valkey.Valkey:
        """A connected client with one connection of its own, to be closed by the caller.

        Connecting, and each answer after it, may take `timeout_s`. Called from several threads at once. Raises the
        errors of valkey-py, OSError or `errors.Unreachable` and `errors.Refused`.
        """
        ...


def client_over(
    open_socket: Callable[[], socket.socket],
    *,
    endpoint: Endpoint,
    credentials: Credentials,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> valkey.Valkey:
    """A client on top of any stream that `open_socket` gives: a TCP socket, a port-forward.

    With `tls` the server's certificate is verified against the endpoint's `host`, whatever way the stream goes. The
    client has one connection, is authenticated when this returns, and answers raw replies as bytes. Raises
    `errors.Unreachable` and `errors.Refused`.
    """
    raise NotImplementedError


@dataclass(frozen=True)
class DirectDialer:
    """Connects to the Pod's address: inside the cluster, or where Pods are routed."""

    credentials: Credentials
    tls: ssl.SSLContext | None = None

    def dial(self, endpoint: Endpoint, timeout_s: float) -> valkey.Valkey:
        """See Dialer."""
        raise NotImplementedError
