"""What is run, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model import Finding, Params, Resource, Surroundings
from ..pods import containers
from ..reading import at, image, text

#: What a tag has to name, by what is asked for.
_NAMED = {"line": re.compile(r"(^|\D)\d+\.\d+"), "release": re.compile(r"(^|\D)\d+\.\d+\.\d+")}


def pinned(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Images that mean something else tomorrow. A digest always pins; a tag does as far as it names a version."""
    for container in containers(resource):
        reference = text(at(container.spec, "image"))
        if not reference:
            continue
        parts = image(reference)
        if parts.digest:
            continue
        if params["require"] == "digest":
            yield Finding(resource, f"{container.where} runs {reference}, which names no digest")
        elif not parts.tag:
            yield Finding(resource, f"{container.where} runs {reference}, which names neither tag nor digest")
        elif not _NAMED[params["require"]].search(parts.tag):
            yield Finding(resource, f"{container.where} runs {reference}, whose tag {parts.tag} moves")


def approved_registries(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Images from elsewhere than the approved places."""
    approved = [prefix.rstrip("/") for prefix in params["registries"]]
    for container in containers(resource):
        repository = image(text(at(container.spec, "image"))).repository
        if approved and repository and not any(f"{repository}/".startswith(f"{prefix}/") for prefix in approved):
            places = ", ".join(approved)
            yield Finding(resource, f"{container.where} runs {repository}, and approved are only {places}")
