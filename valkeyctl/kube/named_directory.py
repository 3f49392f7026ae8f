"""Which Pods an instance has now, for an agent: it may read each Pod by its name, and list none."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from valkeyctl.dataplane.model import CLIENT_PORT, Endpoint, Member, pod_name
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.directory import endpoint_of, member_of
from valkeyctl.kube.labels import workload_name

#: How old what is known of a Pod that has an address may be: addresses change only with the Pod.
SETTLED_S = 1.0
#: How soon one that has none is looked for again.
MISSING_S = 0.25
#: Of a large instance, Pods are read no faster than that, whatever the two above say.
MOST_PER_S = 50
_AT_ONCE = 8


class NamedDirectory:
    """The declared members' Pods, each read by its name, and no more often than needed.

    Called, it is the data plane's directory. A Pod counts as soon as it has an address, whether or not Kubernetes
    has noticed that its server runs: that is found out by asking it. Errors: those of kube/errors.py. An API server
    that does not answer is an error, never an empty directory.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        instance: str,
        members: Sequence[Member],
        port: int = CLIENT_PORT,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api, self.namespace, self.instance, self.port = api, namespace, instance, port
        self._members = members
        self._now = now
        self._pods: dict[Member, Object | None] = {}
        self._endpoints: dict[Member, Endpoint] = {}
        self._read_at: dict[Member, float] = {}

    def __call__(self) -> Mapping[Member, Endpoint]:
        """Where the members are now; one of whom nothing is known yet, or not recently, is read first."""
        now, never = self._now(), float("-inf")
        missing = len(self._members) - len(self._endpoints)
        settled_s = max(SETTLED_S, len(self._endpoints) / MOST_PER_S)
        missing_s = max(MISSING_S, missing / MOST_PER_S)
        self._read(
            [
                member
                for member in self._members
                if now - self._read_at.get(member, never) >= (settled_s if member in self._endpoints else missing_s)
            ]
        )
        return dict(self._endpoints)

    def pods(self) -> list[Object]:
        """The declared members' Pods, whatever their state, as last read."""
        self()
        return [pod for pod in self._pods.values() if pod is not None and self.member_of(pod) is not None]

    def workloads(self) -> list[Object]:
        """The StatefulSets of the declared shards that exist."""
        shards = sorted({member.shard for member in self._members})
        names = [workload_name(self.instance, shard) for shard in shards]
        found = self._all([path_of("apps/v1", "statefulsets", self.namespace, name) for name in names])
        return [workload for workload in found if workload is not None]

    def member_of(self, pod: Object) -> Member | None:
        """The member that a Pod is; None where only its name looks like one."""
        return member_of(pod, self.instance)

    def _read(self, members: Collection[Member]) -> None:
        paths = [path_of("v1", "pods", self.namespace, pod_name(self.instance, member)) for member in members]
        for member, pod in zip(members, self._all(paths), strict=True):
            self._pods[member], self._read_at[member] = pod, self._now()
            found = None if pod is None else endpoint_of(pod, self.namespace, self.instance, self.port)
            if found is None:
                self._endpoints.pop(member, None)
            else:
                self._endpoints[member] = found

    def _all(self, paths: Sequence[str]) -> list[Object | None]:
        """The objects at these paths, None for those that don't exist; a few at once."""
        if len(paths) <= 1:
            return [self.api.find(path) for path in paths]
        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(paths))) as pool:
            return list(pool.map(self.api.find, paths))
