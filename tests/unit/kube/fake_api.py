"""An API server in this process: objects in a dictionary, over real HTTP.

Speaks what the product asks for: objects and collections with resourceVersion and uid, merge patches, preconditions,
label and field selectors, pages, discovery. Faults are played by `fault`.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
Fault = Callable[[str, str], int | float | None]

DISCOVERY: dict[str, list[tuple[str, str]]] = {
    "v1": [
        ("configmaps", "ConfigMap"),
        ("secrets", "Secret"),
        ("services", "Service"),
        ("events", "Event"),
        ("pods", "Pod"),
        ("persistentvolumeclaims", "PersistentVolumeClaim"),
        ("serviceaccounts", "ServiceAccount"),
    ],
    "apps/v1": [("statefulsets", "StatefulSet")],
    "coordination.k8s.io/v1": [("leases", "Lease")],
}
_PATH = re.compile(
    r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?$"
)


class FakeApi:
    """`url` is where it listens; `objects` what it holds, by path; `seen` each request as (method, path).

    Evictions succeed unless `budget`, given the Pod's path, says why not.
    Watches tell what changed after their resourceVersion; one up to `compacted` is gone. Raising `cut` ends them all.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.fault: Fault = lambda _method, _path: None
        self.finalizers: set[str] = set()
        self.budget: Callable[[str], str] = lambda _path: ""
        self._version = 0
        self._connections: list[socket.socket] = []
        self.compacted = 0
        self.cut = 0
        self._changes: list[tuple[int, str, Object]] = []
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                api._connections.append(self.request)
                super().setup()

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                api.seen.append((self.command, self.path))
                api.headers.append({key.lower(): value for key, value in self.headers.items()})
                if self.command == "GET" and "watch=true" in self.path:
                    self.watch()
                    return
                status, answer = api.serve(self.command, self.path, body)
                self.tell(status, answer)

            def tell(self, status: int, answer: Object) -> None:
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def watch(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                played = api.fault(self.command, self.path)
                if isinstance(played, int):
                    self.tell(*api._status(played, "played"))
                    return
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with suppress(OSError):
                    for event in api.events(parts.path, query):
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                    self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - names of the standard library

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def kubeconfig(self) -> str:
        """Contents of a kubeconfig for it."""
        return json.dumps(
            {
                "current-context": "fake",
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
                "users": [{"name": "fake", "user": {"token": "not-so-secret-token"}}],
            }
        )

    def close(self) -> None:
        """Is gone, its open connections with it. Idempotent."""
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def put(self, path: str, body: Object) -> Object:
        """Puts an object there, as if somebody had written it."""
        with self._lock:
            match = _PATH.match(path)
            assert match is not None, path
            metadata = body.setdefault("metadata", {})
            metadata.setdefault("name", match["name"])
            if match["namespace"]:
                metadata.setdefault("namespace", match["namespace"])
            metadata.setdefault("uid", str(uuid.uuid4()))
            self._version += 1
            metadata["resourceVersion"] = str(self._version)
            if "stringData" in body:
                import base64  # noqa: PLC0415

                data = {k: base64.b64encode(v.encode()).decode() for k, v in body.pop("stringData").items()}
                body["data"] = {**(body.get("data") or {}), **data}
            self._note("MODIFIED" if path in self.objects else "ADDED", path, body)
            self.objects[path] = body
            return body

    def remove(self, path: str) -> None:
        """Deletes the object there, as if somebody had."""
        with self._lock:
            self._version += 1
            known = self.objects.pop(path)
            self._note(
                "DELETED", path, {**known, "metadata": known["metadata"] | {"resourceVersion": str(self._version)}}
            )

    def events(self, collection: str, query: dict[str, str]) -> Iterator[Object]:
        """What a watch of objects in a collection tells, until its time is over."""
        selected = query.get("fieldSelector")
        until = time.monotonic() + int(query["timeoutSeconds"])
        with self._lock:
            cut, after = self.cut, int(query.get("resourceVersion") or 0)
            if not after:
                after = self._version
                found = [
                    o for p, o in self.objects.items() if p.rpartition("/")[0] == collection and _field(o, selected)
                ]
                current: list[Object] = [{"type": "ADDED", "object": one} for one in found]
            elif after <= self.compacted:
                current = [{"type": "ERROR", "object": self._status(410, "too old resource version", "Expired")[1]}]
            else:
                current = []
        yield from current
        while time.monotonic() < until and self.cut == cut:
            with self._lock:
                self._changed.wait(0.05)
                news = [
                    e for version, path, e in self._changes if version > after and path.startswith(f"{collection}/")
                ]
                after = self._version
            yield from (event for event in news if _field(event["object"], selected))

    def _note(self, kind: str, path: str, body: Object) -> None:
        self._changes.append((self._version, path, {"type": kind, "object": body}))
        self._changed.notify_all()

    def serve(self, method: str, target: str, body: Object | None) -> tuple[int, Object]:
        played = self.fault(method, target)
        if isinstance(played, float):
            time.sleep(played)
        elif played is not None:
            return self._status(played, "played")
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self._lock:
            if method == "POST" and parts.path.endswith("/eviction"):
                return self._evicted(parts.path.removesuffix("/eviction"), body or {})
            return self._discovered(parts.path) or self._verb(method, parts.path, query, body)

    def _verb(self, method: str, path: str, query: dict[str, str], body: Object | None) -> tuple[int, Object]:
        match = _PATH.match(path)
        if match is None:
            return self._status(404, f"no path {path}")
        namespace = match["namespace"]
        known_namespaces = {p.rpartition("/")[2] for p in self.objects if p.rpartition("/")[0] == "/api/v1/namespaces"}
        if method == "POST":
            if namespace and f"/api/v1/namespaces/{namespace}" not in self.objects and known_namespaces:
                return self._status(404, f'namespaces "{namespace}" not found')
            assert body is not None
            full = f"{path}/{body['metadata']['name']}"
            if full in self.objects:
                return self._status(409, "exists", "AlreadyExists")
            return 201, self.put(full, body)
        if match["name"] is None:
            return self._listed(path, query)
        return self._one(method, path, body)

    def _evicted(self, path: str, body: Object) -> tuple[int, Object]:
        refusal = self.budget(path)
        if refusal and path in self.objects:
            status = self._status(429, "Cannot evict pod as it would violate the pod's disruption budget.")[1]
            cause = {"reason": "DisruptionBudget", "message": refusal}
            return 429, {**status, "reason": "TooManyRequests", "details": {"causes": [cause]}}
        return self._one("DELETE", path, body.get("deleteOptions"))

    def _one(self, method: str, path: str, body: Object | None) -> tuple[int, Object]:
        known = self.objects.get(path)
        if known is None:
            return self._status(404, f"{path} not found", "NotFound")
        if method == "GET":
            return 200, known
        if method == "DELETE":
            given = (body or {}).get("preconditions") or {}
            if given.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
                return self._status(409, "another uid", "Conflict")
            if path in self.finalizers:
                known["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            else:
                self.remove(path)
            return 200, known
        assert body is not None
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != known["metadata"]["resourceVersion"]:
            return self._status(409, "the object has been modified", "Conflict")
        merged = body if method == "PUT" else _merged(known, body)
        merged["metadata"] = {**merged["metadata"], "uid": known["metadata"]["uid"]}
        return 200, self.put(path, merged)

    def _listed(self, path: str, query: dict[str, str]) -> tuple[int, Object]:
        items = [o for p, o in sorted(self.objects.items()) if p.rpartition("/")[0] == path]
        items = [o for o in items if _selected(o, query.get("labelSelector")) and _field(o, query.get("fieldSelector"))]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0) or len(items)
        more = {"continue": str(start + limit)} if start + limit < len(items) else {}
        return 200, {"metadata": more, "items": items[start : start + limit]}

    def _discovered(self, path: str) -> tuple[int, Object] | None:
        if path == "/apis":
            versions = [v for v in DISCOVERY if v != "v1"]
            return 200, {"groups": [{"preferredVersion": {"groupVersion": v}} for v in versions]}
        for version, kinds in DISCOVERY.items():
            if path == (f"/api/{version}" if version == "v1" else f"/apis/{version}"):
                verbs = ["list", "delete"]
                listed = [{"name": n, "kind": k, "namespaced": True, "verbs": verbs} for n, k in kinds]
                return 200, {"resources": listed}
        return None

    @staticmethod
    def _status(code: int, message: str, reason: str = "") -> tuple[int, Object]:
        return code, {"kind": "Status", "message": message, "reason": reason, "code": code}


def _merged(known: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(known) if isinstance(known, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _selected(item: Object, selector: str | None) -> bool:
    labels = item["metadata"].get("labels") or {}
    for term in (selector or "").split(","):
        key, has_value, value = term.partition("=")
        if key and (key not in labels or (has_value and labels[key] != value)):
            return False
    return True


def _field(item: Object, selector: str | None) -> bool:
    for term in (selector or "").split(","):
        path, has_value, value = term.partition("=")
        found: Any = item
        for part in path.split(".") if has_value else []:
            found = (found or {}).get(part)
        if has_value and found != value:
            return False
    return True
