"""The names of everything that an instance is made of, and what keeps two instances apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from valkeyctl.dataplane.model import MAX_SHARDS
from valkeyctl.kube.labels import config_name, declared_name, secret_name, status_name, workload_name

#: The controller labels Pods with `<statefulset>-<10 characters of a hash>`, and a label has at most 63 characters.
MAX_WORKLOAD_NAME = 52
#: Room for the largest shard number, so that an instance can grow to the most shards that a cluster may have.
MAX_INSTANCE_NAME = MAX_WORKLOAD_NAME - len(f"-s{MAX_SHARDS - 1}")

# RFC 1035, which is stricter than RFC 1123: a Service's name starts with a letter.
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


@dataclass(frozen=True)
class Names:
    """Names of the objects of one instance. Literal text, never an output: a name that is known only later makes
    Pulumi replace what carries it.
    """

    instance: str

    @property
    def service(self) -> str:
        """The Service that clients connect to; the disruption budget and the network policy have the same name."""
        return self.instance

    @property
    def headless(self) -> str:
        """The Service that gives each Pod its DNS name."""
        return f"{self.instance}-headless"

    @property
    def config_map(self) -> str:
        """The ConfigMap with the server's settings and the scripts."""
        return config_name(self.instance)

    @property
    def secret(self) -> str:
        """The Secret with the generated password."""
        return secret_name(self.instance)

    @property
    def status(self) -> str:
        """The ConfigMap that tells the status; the lifecycle writes it."""
        return status_name(self.instance)

    @property
    def declared(self) -> str:
        """The ConfigMap that tells the agents what is declared; the lifecycle writes it."""
        return declared_name(self.instance)

    @property
    def agent(self) -> str:
        """The agents' account, its Role and the binding of the two, and the ConfigMap with the agent's code."""
        return f"{self.instance}-agent"

    def workload(self, shard: int) -> str:
        """The StatefulSet of a shard."""
        return workload_name(self.instance, shard)

    def claim(self, shard: int, ordinal: int) -> str:
        """The volume claim of a Pod: `<claim template>-<Pod>`, which is where its StatefulSet looks for it."""
        return f"data-{self.workload(shard)}-{ordinal}"

    def fixed(self) -> Iterator[str]:
        """Every name that the instance has or may grow to have, Pods and claims left out (they follow)."""
        yield from (self.service, self.headless, self.config_map, self.secret, self.agent, self.status, self.declared)
        yield from (self.workload(shard) for shard in range(MAX_SHARDS))


def instance_name_problem(name: str) -> str:
    """Why `name` can't name an instance; "" when it can."""
    if len(name) > MAX_INSTANCE_NAME:
        return (
            f"an instance's name has at most {MAX_INSTANCE_NAME} characters, this one has {len(name)} "
            f"(its StatefulSets are called <instance>-s<n>, with at most {MAX_WORKLOAD_NAME})"
        )
    if not _LABEL.fullmatch(name):
        return "an instance's name is a DNS label: small letters, digits and hyphens, a letter first, no hyphen last"
    return ""


def namespace_problem(name: str) -> str:
    """Why `name` can't name a namespace; "" when it can."""
    if len(name) > 63 or not _NAMESPACE.fullmatch(name):
        return "a namespace's name is a DNS label: small letters, digits and hyphens, at most 63"
    return ""


def object_name_problem(name: str) -> str:
    """Why `name` can't name a Secret or a StorageClass; "" when it can."""
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        return "a name has small letters, digits, hyphens and dots, at most 253, a letter or a digit first and last"
    return ""


def collisions(instances: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Pairs of instances of one namespace of which both have, or can grow to have, the same name: (one, other, name).

    Compared whatever kind the object is: two things of one name that belong to two instances would mislead people even
    where Kubernetes allows them.
    """
    owned = {instance: frozenset(Names(instance).fixed()) for instance in sorted(set(instances))}
    for one, other in combinations(owned, 2):
        if shared := owned[one] & owned[other]:
            yield one, other, min(shared)
