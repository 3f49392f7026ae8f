"""The rules as Pulumi's policies. Everything that knows of Pulumi is here; what is judged, and how, is in the rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from threading import local
from typing import Any

import grpc
import pulumi
import pulumi_policy.policy
from google.protobuf import json_format
from pulumi.runtime.config import is_config_secret
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from .judging import judge, judge_stack
from .model import UNKNOWN, Finding, Resource, Rule, Surroundings
from .profile import problems
from .rules import RULES
from .state import Before, UnreadableStateError

NAME = "valkey"
_RULES_THAT_COMPARE = ("data-kept", "slots-moved")

#: Pulumi's class that answers the engine. A pack has no other way to see the whole profile.
_SERVICER = "_PolicyAnalyzerServicer"

Report = Callable[..., None]


def register() -> None:
    """Serve the pack to the engine until it ends."""
    judges = Judges()
    setattr(pulumi_policy.policy, _SERVICER, checking(getattr(pulumi_policy.policy, _SERVICER)))
    PolicyPack(name=NAME, enforcement_level=EnforcementLevel.ADVISORY, policies=[judges.policy(rule) for rule in RULES])


def checking(servicer: Any) -> Any:
    """The class that answers the engine, made to refuse a profile with names that mean nothing.

    The engine hands the profile over before anything is judged, and passes on what it doesn't know itself.
    """

    class Checking(servicer):
        def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
            profile = {name: json_format.MessageToDict(one.properties) for name, one in request.policyConfig.items()}
            if found := list(problems(profile)):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "\n".join(["the profile is wrong", *found]))
            return super().Configure(request, context)

    return Checking


class Both(ResourceValidationPolicy, StackValidationPolicy):
    """A policy that judges each resource, and all of them together at the end."""

    def __init__(
        self, name: str, description: str, each: Callable[..., None], whole: Callable[..., None], **options: Any
    ) -> None:
        """`each` judges one resource, `whole` the stack. `options`: those of every policy."""
        Policy.__init__(self, name, description, **options)
        self._each, self._whole = each, whole

    def validate(self, args: Any, report_violation: Any) -> None:
        """Judge what is given: a resource or a stack."""
        (self._whole if isinstance(args, StackValidationArgs) else self._each)(args, report_violation)

    def has_validation(self) -> bool:
        """It judges."""
        return True

    def has_remediation(self) -> bool:
        """It changes nothing."""
        return False


class Judges:
    """The rules at work on one stack."""

    def __init__(self, before: Before | None = None) -> None:
        self._before = before or Before(_stack())
        self._surroundings = Surroundings(_open_config(), self._before)
        self._current = local()
        #: What was asked for, by URN. At the end a stack rule judges this: what a provider tells beside it, or can't
        #: tell in a preview, is no fault of the program.
        self._declared: dict[str, Resource] = {}

    def policy(self, rule: Rule) -> ResourceValidationPolicy | StackValidationPolicy:
        """The rule as one of Pulumi's policies."""
        schema = PolicyConfigSchema(
            {name: {**one.schema, "default": one.default} for name, one in rule.all_parameters.items()}
        )
        options: dict[str, Any] = {"config_schema": schema, "remediation_steps": rule.remedy, "url": rule.link}

        def each(args: ResourceValidationArgs, report: Report) -> None:
            self._resource(rule, args, report)

        def whole(args: StackValidationArgs, report: Report) -> None:
            self._stack(rule, args, report)

        if rule.by_relation:
            return Both(rule.name, rule.title, each, whole, **options)
        if rule.check is not None:
            return ResourceValidationPolicy(rule.name, rule.title, each, **options)
        return StackValidationPolicy(rule.name, rule.title, whole, **options)

    def _resource(self, rule: Rule, args: ResourceValidationArgs, report: Report) -> None:
        if rule.name in _RULES_THAT_COMPARE:
            self._before.begin()
        resource = self._seen(rule, args)
        params = rule.params(args.get_config())
        _tell(rule, resource, report, lambda: judge(rule, resource, params, self._surroundings))

    def _stack(self, rule: Rule, args: StackValidationArgs, report: Report) -> None:
        resources = [self._declared.get(one.urn) or _converted(one) for one in args.resources]
        root = next((one for one in resources if one.type == "pulumi:pulumi:Stack"), None)
        anywhere = root or Resource("", "pulumi:pulumi:Stack", "stack", {})
        params = rule.params(args.get_config())
        _tell(rule, anywhere, report, lambda: judge_stack(rule, resources, params, self._surroundings))

    def _seen(self, rule: Rule, args: ResourceValidationArgs) -> Resource:
        """The resource, read once for all rules: the engine asks for all of them, one after the other."""
        known: tuple[Resource, set[str]] | None = getattr(self._current, "known", None)
        if known is None or known[0].urn != args.urn or rule.name in known[1]:
            known = (_converted(args), set())
            self._current.known = known
            self._declared[args.urn] = known[0]
        known[1].add(rule.name)
        return known[0]


def plain(value: Any) -> Any:
    """What Pulumi hands over as plain data, with UNKNOWN in the place of what isn't known.

    Its mappings and lists raise when something unknown in them is touched.
    """
    if isinstance(value, Mapping):
        return {key: _part(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_part(value, number) for number in range(len(value))]
    return value


def _part(whole: Any, key: Any) -> Any:
    try:
        return plain(whole[key])
    except UnknownValueError:
        return UNKNOWN


def _converted(args: ResourceValidationArgs | PolicyResource) -> Resource:
    options = args.opts
    return Resource(
        urn=args.urn,
        type=args.resource_type,
        name=args.name,
        props=plain(args.props),
        protect=bool(options.protect),
        ignore_changes=tuple(options.ignore_changes),
    )


def _tell(rule: Rule, anywhere: Resource, report: Report, found: Callable[[], list[Finding]]) -> None:
    try:
        findings = found()
    except UnreadableStateError as error:
        # What can't be judged must not pass as good.
        findings = [Finding(anywhere, str(error))]
    for finding in findings:
        report(rule.tell(finding), finding.resource.urn or None)


def _stack() -> str:
    """The stack that is being updated; "" where none is (a pack that is only being looked at)."""
    if not os.environ.get("PULUMI_STACK"):
        return ""
    organization = os.environ.get("PULUMI_ORGANIZATION") or "organization"
    return f"{organization}/{os.environ['PULUMI_PROJECT']}/{os.environ['PULUMI_STACK']}"


def _open_config() -> dict[str, str]:
    """The stack config without what is secret in it."""
    return {key: value for key, value in pulumi.runtime.get_config_env().items() if not is_config_secret(key)}
