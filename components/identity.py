"""What a component is called by Pulumi, and who owns what it makes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pulumi


def component_type(architecture: str) -> str:
    """The type of the component, in Pulumi's words."""
    return f"valkey:index:{architecture.title()}"


def owner_of(name: str) -> str:
    """Who owns what a component of this name makes: `<organization>/<project>/<stack>/<name>`."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}/{name}"


def revision_of(template: Any) -> str:
    """A short text that changes when a Pod template does."""
    return sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:16]
