"""The one way to the API server: JSON in and out, bounded in time, errors translated at this edge.

Thin on purpose: the official client costs 0.6 s of import for a dozen requests (docs/adr/0020).
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from valkeyctl.kube.errors import (
    ApiBusy,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnreachable,
)
from valkeyctl.kube.kubeconfig import Target, resolve
from valkeyctl.kube.link import Link, proxy_of

Object = dict[str, Any]

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 10.0
PAGE = 500
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAUSE_S = 0.25


def connect(kubeconfig: str | None, context: str | None) -> Api:
    """An `Api` for a kubeconfig (contents, path, or None: ambient) and a context of it. Sends nothing yet."""
    return Api(resolve(kubeconfig or None, context or None))


def terminating(item: Object) -> bool:
    """Whether an object is being deleted: it is still there, for what has to end before it."""
    return bool(item["metadata"].get("deletionTimestamp"))


def path_of(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """The path of an object, or of a collection where `name` is None."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


class Stream:
    """An answer that is read while it comes. `close` may be called from another thread, and ends the reading."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return self._response.stream(1 << 16)

    def close(self) -> None:
        """Ends it. Idempotent, and never raises."""
        with contextlib.suppress(Exception):
            self._response.shutdown()


class Api:
    """Requests to one API server, as one user. Thread-safe; connections are pooled.

    `patience_s`: how long an unanswered or busy read is tried again before it counts as an error. Writes are sent once.
    Without patience, a server that has just been silent is not asked again for a moment: several callers that each
    waited for their own time-out would add up.
    """

    def __init__(self, target: Target, *, patience_s: float = 0.0, link: Link | None = None) -> None:
        self.target = target
        self.patience_s = patience_s
        self._link = link or Link(target)

    def patient(self, patience_s: float) -> Api:
        """The same connections with another patience."""
        return Api(self.target, patience_s=patience_s, link=self._link)

    def __repr__(self) -> str:
        return f"Api({self.target.server}, {self.target.origin})"

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

    @contextlib.contextmanager
    def stream(self, path: str, query: Mapping[str, Any], *, silent_s: float) -> Generator[Stream]:
        """The body of an answer as it comes, over a connection of its own; closed at the end of the context.

        Ends after `silent_s` without a byte, as ApiUnreachable. Errors: the tree in errors.py, also in the middle.
        """
        where = f"{path}?{urlencode(query)}"
        waits = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=silent_s)
        response = self._exchange("GET", where, None, {"Accept": "application/json"}, streamed=waits)
        try:
            if response.status == 401:
                self._link.credentials.renew()
            if response.status >= 400:
                raise self._refusal("GET", path, response)
            yield Stream(response)
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachable(_unreachable(self.target, error)) from error
        finally:
            response.close()

    # --- for the websocket of a port-forward -------------------------------------------------------------------------

    def authorization(self) -> str | None:
        """The value of the Authorization header now."""
        return self._link.credentials.current().authorization

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings of a connection to the API server; None where that is plain HTTP."""
        return self._link.tls()

    def proxy(self) -> str | None:
        """The proxy on the way, as the kubeconfig or the environment names it."""
        return proxy_of(self.target)

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
        if response.status == 401 and self._link.credentials.renew():
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
        self,
        method: str,
        path: str,
        body: Object | None,
        headers: dict[str, str],
        *,
        streamed: urllib3.Timeout | None = None,
    ) -> urllib3.BaseHTTPResponse:
        if self.patience_s <= 0:
            self._link.refuse_if_silent()
        credential = self._link.credentials.current()
        sent = {"User-Agent": "valkeyctl", **headers}
        if credential.authorization:
            sent["Authorization"] = credential.authorization
        try:
            return self._link.connections(credential).request(
                method,
                self.target.server + path,
                body=None if body is None else json.dumps(body).encode(),
                headers=sent,
                timeout=streamed or urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                preload_content=streamed is None,
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            text = _unreachable(self.target, error)
            self._link.remember_silence(text)
            raise ApiUnreachable(text) from error

    def _refusal(self, method: str, path: str, response: urllib3.BaseHTTPResponse) -> ApiError:
        try:
            status: dict[str, Any] = json.loads(response.data)
        except ValueError:
            status = {}
        reason = str(status.get("reason") or "")
        told = str(status.get("message") or response.data[:200].decode(errors="replace") or reason)
        # An eviction that is refused says only here which budget refuses it.
        causes = (status.get("details") or {}).get("causes") or [] if response.status == 429 else []
        told += "".join(f" {cause.get('message')}" for cause in causes if cause.get("message"))
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
    # A refused connection is a kind of timeout to urllib3.
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    if isinstance(error, urllib3.exceptions.TimeoutError) and not refused:
        within = f"within {CONNECT_TIMEOUT_S:.0f} to {READ_TIMEOUT_S:.0f} s"
        return f"{where} gave no answer {within}. Is the cluster up, and reachable from here (VPN, firewall, proxy)?"
    cause = re.sub(r"^\[Errno -?\d+\] ", "", str(error).rpartition(": ")[2] or str(error))
    return f"{where} cannot be reached: {cause}. Is the cluster up, and the right context chosen?"
