"""Following one named object: told when it changes, over one long request instead of many short ones.

Kubernetes grants `watch` by name where the request selects that very name, so it needs no `list`. Each request lasts
some minutes, ends by itself, and goes on from the last resourceVersion; where the API server no longer has that, it
tells the object as it is now.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from valkeyctl.kube.access import Api, Object, Stream
from valkeyctl.kube.errors import ApiError, ApiForbidden, ApiUnreachable, KubeError

#: How long one request lasts, in seconds; somewhere between, so that the agents' requests don't come all at once.
LASTS_S = (300, 600)
#: The API server says that it is still there about once a minute.
SILENT_S = 150.0
#: The pause after a failure, in seconds: the first, and the longest. It doubles in between.
PAUSE_S = (1.0, 30.0)
#: The pause after the API server refused: only a person changes that.
REFUSED_S = 60.0
_GONE = 410


class Follow:
    """Follows the object `name` of a collection (a path) until it is stopped. `run` is for a thread of its own.

    `seen` is called in that thread with the object as it is at the start and after every change, and with None when it
    was deleted; the same state may be told twice. `failed` is called with each error that ends a request early, and
    `well` when a request begins after that.
    """

    def __init__(
        self,
        api: Api,
        collection: str,
        name: str,
        *,
        seen: Callable[[Object | None], None],
        failed: Callable[[KubeError], None],
        well: Callable[[], None] = lambda: None,
        lasts_s: tuple[int, int] = LASTS_S,
        pause_s: tuple[float, float] = PAUSE_S,
    ) -> None:
        self._api, self._collection, self._name = api, collection, name
        self._seen, self._failed, self._well = seen, failed, well
        self._lasts_s, self._pause_s = lasts_s, pause_s
        self._version = ""
        self._stopped = threading.Event()
        self._stream: Stream | None = None
        self._failures = 0

    def run(self) -> None:
        """Follows until `stop`. Raises only what `seen` raises."""
        while not self._stopped.is_set():
            began_at = time.monotonic()
            try:
                self._request()
            except KubeError as error:
                if self._stopped.is_set():
                    return
                self._failures += 1
                self._failed(error)
                self._stopped.wait(self._pause(error))
            else:
                # Something on the way may end each request at once; it is not asked faster for that.
                self._stopped.wait(max(0.0, began_at + self._pause_s[0] - time.monotonic()))

    def stop(self) -> None:
        """Ends `run` soon. From any thread; idempotent."""
        self._stopped.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def _request(self) -> None:
        query: dict[str, Any] = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": random.randint(*self._lasts_s),  # noqa: S311 - no secret
        }
        if self._version:
            query["resourceVersion"] = self._version
        with self._api.stream(self._collection, query, silent_s=SILENT_S) as stream:
            self._stream = stream
            if self._failures:
                self._well()
            for event in _events(stream):
                if self._stopped.is_set():
                    return
                self._failures = 0
                if not self._take(event):
                    return

    def _take(self, event: Object) -> bool:
        """Whether the request goes on after an event."""
        kind, found = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            # Whatever it is, what is known is not to be relied on any more: the next request tells the object as it is.
            self._version = ""
            if int(found.get("code") or 0) == _GONE:
                return False
            text = f"the watch of {self._name} was ended: {found.get('message') or found.get('reason') or 'no reason'}"
            raise ApiError(text, status=int(found.get("code") or 0), reason=str(found.get("reason") or ""))
        self._version = str((found.get("metadata") or {}).get("resourceVersion") or self._version)
        if kind in ("ADDED", "MODIFIED"):
            self._seen(found)
        elif kind == "DELETED":
            self._seen(None)
        return True

    def _pause(self, error: KubeError) -> float:
        if isinstance(error, ApiError) and error.status == _GONE:
            self._version = ""
        if isinstance(error, ApiForbidden):
            return REFUSED_S
        first, longest = self._pause_s
        pause: float = min(longest, first * 2 ** min(self._failures - 1, 10))
        return pause * random.uniform(0.75, 1.25)  # noqa: S311 - no secret


def _events(stream: Stream) -> Iterator[Object]:
    """The events of a watch: one JSON object a line. Raises ApiUnreachable for what is none."""
    rest = b""
    for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if not line.strip():
                continue
            try:
                yield dict(json.loads(line))
            except ValueError as error:
                raise ApiUnreachable("the watch told something else than JSON") from error
