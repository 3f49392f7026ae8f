"""Applying a rule: to what concerns it, with the parameters in effect."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .model import Finding, Params, Resource, Rule, Surroundings
from .scope import is_valkey


def judge(rule: Rule, resource: Resource, params: Params, surroundings: Surroundings) -> list[Finding]:
    """The findings of a resource rule."""
    if rule.check is None or not _concerned(resource, params):
        return []
    return list(rule.check(resource, params, surroundings))


def judge_stack(rule: Rule, resources: Sequence[Resource], params: Params, surroundings: Surroundings) -> list[Finding]:
    """The findings of a stack rule. It sees all resources: one is what another relies on."""
    if rule.stack_check is None:
        return []
    found = rule.stack_check(resources, params, surroundings)
    return [finding for finding in found if _concerned(finding.resource, params)]


def _concerned(resource: Resource, params: Params) -> bool:
    if any(fnmatchcase(resource.name, pattern) for pattern in params["exempt"]):
        return False
    return params["scope"] == "all" or is_valkey(resource)
