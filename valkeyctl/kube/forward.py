"""The dialer through the API server: a port-forward for each connection, under valkey-py."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import valkey

from valkeyctl.dataplane import Credentials, Dialer, DirectDialer, Endpoint, client_over
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import KubeconfigError
from valkeyctl.kube.tunnel import Stream, TlsStream, open_tunnel

PORT_FORWARD, DIRECT = "portForward", "direct"


@dataclass(frozen=True)
class ForwardDialer:
    """Reaches a Pod by its name through the API server; needs the right to create pods/portforward.

    With `tls` the certificate is verified against the Pod's DNS name, as it is on the direct way.
    """

    api: Api
    namespace: str
    credentials: Credentials
    tls: ssl.SSLContext | None = None

    def dial(self, endpoint: Endpoint, timeout_s: float) -> valkey.Valkey:
        """See the data plane's Dialer."""

        def opened() -> Stream:
            stream: Stream = open_tunnel(self.api, self.namespace, endpoint.pod, endpoint.port, timeout_s)
            return stream if self.tls is None else TlsStream(stream, self.tls, endpoint.host)

        # The stream has of a socket what valkey-py uses of one; its own type asks for more.
        return client_over(
            cast("Callable[[], socket.socket]", opened),
            endpoint=endpoint,
            credentials=self.credentials,
            timeout_s=timeout_s,
        )


def dialer_for(
    transport: str, api: Api, namespace: str, credentials: Credentials, tls: ssl.SSLContext | None = None
) -> Dialer:
    """The dialer of a transport: "portForward" or "direct"."""
    if transport == PORT_FORWARD:
        return ForwardDialer(api, namespace, credentials, tls)
    if transport == DIRECT:
        return DirectDialer(credentials, tls)
    raise KubeconfigError(f"transport '{transport}' is not known; use {PORT_FORWARD} or {DIRECT}")
