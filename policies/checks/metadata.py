"""What objects say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..reading import at


def required_labels(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Objects by whose labels nobody finds who they belong to."""
    labels = at(resource.props, "metadata", "labels")
    if not resource.is_kubernetes or labels is UNKNOWN or at(resource.props, "metadata") is None:
        return
    missing = [label for label in params["labels"] if at(labels, label) in (None, "")]
    if missing:
        yield Finding(resource, f"has no label {' and no label '.join(missing)}")
