"""Which resources are Valkey's: those of our components, those that are labelled so, those that run
its server, and those that serve a workload which does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .model import UNKNOWN, Resource
from .pods import configs_of, containers, pod_labels, pod_spec, runs_server, server_of, takes
from .reading import at, items, text

_NAME, _PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
_WORDS = ("valkey",)
#: What serves Pods that its selector takes, and what serves Pods that name it.
_SELECTING = ("Service", "NetworkPolicy", "PodDisruptionBudget")
_MOUNTED = ("ConfigMap", "PersistentVolumeClaim")


def is_valkey(resource: Resource) -> bool:
    """Whether it belongs to Valkey. What others made is never ours by its mere neighbourhood."""
    if _below_ours(resource.urn) or resource.type == "pulumi:pulumi:Stack":
        return True
    if not resource.is_kubernetes:
        return False
    selector = at(resource.props, "spec", "selector")
    labels = (
        at(resource.props, "metadata", "labels"),
        pod_labels(resource),
        selector,
        at(selector, "matchLabels"),
        at(resource.props, "spec", "podSelector", "matchLabels"),
    )
    return any(map(_says_valkey, labels)) or any(runs_server(c.spec) for c in containers(resource))


def serves_valkey(resource: Resource, resources: Sequence[Resource]) -> bool:
    """Whether one of these resources is a Valkey workload that it serves, whatever its own labels are.

    That is what selects the workload's Pods, and what they mount or take their environment from. Only what is known
    counts: an unknown selector, name or namespace makes nothing ours.
    """
    if not resource.is_kubernetes or resource.kind not in (*_SELECTING, *_MOUNTED):
        return False
    return any(
        _surely_same_namespace(resource, workload) and _serves(resource, workload)
        for workload in resources
        if server_of(workload) is not None and is_valkey(workload)
    )


def _serves(resource: Resource, workload: Resource) -> bool:
    if resource.kind in _MOUNTED:
        name = at(resource.props, "metadata", "name")
        names = configs_of(workload) if resource.kind == "ConfigMap" else _claims_of(workload)
        return (resource.name if name is None else text(name)) in names
    selector = selector_of(resource)
    return selector is not None and takes(selector, workload) is True


def selector_of(resource: Resource) -> Any:
    """The label selector of what selects Pods; None where it selects none."""
    if resource.kind == "Service":
        # An empty one takes nothing: the endpoints are somebody else's to write.
        selector = at(resource.props, "spec", "selector")
        return {"matchLabels": selector} if selector else None
    if resource.kind == "NetworkPolicy":
        selector = at(resource.props, "spec", "podSelector")
        return {} if selector is None and at(resource.props, "spec") is not None else selector
    return at(resource.props, "spec", "selector")


def _claims_of(workload: Resource) -> set[str]:
    volumes = items(at(pod_spec(workload), "volumes"))
    return {text(at(volume, "persistentVolumeClaim", "claimName")) for volume in volumes} - {""}


def _surely_same_namespace(one: Resource, other: Resource) -> bool:
    places = [at(each.props, "metadata", "namespace") for each in (one, other)]
    return UNKNOWN not in places and places[0] == places[1]


def _says_valkey(labels: Any) -> bool:
    return any(text(at(labels, key)) in _WORDS for key in (_NAME, _PART_OF))


def _below_ours(urn: str) -> bool:
    """Whether it is one of our components, or made by one, or one of our dynamic resources."""
    types = urn.split("::")[2] if urn.count("::") >= 3 else ""
    return any(part.startswith(("valkey:", "pulumi-python:dynamic/valkey:")) for part in types.split("$"))
