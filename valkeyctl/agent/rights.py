"""What an agent's account may do: named objects of its own instance alone, and nothing else in the namespace.

Pure data, from which the program writes the Role; a test compares it with what the agent really asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from valkeyctl.kube.labels import declared_name, status_name, workload_name

Rule = Mapping[str, Sequence[str]]


def rules(instance: str, *, shards: int, replicas: int, config_map: str, secret: str) -> tuple[Rule, ...]:
    """The rules of the Role, with the keys of Kubernetes' PolicyRule, in an order that never changes.

    `config_map` is the ConfigMap with the server's settings, `secret` the Secret that holds the password. Where it
    says `watch`, a watch with a field selector for that very name is meant, which Kubernetes grants by name as well.
    Nothing is ever created (which can't be granted by name) but Events, nothing is listed and nothing deleted.
    """
    workloads = [workload_name(instance, shard) for shard in range(shards)]
    pods = [f"{workload}-{ordinal}" for workload in workloads for ordinal in range(replicas + 1)]
    return (
        _rule("", "configmaps", "get watch", declared_name(instance), config_map),
        _rule("", "configmaps", "get patch", status_name(instance)),
        _rule("", "secrets", "get watch", secret),
        _rule("", "pods", "get patch", *pods),
        _rule("apps", "statefulsets", "get", *workloads),
        _rule("coordination.k8s.io", "leases", "get update", instance),
        _rule("", "events", "create"),
    )


def _rule(group: str, resource: str, verbs: str, *names: str) -> Rule:
    rule: dict[str, Sequence[str]] = {"apiGroups": [group], "resources": [resource], "verbs": verbs.split()}
    return {**rule, "resourceNames": list(names)} if names else rule
