"""The connections to one API server: TLS, proxy, pool, and the memory of its silence."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.util.ssl_ import ALPN_PROTOCOLS

from valkeyctl.kube.credentials import Credential, credentials_of
from valkeyctl.kube.errors import ApiUnreachable, KubeconfigError
from valkeyctl.kube.kubeconfig import Target

SILENCE_KEPT_S = 3.0


class Link:
    """What the requests to one server share: credentials, connections, and the memory of its silence."""

    def __init__(self, target: Target) -> None:
        self.credentials = credentials_of(target)
        self._target = target
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._tls: ssl.SSLContext | None = None
        self._certificate: str | None = None
        self._silent_until = float("-inf")
        self._silence = ""

    def connections(self, credential: Credential) -> urllib3.PoolManager:
        """The pool; a new one where the certificate was renewed."""
        with self._lock:
            if self._pool is None or self._certificate != credential.cert_pem:
                self._tls = _tls_context(self._target, credential)
                self._certificate = credential.cert_pem
                self._pool = _pool(self._target, self._tls, proxy_of(self._target))
            return self._pool

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings of the pool."""
        self.connections(self.credentials.current())
        return self._tls

    def remember_silence(self, text: str) -> None:
        """Notes that the server did not answer just now."""
        self._silence, self._silent_until = text, time.monotonic() + SILENCE_KEPT_S

    def refuse_if_silent(self) -> None:
        """Raises ApiUnreachable where the server has just been silent."""
        if time.monotonic() < self._silent_until:
            raise ApiUnreachable(self._silence)


def proxy_of(target: Target) -> str | None:
    """The proxy on the way to a server, as the kubeconfig or the environment names it."""
    if target.proxy_url:
        return target.proxy_url
    parts = urlsplit(target.server)
    found = getproxies().get(parts.scheme)
    return None if not found or proxy_bypass(parts.hostname or "") else found


class SteadyContext(ssl.SSLContext):
    """TLS settings that connections of several threads may share.

    urllib3 sets the application protocols anew for each connection. OpenSSL frees the former ones then, while another
    thread may just be copying them into its own connection, whose greeting the server can't decode ("decode error").
    Here they are set once; to set the same again does nothing.
    """

    _protocols: tuple[str, ...] | None = None

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """As the base class, but only where it changes something."""
        wanted = tuple(alpn_protocols)
        if wanted != self._protocols:
            super().set_alpn_protocols(wanted)
            self._protocols = wanted


def _tls_context(target: Target, credential: Credential) -> ssl.SSLContext | None:
    if urlsplit(target.server).scheme != "https":
        return None
    context = SteadyContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(ALPN_PROTOCOLS)
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif target.ca_pem:
        # Only what the kubeconfig names is trusted: no environment variable, no system store widens or replaces it.
        try:
            context.load_verify_locations(cadata=target.ca_pem)
        except ssl.SSLError as error:
            raise KubeconfigError(f"{target.origin}: its certificate-authority is not a PEM certificate") from error
    else:
        context.load_default_certs()
    if credential.cert_pem and credential.key_pem:
        _load_pair(context, target, credential.cert_pem, credential.key_pem)
    return context


def _load_pair(context: ssl.SSLContext, target: Target, cert_pem: str, key_pem: str) -> None:
    # OpenSSL takes a certificate and key only from a file: one that only we can read, and only for a moment.
    handle, name = tempfile.mkstemp(prefix="valkeyctl-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{cert_pem.rstrip()}\n{key_pem.rstrip()}\n")
        context.load_cert_chain(name)
    except (ssl.SSLError, OSError) as error:
        raise KubeconfigError(f"{target.origin}: its client certificate and key do not fit together") from error
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


def _pool(target: Target, tls: ssl.SSLContext | None, proxy: str | None) -> urllib3.PoolManager:
    settings: dict[str, Any] = {"maxsize": 16, "num_pools": 2}
    if tls is not None:
        settings["ssl_context"] = tls
        if target.tls_server_name:
            settings["server_hostname"] = target.tls_server_name
        if target.insecure:
            settings["cert_reqs"] = "CERT_NONE"
            settings["assert_hostname"] = False
    return urllib3.ProxyManager(proxy, **settings) if proxy else urllib3.PoolManager(**settings)
