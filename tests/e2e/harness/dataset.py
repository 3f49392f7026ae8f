"""A dataset with a client: a primary and two replicas, that the agents fail over, or three Sentinels."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.e2e.harness import dataset_probe, inside
from tests.e2e.harness.client import Client, sentinels, service
from tests.e2e.harness.dataset_probe import Seen
from tests.e2e.harness.inside import SERVER
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import UP_TIMEOUT_S, Result, Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox
from tests.e2e.harness.writer import Record

REPLICA, FAILOVER = "replica", "failover"
BOTH = (REPLICA, FAILOVER)
#: Acknowledged by a primary, and not yet sent to a replica when it was killed: what is in flight, at one each 5 ms.
IN_FLIGHT = 5
#: Failing over takes ten seconds by the Lease, and less by Sentinels, as `bench/` measures. Here others work beside.
HEALED_S = 90
GAP_MS = 45_000
RW, RO = f"{INSTANCE}-rw", f"{INSTANCE}-ro"
_SECOND = 5_000_000


def small(architecture: str, **changes: Any) -> dict[str, Any]:
    """The config of a dataset of little weight with 2 replicas; `changes` are keys over it.

    Its Sentinels call a server down after 2 s.
    """
    requests = {"cpu": "10m", "memory": "32Mi"}
    watched: dict[str, Any] = {"sentinel": watching()} if architecture == FAILOVER else {}
    return {
        "architecture": architecture,
        "replicas": 2,
        "resources": {"requests": requests, "limits": {"memory": "64Mi"}},
        **watched,
        **changes,
    }


def watching(**changes: Any) -> dict[str, Any]:
    """The key `sentinel` of such a config."""
    requests = {"cpu": "10m", "memory": "16Mi"}
    return {
        "downAfterMilliseconds": 2000,
        "failoverTimeoutMilliseconds": 20_000,
        "resources": {"requests": requests, "limits": {"memory": "48Mi"}},
        **changes,
    }


def client_of(sandbox: Sandbox, stack: Stack, *, name: str = "client", node: str | None = None) -> Client:
    """A client Pod with the passwords which the stack's outputs name."""
    output = stack.outputs()[INSTANCE]
    watchers = output.get("sentinelSecretName")
    return Client(
        sandbox.kube,
        stack.namespace,
        output["secretName"],
        output["secretKey"],
        name=name,
        watchers=watchers,
        node=node,
    )


@dataclass(frozen=True)
class Dataset:
    """One that was brought up as `small` has it, with these numbers of members."""

    sandbox: Sandbox
    stack: Stack
    client: Client
    architecture: str
    replicas: int = 2
    sentinels: int = 0

    @property
    def kube(self) -> Kube:
        return self.sandbox.kube

    @property
    def namespace(self) -> str:
        return self.stack.namespace

    @property
    def ways(self) -> list[str]:
        """Each way on which clients find the primary: the Service, and where there are Sentinels those."""
        asked = sentinels(f"{INSTANCE}-sentinel", f"{self.namespace}.{INSTANCE}")
        return [service(RW), *([asked] if self.sentinels else [])]

    def with_replicas(self, replicas: int) -> "Dataset":
        """The same one, from now on with so many replicas."""
        return replace(self, replicas=replicas)

    def with_sentinels(self, sentinels: int) -> "Dataset":
        """The same one, from now on with so many Sentinels."""
        return replace(self, sentinels=sentinels)

    def ready(self) -> Seen:
        """What there is; it is Ready now, not soon."""
        return dataset_probe.assert_ready(self.kube, self.namespace, INSTANCE, self.replicas, self.sentinels)

    def healed(self) -> Seen:
        """What there is, once it is Ready without anybody's help."""
        return dataset_probe.eventually_ready(
            self.kube, self.namespace, INSTANCE, self.replicas, self.sentinels, timeout_s=HEALED_S
        )

    def primary(self) -> str:
        """Its Pod, as the servers themselves say."""
        return dataset_probe.ask(self.kube, self.namespace, INSTANCE).primary.pod

    def configured(self, *, timeout_s: float = 2 * UP_TIMEOUT_S, **changes: Any) -> Result:
        """Bring up a changed config."""
        self.stack.configure({INSTANCE: small(self.architecture, **changes)})
        return self.stack.up(timeout_s=timeout_s)

    def kill_server(self, pod: str) -> None:
        """End a Pod's server, as by SIGKILL."""
        inside.one(self.namespace, pod, SERVER).kill()

    def delete(self, pods: Iterable[str], *, grace_s: int | None = None) -> None:
        """Delete these Pods at once, and return once each has been replaced."""
        before = {pod: (self.kube.get("pods", self.namespace, pod) or {})["metadata"]["uid"] for pod in pods}
        for pod in before:
            self.kube.delete("pods", self.namespace, pod, grace_s=grace_s)
        eventually("the Pods are replaced", lambda: self._replaced(before), timeout_s=HEALED_S, pause_s=0.2)

    def _replaced(self, before: Mapping[str, str]) -> bool:
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.kube.items("pods", self.namespace)}
        return all(now.get(pod, uid) != uid for pod, uid in before.items())

    @contextmanager
    def writing(self, **how: Any) -> Generator[list[Record]]:
        """A writer on each of the ways for as long as the block runs; their records are complete after it."""
        first, *others = self.ways
        with self.client.writing(first, **how) as record:
            if not others:
                yield [record]
                return
            with self.client.writing(others[0], **{**how, "first": how.get("first", 0) + _SECOND}) as second:
                yield [record, second]

    def missing(self, records: Iterable[Record]) -> list[int]:
        """Those of the acknowledged writes that aren't there."""
        numbers = [number for record in records for number in record.acknowledged]
        assert numbers, "something was written"
        return self.client.lost(service(RW), numbers)


def make(sandbox: Sandbox, architecture: str, **changes: Any) -> Dataset:
    """Bring one up."""
    config = small(architecture, **changes)
    stack = sandbox.stack(config=config)
    stack.up()
    watchers = int(config["sentinel"].get("replicas", 3)) if architecture == FAILOVER else 0
    return Dataset(sandbox, stack, client_of(sandbox, stack), architecture, int(config["replicas"]), watchers)
