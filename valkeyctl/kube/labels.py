"""The names by which an instance's objects are found: labels, annotations, object names."""

from __future__ import annotations

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
PART_OF_LABEL = "app.kubernetes.io/part-of"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
SHARD_LABEL = "valkeyctl/shard"
#: On a Pod: `primary` or `replica`, written by the Pod's own agent. For people; nothing relies on it.
ROLE_LABEL = "valkeyctl/role"
#: On a node, and from Kubernetes 1.35 on also on its Pods: the zone that it is in.
ZONE_LABEL = "topology.kubernetes.io/zone"
#: `<organization>/<project>/<stack>/<instance>`, on every object of an instance.
OWNER_ANNOTATION = "valkeyctl/owner"

#: The container that runs the server.
SERVER_CONTAINER = "server"
#: Who writes our objects and events.
MANAGER = "valkeyctl"
#: The reason of the Event by which an agent says that its server refuses what is declared.
REFUSED_REASON = "SettingsRefused"


def instance_labels(instance: str) -> dict[str, str]:
    """The labels of the objects that the lifecycle writes by itself."""
    return {
        NAME_LABEL: "valkey",
        INSTANCE_LABEL: instance,
        COMPONENT_LABEL: "cluster",
        PART_OF_LABEL: "valkey",
        MANAGED_BY_LABEL: "pulumi",
    }


def selector(instance: str) -> str:
    """The label selector of an instance's workload: StatefulSets and Pods."""
    return f"{NAME_LABEL}=valkey,{INSTANCE_LABEL}={instance},{SHARD_LABEL}"


def workload_name(instance: str, shard: int) -> str:
    """The StatefulSet of a shard."""
    return f"{instance}-s{shard}"


def pod_host(instance: str, namespace: str, pod: str) -> str:
    """The DNS name that a Pod's server announces, and that its certificate is checked against."""
    return f"{pod}.{instance}-headless.{namespace}.svc"


def secret_name(instance: str) -> str:
    """The Secret with the password that `up` generates. No Secret of a user's own may have this name."""
    return f"{instance}-auth"


def status_name(instance: str) -> str:
    """The status ConfigMap of an instance."""
    return f"{instance}-status"


def declared_name(instance: str) -> str:
    """The ConfigMap that tells the agents what an instance is to be."""
    return f"{instance}-declared"


def config_name(instance: str) -> str:
    """The ConfigMap with the server's settings."""
    return f"{instance}-config"
