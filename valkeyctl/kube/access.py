"""The one way to the API server: JSON in and out, bounded in time, errors translated at this edge.

Thin on purpose: the official client costs 0.6 s of import for a dozen requests (docs/adr/0020).
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from valkeyctl.kube.credentials import Credential, credentials_of
from valkeyctl.kube.errors import (
    ApiBusy,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnreachable,
    KubeconfigError,
)
from valkeyctl.kube.kubeconfig import Target, resolve

Object = dict[str, Any]

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 10.0
PAGE = 500
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAUSE_S = 0.25


def connect(kubeconfig: str | None, context: str | None, *, patience_s: float = 0.0) -> Api:
    """An `Api` for a kubeconfig (contents, path, or None: ambient) and a context of it. Sends nothing yet."""
    return Api(resolve(kubeconfig or None, context or None), patience_s=patience_s)


def path_of(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """The path of an object, or of a collection where `name` is None."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


class Api:
    """Requests to one API server, as one user. Thread-safe; connections are pooled.

    `patience_s`: how long an unanswered or busy read is tried again before it counts as an error. Writes are sent once.
    """

    def __init__(self, target: Target, *, patience_s: float = 0.0) -> None:
        self.target = target
        self.patience_s = patience_s
        self._credentials = credentials_of(target)
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._tls: ssl.SSLContext | None = None
        self._certificate: str | None = None

    def __repr__(self) -> str:
        return f"Api({self.target.server}, {self.target.origin})"

    def close(self) -> None:
        """Closes idle connections; the next request opens new ones."""
        with self._lock:
            if self._pool is not None:
                self._pool.clear()

    # --- verbs -----------------------------------------------------------------------------------------------------

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Object:
        """One object. Errors: ApiNotFound where it does not exist, else the tree in errors.py."""
        return self._read("GET", path, query, "application/json")

    def find(self, path: str) -> Object | None:
        """One object, or None where the API server says that there is none."""
        try:
            return self.get(path)
        except ApiNotFound:
            return None

    def items(self, path: str, query: Mapping[str, Any] | None = None, *, metadata_only: bool = False) -> list[Object]:
        """All objects of a collection, page by page. `metadata_only` spares their bodies."""
        return list(self._pages(path, query, METADATA_ONLY if metadata_only else "application/json"))

    def create(self, path: str, body: Object) -> Object:
        """Creates an object in a collection. Errors: ApiConflict where it exists."""
        return self._send("POST", path, body)

    def replace(self, path: str, body: Object) -> Object:
        """Replaces an object; with `metadata.resourceVersion` only if it did not change. Errors: ApiConflict."""
        return self._send("PUT", path, body)

    def merge(self, path: str, patch: Object) -> Object:
        """Merges a JSON patch (RFC 7396) into an object."""
        return self._send("PATCH", path, patch, "application/merge-patch+json")

    def delete(self, path: str, *, uid: str | None = None, resource_version: str | None = None) -> bool:
        """Deletes an object, if given only that very one; False where there is none. Idempotent."""
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in given.items() if value}
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        try:
            self._send("DELETE", path, {**body, "preconditions": preconditions} if preconditions else body)
        except ApiNotFound:
            return False
        return True

    # --- for the websocket of a port-forward -------------------------------------------------------------------------

    def authorization(self) -> str | None:
        """The value of the Authorization header now."""
        return self._credentials.current().authorization

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings of a connection to the API server; None where that is plain HTTP."""
        self._connections(self._credentials.current())
        return self._tls

    def proxy(self) -> str | None:
        """The proxy on the way, as the kubeconfig or the environment names it."""
        parts = urlsplit(self.target.server)
        if self.target.proxy_url:
            return self.target.proxy_url
        found = getproxies().get(parts.scheme)
        return None if not found or proxy_bypass(parts.hostname or "") else found

    # --- within ------------------------------------------------------------------------------------------------------

    def _pages(self, path: str, query: Mapping[str, Any] | None, accept: str) -> Iterator[Object]:
        parameters: dict[str, Any] = {"limit": PAGE, **(query or {})}
        while True:
            page = self._read("GET", path, parameters, accept)
            yield from page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            parameters["continue"] = token

    def _read(self, method: str, path: str, query: Mapping[str, Any] | None, accept: str) -> Object:
        deadline = time.monotonic() + self.patience_s
        where = f"{path}?{urlencode(query)}" if query else path
        while True:
            try:
                return self._request(method, where, None, {"Accept": accept})
            except (ApiUnreachable, ApiBusy):
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _send(self, method: str, path: str, body: Object, content: str = "application/json") -> Object:
        return self._request(method, path, body, {"Accept": "application/json", "Content-Type": content})

    def _request(self, method: str, path: str, body: Object | None, headers: dict[str, str]) -> Object:
        response = self._exchange(method, path, body, headers)
        if response.status == 401 and self._credentials.renew():
            response = self._exchange(method, path, body, headers)
        if response.status >= 400:
            raise self._refusal(method, path, response)
        try:
            return dict(json.loads(response.data or b"{}"))
        except ValueError as error:
            raise ApiUnreachable(
                f"{self.target.server} ({self.target.origin}) answered {method} {path} with something else than JSON; "
                "is it a Kubernetes API server?"
            ) from error

    def _exchange(
        self, method: str, path: str, body: Object | None, headers: dict[str, str]
    ) -> urllib3.BaseHTTPResponse:
        credential = self._credentials.current()
        sent = {"User-Agent": "valkeyctl", **headers}
        if credential.authorization:
            sent["Authorization"] = credential.authorization
        try:
            return self._connections(credential).request(
                method,
                self.target.server + path,
                body=None if body is None else json.dumps(body).encode(),
                headers=sent,
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachable(_unreachable(self.target, error)) from error

    def _connections(self, credential: Credential) -> urllib3.PoolManager:
        with self._lock:
            if self._pool is None or self._certificate != credential.cert_pem:
                self._tls = _tls_context(self.target, credential)
                self._certificate = credential.cert_pem
                self._pool = _pool(self.target, self._tls, self.proxy())
            return self._pool

    def _refusal(self, method: str, path: str, response: urllib3.BaseHTTPResponse) -> ApiError:
        try:
            status: dict[str, Any] = json.loads(response.data)
        except ValueError:
            status = {}
        reason = str(status.get("reason") or "")
        told = str(status.get("message") or response.data[:200].decode(errors="replace") or reason)
        where = f"{method} {path.partition('?')[0]} ({self.target.origin})"
        code = response.status
        if code == 401:
            text = f"{where}: the API server does not accept the credentials: {told}"
            return ApiForbidden(text, status=code, reason=reason, remedy="Log in again, or mend the user entry.")
        if code == 403:
            return ApiForbidden(f"{where}: {told}", status=code, reason=reason, remedy="Grant this right to the user.")
        kinds: dict[int, type[ApiError]] = {404: ApiNotFound, 409: ApiConflict, 400: ApiInvalid, 422: ApiInvalid}
        kind = kinds.get(code, ApiBusy if code == 429 or code >= 500 else ApiError)
        return kind(f"{where}: {told}", status=code, reason=reason)


def _unreachable(target: Target, error: urllib3.exceptions.HTTPError) -> str:
    where = f"the API server at {target.server} ({target.origin})"
    if isinstance(error, urllib3.exceptions.SSLError):
        return f"{where} is not trusted: {error}. Its certificate does not fit the kubeconfig's certificate-authority."
    if isinstance(error, urllib3.exceptions.TimeoutError):
        within = f"within {CONNECT_TIMEOUT_S:.0f} to {READ_TIMEOUT_S:.0f} s"
        return f"{where} gave no answer {within}. Is the cluster up, and reachable from here (VPN, firewall, proxy)?"
    cause = str(error).rpartition("object at")[2].partition(": ")[2] or str(error)
    return f"{where} cannot be reached: {cause}. Is the cluster up, and the right context chosen?"


def _tls_context(target: Target, credential: Credential) -> ssl.SSLContext | None:
    if urlsplit(target.server).scheme != "https":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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
