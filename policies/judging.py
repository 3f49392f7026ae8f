"""Applying a rule: to what concerns it, with the parameters in effect."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .model import Finding, Params, Resource, Rule, Surroundings
from .scope import is_valkey, serves_valkey


def judge(rule: Rule, resource: Resource, params: Params, surroundings: Surroundings) -> list[Finding]:
    """The findings of a resource rule."""
    if rule.check is None or not _concerned(resource, params):
        return []
    return list(rule.check(resource, params, surroundings))


def judge_stack(rule: Rule, resources: Sequence[Resource], params: Params, surroundings: Surroundings) -> list[Finding]:
    """The findings of a stack rule, and of a resource rule about what is Valkey's only by the workload that it serves.

    It sees all resources: one is what another relies on.
    """
    if rule.stack_check is not None:
        found = list(rule.stack_check(resources, params, surroundings))
    elif rule.check is not None and rule.by_relation and params["scope"] != "all":
        theirs = [one for one in resources if not is_valkey(one) and serves_valkey(one, resources)]
        found = [finding for one in theirs for finding in rule.check(one, params, surroundings)]
    else:
        return []
    now = {one.urn for one in resources}
    return [
        finding
        for finding in found
        if _concerned(finding.resource, params)
        or _concerned_by_relation(
            finding.resource,
            params,
            # What is gone served what was there before.
            resources if finding.resource.urn in now else list(surroundings.before().values()),
        )
    ]


def _concerned(resource: Resource, params: Params) -> bool:
    if _is_exempt(resource, params):
        return False
    return params["scope"] == "all" or is_valkey(resource)


def _concerned_by_relation(resource: Resource, params: Params, resources: Sequence[Resource]) -> bool:
    return not _is_exempt(resource, params) and serves_valkey(resource, resources)


def _is_exempt(resource: Resource, params: Params) -> bool:
    return any(fnmatchcase(resource.name, pattern) for pattern in params["exempt"])
