"""Which Pods an instance has now, and where they are, as the API server says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from valkeyctl.dataplane import Endpoint, Member, member_of_host
from valkeyctl.kube.access import Api, Object, path_of, terminating
from valkeyctl.kube.labels import SERVER_CONTAINER, pod_host, selector, workload_name


@dataclass(frozen=True)
class Directory:
    """The Pods of one instance. Called, it is the data plane's directory: fresh on each call.

    Errors: those of kube/errors.py. An API server that does not answer is an error, never an empty directory.
    """

    api: Api
    namespace: str
    instance: str
    port: int = 6379

    def __call__(self) -> Mapping[Member, Endpoint]:
        """Where the members are that have a running server now."""
        found = (self._endpoint(pod) for pod in self.pods())
        return {endpoint.member: endpoint for endpoint in found if endpoint is not None}

    def pods(self) -> list[Object]:
        """The Pods that the instance's own StatefulSets control, whatever their state."""
        path = path_of("v1", "pods", self.namespace)
        pods = self.api.items(path, {"labelSelector": selector(self.instance)})
        return [pod for pod in pods if self.member_of(pod) is not None]

    def workloads(self) -> list[Object]:
        """The StatefulSets of the instance."""
        path = path_of("apps/v1", "statefulsets", self.namespace)
        return self.api.items(path, {"labelSelector": selector(self.instance)})

    def beyond(self, shards: int) -> tuple[Member, ...]:
        """The members of shards from the number `shards` on that exist: as StatefulSets want them, or as Pods that are
        still there. They are leaving, where no more shards than that are declared.
        """
        wanted = {
            Member(shard, ordinal)
            for workload in self.workloads()
            if (shard := shard_of(str(workload["metadata"]["name"]), self.instance)) is not None
            for ordinal in range(int((workload.get("spec") or {}).get("replicas") or 0))
        }
        there = {member for pod in self.pods() if (member := self.member_of(pod)) is not None}
        return tuple(sorted(member for member in wanted | there if member.shard >= shards))

    def member_of(self, pod: Object) -> Member | None:
        """See `member_of`."""
        return member_of(pod, self.instance)

    def _endpoint(self, pod: Object) -> Endpoint | None:
        found = endpoint_of(pod, self.namespace, self.instance, self.port)
        return found if server_runs(pod.get("status") or {}) else None


def shard_of(workload: str, instance: str) -> int | None:
    """The shard that a StatefulSet runs, by its name; None for one that runs none of this instance."""
    text = workload.removeprefix(f"{instance}-s")
    return int(text) if text.isdigit() and workload == workload_name(instance, int(text)) else None


def member_of(pod: Object, instance: str) -> Member | None:
    """The member that a Pod is; None where only its labels or its name look like one.

    The name must fit, and the controller be that shard's StatefulSet: a Pod of another instance that carries our
    labels is never spoken to (reports C1, C2).
    """
    name = str(pod["metadata"]["name"])
    member = member_of_host(instance, name)
    if member is None or name != f"{instance}-{member}":
        return None
    owners = pod["metadata"].get("ownerReferences") or []
    wanted = ("StatefulSet", workload_name(instance, member.shard))
    return member if any((o.get("kind"), o.get("name")) == wanted and o.get("controller") for o in owners) else None


def endpoint_of(pod: Object, namespace: str, instance: str, port: int) -> Endpoint | None:
    """Where a Pod's member is; None for a Pod that is none of ours, has no address yet, or is about to go."""
    member, address = member_of(pod, instance), (pod.get("status") or {}).get("podIP")
    if member is None or not address or terminating(pod):
        return None
    name = str(pod["metadata"]["name"])
    return Endpoint(
        member=member,
        pod=name,
        host=pod_host(instance, namespace, name),
        address=str(address),
        port=port,
        bus_port=port + 10000,
    )


def server_runs(status: Object) -> bool:
    """Whether a Pod's server container runs, by the Pod's status; that its server answers is another matter."""
    containers = status.get("containerStatuses") or []
    return any(c.get("name") == SERVER_CONTAINER and "running" in (c.get("state") or {}) for c in containers)
