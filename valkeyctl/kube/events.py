"""Kubernetes Events on an instance's StatefulSets: what was done, also when an `up` fails.

The name of an event is made from what it says: saying the same again raises a count, and adds no object. An agent may
only create events (no right on them can be granted by name); its events bear the time in their names.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiConflict, KubeError
from valkeyctl.kube.labels import MANAGER, workload_name

NORMAL, WARNING = "Normal", "Warning"
#: An `up` writes at most so many; what a cluster of 128 shards does would drown everything else.
MAX_EVENTS = 64
#: A phase is told on every StatefulSet of a small instance, and on the first of a large one.
MAX_TOLD_EACH = 12
_SHARD = re.compile(r"\bs(\d{1,3})(?:-\d+)?\b")


@dataclass
class Recorder:
    """Writes events of one instance. Never raises: what cannot be told must not stop what is being done.

    `create_only`: may not read or change events that are there.
    """

    api: Api
    namespace: str
    instance: str
    workloads: Sequence[Object]
    create_only: bool = False
    written: int = 0
    failed: str = ""
    _known: dict[str, Object] = field(default_factory=dict[str, "Object"])

    def __post_init__(self) -> None:
        self._known = {str(workload["metadata"]["name"]): workload for workload in self.workloads}

    def step(self, line: str) -> None:
        """A step that was done, on the StatefulSets of the shards that it names."""
        shards = {int(match) for match in _SHARD.findall(line)} or {0}
        self._tell(sorted(shards)[:2], NORMAL, "TopologyChanged", line)

    def phase(self, phase: str, message: str, *, bad: bool) -> None:
        """A phase that was reached."""
        every = range(len(self._known)) if len(self._known) <= MAX_TOLD_EACH else range(1)
        self._tell(every, WARNING if bad else NORMAL, phase, message)

    def _tell(self, shards: Iterable[int], kind: str, reason: str, message: str) -> None:
        for shard in shards:
            workload = self._known.get(workload_name(self.instance, shard))
            if workload is None or self.written >= MAX_EVENTS:
                continue
            self.written += 1
            try:
                record(self.api, workload, kind=kind, reason=reason, message=message, create_only=self.create_only)
            except KubeError as error:
                self.failed = str(error)


def record(api: Api, about: Object, *, kind: str, reason: str, message: str, create_only: bool = False) -> None:
    """Writes one event on an object, or raises the count of the same one. Errors: those of the API."""
    metadata = about["metadata"]
    namespace = str(metadata["namespace"])
    text = message[:1000]
    mark = hashlib.sha256(f"{metadata['uid']} {kind} {reason} {text}".encode()).hexdigest()[:16]
    name = f"{metadata['name']}.{mark}" + (f".{time.time_ns() // 1_000_000:x}" if create_only else "")
    collection = path_of("v1", "events", namespace)
    now = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": about.get("apiVersion") or "apps/v1",
            "kind": about.get("kind") or "StatefulSet",
            "name": metadata["name"],
            "namespace": namespace,
            "uid": metadata["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": text,
        "source": {"component": MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": MANAGER,
        "reportingInstance": MANAGER,
    }
    try:
        api.create(collection, body)
    except ApiConflict:
        if create_only:
            return  # Two of one millisecond say the same.
        path = f"{collection}/{name}"
        known = api.find(path)
        if known is not None:
            api.merge(path, {"count": int(known.get("count") or 1) + 1, "lastTimestamp": now})
