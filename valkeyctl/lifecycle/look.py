"""A short look at Valkey itself, for `diff` and `read`: bounded, and never an exception for what cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from valkeyctl.dataplane import Condition, Done, Phase, Report, Status, Steps, describe_layout, observe, plan, report
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.steps import HandOver
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import DeclaredUnreadable, read_declared
from valkeyctl.kube.pods import PodFacts, pod_facts
from valkeyctl.kube.status import read_status
from valkeyctl.kube.trouble import pod_conditions
from valkeyctl.lifecycle.forecast import forecast, states
from valkeyctl.lifecycle.props import Declaration
from valkeyctl.lifecycle.roles import with_roles
from valkeyctl.lifecycle.session import Session, api_of, for_agents, open_session

ANSWER_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What a look found. `right`: Valkey and its Pods are as declared. `todo`: what an `up` would do first, for people;
    `rolling`: which roles it would move, and which Pods replace, in its order.

    `told_to_agents`: the agents in the Pods have been told the same declaration. `report` is None where not even the
    API server could be asked; `problem` then says why.
    """

    right: bool
    todo: tuple[str, ...] = ()
    told_to_agents: bool = False
    report: Report | None = None
    problem: str = ""
    rolling: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])


def look(declaration: Declaration, *, formed: bool = False, all_outdated: bool = False) -> Seen:
    """Asks every member once. `formed` as for `run`. `all_outdated`: the Pods' template is about to change."""
    place = declaration.place
    try:
        status = read_status(api_of(place), place.namespace, place.instance)
        formed = formed or bool(status and status.formed)
        told = is_told(api_of(place), declaration, formed=formed)
        session = open_session(declaration, formed=formed)
        endpoints = session.directory()
        view = observe(session.spec, endpoints, session.dialer, timeout_s=ANSWER_TIMEOUT_S)
        facts = pod_facts(session.directory, session.spec.members)
        spec = with_roles(session, view, facts)
    except ValkeyctlError as error:
        return Seen(right=False, problem=str(error), outputs=unreachable(str(error)))
    # A role that is elsewhere than declared is something to do, and nothing that an instance would lack.
    found, planned = report(replace(spec, primaries={}), view), plan(spec, view)
    steps = planned.steps if isinstance(planned, Steps) else ()
    todo = tuple(step.describe() for step in steps if not isinstance(step, HandOver))
    if not isinstance(planned, Steps | Done):
        todo = (f"{planned.reason}. {planned.remedy}",)
    pods = states(facts, all_outdated=all_outdated)
    rolling = forecast(spec, view, pods)
    right = isinstance(planned, Done) and not any(pod.outdated for pod in pods.values())
    return Seen(right, todo, told, found, rolling=rolling, outputs=outputs_of(session, found, facts))


def is_told(api: Api, declaration: Declaration, *, formed: bool) -> bool:
    """Whether the agents have been told this declaration. Errors: those of the API."""
    place = declaration.place
    try:
        told = read_declared(api, place.namespace, place.instance)
    except DeclaredUnreadable:
        return False
    return told == for_agents(declaration, formed=formed)


def outputs_of(session: Session, found: Report, facts: Sequence[PodFacts]) -> dict[str, Any]:
    """What a report becomes in Pulumi's state: only what stays the same while nothing changes.

    No key, offset, time, or count: a drift check would be red for ever.
    """
    declaration, place = session.declaration, session.place
    host = f"{place.instance}.{place.namespace}.svc"
    named = {"layout": describe_layout(found.layout)} if any(found.layout) else {}
    versions = {"server_version": found.server_version} if found.server_version else {}
    return {
        "phase": str(found.phase),
        "conditions": [_condition(one) for one in (*found.conditions, *pod_conditions(facts))],
        "primaries": dict(found.primaries),
        "endpoints": {"host": host, "port": declaration.port, "uri": f"valkey://{host}:{declaration.port}"},
        "secret_name": str((declaration.credentials or {}).get("secretName") or ""),
        **named,
        **versions,
    }


def unreachable(problem: str) -> dict[str, Any]:
    """The outputs that change when nothing could be asked; all others keep what was last known."""
    condition = Condition("Reachable", Status.FALSE, "Unreachable", problem)
    return {"phase": str(Phase.UNREACHABLE), "conditions": [_condition(condition)]}


def _condition(condition: Condition) -> dict[str, str]:
    # The message may hold times and offsets; type, status and reason say what a drift check needs.
    return {"type": condition.type, "status": str(condition.status), "reason": condition.reason}
