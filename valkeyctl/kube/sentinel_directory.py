"""Which Pods a set of Sentinels has now, and where they are, as the API server says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT, Sentinel, sentinel
from valkeyctl.kube.access import Api, Object, path_of


@dataclass(frozen=True)
class SentinelDirectory:
    """The Pods of the StatefulSet `set_name`. Called, it is the data plane's directory: fresh on each call.

    Errors: those of kube/errors.py. An API server that does not answer is an error, never an empty directory.
    """

    api: Api
    namespace: str
    set_name: str
    port: int = SENTINEL_PORT

    def __call__(self) -> Mapping[Member, Endpoint]:
        """Where those Sentinels are that have a running container and an address now."""
        found = (self._endpoint(pod) for pod in self.pods())
        return {endpoint.member: endpoint for endpoint in found if endpoint is not None}

    def workload(self) -> Object | None:
        """The StatefulSet; None where there is none."""
        return self.api.find(path_of("apps/v1", "statefulsets", self.namespace, self.set_name))

    def pods(self) -> list[Object]:
        """The Pods that the StatefulSet controls, whatever their state."""
        workload = self.workload()
        labels = ((workload or {}).get("spec") or {}).get("selector", {}).get("matchLabels") or {}
        if not labels:
            return []
        wanted = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        pods = self.api.items(path_of("v1", "pods", self.namespace), {"labelSelector": wanted})
        return [pod for pod in pods if self.member_of(pod) is not None]

    def there(self) -> tuple[Sentinel, ...]:
        """The Sentinels that exist: as the StatefulSet wants them, or as Pods that are still there."""
        workload = self.workload() or {}
        wanted = {sentinel(ordinal) for ordinal in range(int((workload.get("spec") or {}).get("replicas") or 0))}
        return tuple(sorted(wanted | {one for pod in self.pods() if (one := self.member_of(pod)) is not None}))

    def member_of(self, pod: Object) -> Sentinel | None:
        """Which Sentinel a Pod is; None where only its labels or its name look like one."""
        text = str(pod["metadata"]["name"]).removeprefix(f"{self.set_name}-")
        owners = pod["metadata"].get("ownerReferences") or []
        controlled = any(
            (o.get("kind"), o.get("name")) == ("StatefulSet", self.set_name) and o.get("controller") for o in owners
        )
        return sentinel(int(text)) if controlled and text.isdigit() else None

    def _endpoint(self, pod: Object) -> Endpoint | None:
        member, status = self.member_of(pod), pod.get("status") or {}
        address = status.get("podIP")
        running = any("running" in (c.get("state") or {}) for c in status.get("containerStatuses") or [])
        if member is None or not address or not running or pod["metadata"].get("deletionTimestamp"):
            return None
        name = str(pod["metadata"]["name"])
        host = f"{name}.{self.set_name}.{self.namespace}.svc"
        return Endpoint(member=member, pod=name, host=host, address=str(address), port=self.port)


@dataclass(frozen=True)
class SentinelHosts:
    """Sentinels of which nothing is known but where they listen: `<host>:<port>`, by ordinal."""

    hosts: tuple[str, ...]

    def __call__(self) -> Mapping[Member, Endpoint]:
        """All of them, whether they run or not."""
        return {sentinel(ordinal): _at(ordinal, told) for ordinal, told in enumerate(self.hosts)}


def _at(ordinal: int, told: str) -> Endpoint:
    host, _, port = told.rpartition(":")
    return Endpoint(sentinel(ordinal), told, host, host.strip("[]"), int(port))
