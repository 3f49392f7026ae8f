"""The StatefulSets' controller and the kubelet, for servers that are processes: a Pod that has gone is made anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.dataplane.servers import Fleet
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, waiting, workload
from valkeyctl.dataplane import Member


@dataclass
class StatefulSets:
    """A context manager: while it lasts, each member without a Pod gets one of the newest revision.

    `broken`: of a revision, the reason and message with which its Pods never start; ("", "") where they do. `nodes`:
    where members' Pods are put, `{"s0-0": "node1"}`, of those that it names.
    """

    fake: FakeApi
    fleet: Fleet
    broken: Callable[[str], tuple[str, str]] = lambda _revision: ("", "")
    nodes: dict[str, str] = field(default_factory=dict[str, str])
    made: list[Member] = field(default_factory=list[Member])
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def declare(self, revision: str) -> None:
        """Writes the StatefulSets with a template of this revision."""
        for shard in range(self.fleet.spec.shards):
            one = workload(shard, revision=revision, replicas=self.fleet.spec.replicas + 1)
            one["metadata"] |= {"uid": f"uid-{shard}", "namespace": "valkey"}
            self.fake.put(f"{SETS}/sessions-s{shard}", one)

    def publish(self, member: Member, revision: str) -> None:
        """The Pod of a server that runs, or of one that can't start."""
        reason, message = self.broken(revision)
        if reason:
            stuck = waiting(reason, message)
            made = pod(member.shard, member.ordinal, revision=revision, podIP=None, containerStatuses=stuck)
        else:
            address = self.fleet.directory()[member].address
            made = pod(member.shard, member.ordinal, revision=revision, podIP=address)
        made["spec"]["nodeName"] = self.nodes.get(str(member), made["spec"]["nodeName"])
        self.fake.put(f"{PODS}/sessions-{member}", made)

    def revisions(self) -> dict[str, str]:
        """The revision of each Pod."""
        pods: dict[str, Any] = {
            path.rpartition("/")[2]: one for path, one in list(self.fake.objects.items()) if path.startswith(f"{PODS}/")
        }
        return {name: one["metadata"]["labels"]["controller-revision-hash"] for name, one in pods.items()}

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for member in self.fleet.spec.members:
                if f"{PODS}/sessions-{member}" in self.fake.objects:
                    continue
                revision = self.fake.objects[f"{SETS}/sessions-s{member.shard}"]["status"]["updateRevision"]
                self.fleet.servers[member].kill()
                if not self.broken(revision)[0]:
                    self.fleet.start(member)
                self.made.append(member)
                self.publish(member, revision)
