"""Which resources are Valkey's: those of our components, those that are labelled so, those that run its image."""

from __future__ import annotations

from typing import Any

from .model import Resource
from .pods import containers, pod_labels
from .reading import at, image, text

_NAME, _PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
_WORDS = ("valkey",)


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
    return any(map(_says_valkey, labels)) or any(runs_server_image(c.spec) for c in containers(resource))


def runs_server_image(container: Any) -> bool:
    """Whether a container's image is called after Valkey."""
    return any(word in image(text(at(container, "image"))).last for word in _WORDS)


def _says_valkey(labels: Any) -> bool:
    return any(text(at(labels, key)) in _WORDS for key in (_NAME, _PART_OF))


def _below_ours(urn: str) -> bool:
    """Whether it is one of our components, or made by one, or one of our dynamic resources."""
    types = urn.split("::")[2] if urn.count("::") >= 3 else ""
    return any(part.startswith(("valkey:", "pulumi-python:dynamic/valkey:")) for part in types.split("$"))
