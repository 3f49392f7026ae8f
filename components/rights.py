"""The agents' account and what it may do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pulumi

from valkeyctl.agent.rights import Rule

from .names import Names

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict, RoleRefArgsDict, SubjectArgsDict

RBAC = "rbac.authorization.k8s.io"


def policy_rules(rules: Iterable[Rule]) -> list[PolicyRuleArgsDict]:
    """The rules of the Role, in the words of Pulumi's SDK."""
    written: list[PolicyRuleArgsDict] = []
    for rule in rules:
        one: PolicyRuleArgsDict = {
            "api_groups": _texts(rule["apiGroups"]),
            "resources": _texts(rule["resources"]),
            "verbs": _texts(rule["verbs"]),
        }
        if names := rule.get("resourceNames"):
            # An empty list would mean every object there is.
            one["resource_names"] = _texts(names)
        written.append(one)
    return written


def role_ref(names: Names) -> RoleRefArgsDict:
    """What the binding grants. Kubernetes lets nobody change it: it follows from the instance's name alone."""
    return {"api_group": RBAC, "kind": "Role", "name": names.agent}


def subjects(names: Names, namespace: pulumi.Input[str]) -> list[SubjectArgsDict]:
    """Whom it is granted to: the instance's agents."""
    return [{"kind": "ServiceAccount", "name": names.agent, "namespace": namespace}]


def _texts(values: Sequence[str]) -> list[pulumi.Input[str]]:
    return list(values)
