"""An instance of three shards with a replica each, to be broken, and to be seen becoming whole again by itself."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.e2e.harness import inside, probe
from tests.e2e.harness.inside import SERVER
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE

SHARDS, REPLICAS = 3, 1


@dataclass(frozen=True)
class Breakable:
    """The instance in a namespace."""

    kube: Kube
    namespace: str

    def nodes(self) -> dict[str, probe.Node]:
        return probe.ask(self.kube, self.namespace, INSTANCE)

    def primaries(self) -> list[str]:
        """The Pods of the primaries, by shard."""
        nodes = self.nodes()
        return [probe.primary_of(nodes, shard).pod for shard in range(SHARDS)]

    def kill(self, pods: Iterable[str]) -> None:
        """End the servers of these Pods at once, as by SIGKILL."""
        processes = [inside.one(self.namespace, pod, SERVER) for pod in pods]
        for process in processes:
            process.kill()

    def delete(self, pods: Iterable[str]) -> None:
        for pod in pods:
            self.kube.delete("pods", self.namespace, pod)

    def whole(self) -> bool:
        """Whether every node is right, and the API server calls all Pods ready; not, where nodes can't be asked now."""
        try:
            faults = probe.faults(self.nodes(), INSTANCE, SHARDS, REPLICAS)
        except (probe.SilentError, KeyError, TypeError, StopIteration):
            return False
        return not faults and self._pods_ready()

    def _pods_ready(self) -> bool:
        pods = self.kube.items("pods", self.namespace, f"app.kubernetes.io/instance={INSTANCE}")
        told = [{c["type"]: c["status"] for c in pod["status"].get("conditions", [])} for pod in pods]
        return len(told) == SHARDS * (REPLICAS + 1) and all(one.get("Ready") == "True" for one in told)
