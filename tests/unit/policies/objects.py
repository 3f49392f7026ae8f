"""Kubernetes objects of a team's own Valkey, as a raw program declares them: all good, to be changed by a case."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from policies.model import UNKNOWN, Resource

LABELS = {
    "app.kubernetes.io/name": "valkey",
    "app.kubernetes.io/instance": "cache",
    "app.kubernetes.io/managed-by": "pulumi",
}
DIGEST = "sha256:" + "0123456789abcdef" * 4
API = {
    "StatefulSet": "apps/v1",
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
    "CronJob": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
}
STACK = Resource("urn:pulumi:prod::team::pulumi:pulumi:Stack::team-prod", "pulumi:pulumi:Stack", "team-prod", {})
TOPOLOGY = "pulumi-python:dynamic/valkey:Topology"


def resource(kind: str, name: str, props: Mapping[str, Any] | None = None, **options: Any) -> Resource:
    """An object under `metadata` that is good."""
    type_ = f"kubernetes:{API.get(kind, 'core/v1')}:{kind}"
    metadata = {"name": name, "namespace": "data", "labels": dict(LABELS)}
    urn = f"urn:pulumi:prod::team::{type_}::{name}"
    return Resource(urn, type_, name, {"metadata": metadata, **copy.deepcopy(dict(props or {}))}, **options)


def security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def container(name: str = "server", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"valkey/valkey:9.1.2@{DIGEST}",
        "command": ["valkey-server", "/etc/valkey/valkey.conf"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "securityContext": security(),
        "ports": [{"containerPort": 6379.0}],
        **changes,
    }


def pod_spec(*containers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    own = {"labelSelector": {"matchLabels": dict(LABELS)}}
    return {
        "containers": list(containers) or [container()],
        "terminationGracePeriodSeconds": 60.0,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", **own}]
            }
        },
        "topologySpreadConstraints": [
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "maxSkew": 1.0,
                "whenUnsatisfiable": "DoNotSchedule",
                **own,
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": "cache-config"}},
            {"name": "secret", "secret": {"secretName": "cache-auth"}},
        ],
        **changes,
    }


def statefulset(name: str = "cache", *, spec: dict[str, Any] | None = None, **changes: Any) -> Resource:
    """`spec`: the Pods' spec; `changes`: fields of the StatefulSet's own."""
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}
    stated = {
        "serviceName": "cache-headless",
        "replicas": 3.0,
        "selector": {"matchLabels": dict(LABELS)},
        "template": {"metadata": {"labels": dict(LABELS)}, "spec": spec or pod_spec()},
        "volumeClaimTemplates": [claim],
        **changes,
    }
    return resource("StatefulSet", name, {"spec": stated}, protect=True)


def with_server(**changes: Any) -> Resource:
    """The StatefulSet, with fields of its server's container changed."""
    return statefulset(spec=pod_spec(container(**changes)))


def config_map(content: str = "maxmemory 800mb\ntls-port 6379\nport 0\n", name: str = "cache-config") -> Resource:
    return resource("ConfigMap", name, {"data": {"valkey.conf": content}})


def budget(**changes: Any) -> Resource:
    return resource(
        "PodDisruptionBudget",
        "cache",
        {"spec": {"maxUnavailable": 1.0, "selector": {"matchLabels": LABELS}, **changes}},
    )


def network_policy(*rules: dict[str, Any], **changes: Any) -> Resource:
    own = {"podSelector": {"matchLabels": LABELS}}
    good = [{"ports": [{"port": 6379.0}]}, {"ports": [{"port": 16379.0}], "from": [own]}]
    spec = {**own, "policyTypes": ["Ingress"], "ingress": list(rules) or good, **changes}
    return resource("NetworkPolicy", "cache", {"spec": spec})


def service(type_: str = "ClusterIP", **changes: Any) -> Resource:
    return resource("Service", "cache", {"spec": {"type": type_, "selector": dict(LABELS), **changes}})


def claim(**changes: Any) -> Resource:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", **changes}
    return resource("PersistentVolumeClaim", "data-cache-0", {"spec": spec}, protect=True)


def sentinels(count: float, monitor: str = "sentinel monitor cache cache-0 6379 2") -> list[Resource]:
    """Sentinels with their own ConfigMap."""
    server = container("sentinel", command=["valkey-sentinel", "/etc/valkey/sentinel.conf"])
    volumes = [
        {"name": "config", "configMap": {"name": "sentinel-config"}},
        {"name": "secret", "secret": {"secretName": "cache-auth"}},
    ]
    workload = statefulset("sentinel", spec=pod_spec(server, volumes=volumes), replicas=count)
    return [workload, resource("ConfigMap", "sentinel-config", {"data": {"sentinel.conf": monitor + "\n"}})]


def topology(layout: Mapping[str, str] | Any, **more: Any) -> Resource:
    urn = f"urn:pulumi:prod::team::valkey:index:Cluster${TOPOLOGY}::cache"
    return Resource(urn, TOPOLOGY, "cache", {"layout": layout, **more})


PLAIN = {"app": "cache"}


def plain_labels(of: Resource) -> Resource:
    """The same of a team that labels its objects in its own way: only the image of the Pods says Valkey."""
    props = dict(of.props)
    props["metadata"] = {key: value for key, value in of.props["metadata"].items() if key != "labels"}
    return Resource(of.urn, of.type, of.name, _labelled(props), of.protect, of.ignore_changes, of.retained)


def _labelled(value: Any) -> Any:
    if value == LABELS:
        return dict(PLAIN)
    if isinstance(value, Mapping):
        return {key: _labelled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_labelled(part) for part in value]
    return value


def everything() -> list[Resource]:
    """A whole instance, in which there is nothing to find."""
    return [STACK, config_map(), statefulset(), budget(), network_policy(), service(), claim()]


def unlabelled(of: Resource) -> Resource:
    """The same of somebody else: other labels everywhere, another image."""
    return Resource(of.urn, of.type, of.name, _renamed(of.props), of.protect)


def _renamed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_renamed(part) for part in value]
    return value.replace("valkey", "postgres") if isinstance(value, str) else value


def vague(of: Resource, path: tuple[str | int, ...]) -> Resource:
    """The resource with what stands at `path` not known."""
    return spoilt(of, path, UNKNOWN)


def spoilt(of: Resource, path: tuple[str | int, ...], value: Any) -> Resource:
    """The resource with another value at `path`."""
    props = copy.deepcopy(dict(of.props))
    place: Any = props
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return Resource(of.urn, of.type, of.name, props, of.protect, of.ignore_changes, of.retained)


def paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in nested data, the outer ones first."""
    if isinstance(value, Mapping):
        inside = [(key, part) for key, part in value.items()]
    elif isinstance(value, list):
        inside = list(enumerate(value))
    else:
        return []
    found: list[tuple[str | int, ...]] = []
    for key, part in inside:
        found += [(*at, key), *paths(part, (*at, key))]
    return found
