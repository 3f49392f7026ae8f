"""A short look at Valkey itself, for `diff` and `read`: bounded, and never an exception for what cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from valkeyctl.dataplane import (
    Condition,
    Done,
    Endpoint,
    Member,
    Phase,
    Report,
    SlotSet,
    Status,
    Steps,
    View,
    describe_layout,
    observe,
    plan,
    report,
)
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.fanout import fan_out
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import MAX_SHARDS
from valkeyctl.dataplane.slots import EMPTY, union
from valkeyctl.dataplane.steps import HandOver
from valkeyctl.dataplane.weigh import giving, weigh
from valkeyctl.dataplane.weight import Weight
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
BRIEFLY_S = 5.0


@dataclass(frozen=True)
class Seen:
    """What a look found. `right`: Valkey and its Pods are as declared. `todo`: what an `up` would do first, for people;
    `rolling`: which roles it would move, and which Pods replace, in its order.

    `told_to_agents`: the agents in the Pods have been told the same declaration. `weight`: what the slots hold that are
    with another shard than declared; None where that wasn't asked, or can't be. `moved`: slots that have moved already.
    `report` is None where not even the API server could be asked; `problem` then says why.
    """

    right: bool
    todo: tuple[str, ...] = ()
    told_to_agents: bool = False
    report: Report | None = None
    problem: str = ""
    rolling: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    weight: Weight | None = None
    moved: SlotSet = EMPTY


def look_briefly(declaration: Declaration, *, formed: bool, moving: SlotSet) -> Seen:
    """As `look`, where what is seen is only for telling: it is given up after `BRIEFLY_S`, however many are silent."""

    def late(_: None) -> Seen:
        return Seen(right=False, problem=f"not all members were heard within {BRIEFLY_S:g} s")

    seen = fan_out(
        (None,),
        lambda _: look(declaration, formed=formed, moving=moving),
        max_parallel=1,
        timeout_s=BRIEFLY_S,
        late=late,
    )
    return seen[None]


def look(
    declaration: Declaration, *, formed: bool = False, all_outdated: bool = False, moving: SlotSet | None = None
) -> Seen:
    """Asks every member once, and those that have slots to give, what these hold, where `moving` isn't None.

    `formed` as for `run`. `all_outdated`: the Pods' template is about to change. `moving`: the slots that the declared
    layout moves as against the former one.
    """
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
        weight, moved = (None, EMPTY) if moving is None else _weigh(session, view, endpoints, moving)
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
    return Seen(
        right, todo, told, found, rolling=rolling, outputs=outputs_of(session, found, facts), weight=weight, moved=moved
    )


def _weigh(
    session: Session, view: View, endpoints: Mapping[Member, Endpoint], moving: SlotSet
) -> tuple[Weight, SlotSet]:
    """What the slots hold that have yet to move, and which of those that were to move have moved already."""
    k = Knowledge(session.spec, view)
    given, owned = giving(k), union(k.owned.values())
    with Links(session.dialer, timeout_s=ANSWER_TIMEOUT_S, max_parallel=MAX_SHARDS) as links:
        weight = weigh(links, given, endpoints)
    return replace(weight, unknown=weight.unknown | (moving - owned)), (moving & owned) - union(given.values())


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
    named = {"layout": describe_layout(found.layout)} if any(found.layout) else {}
    versions = {"server_version": found.server_version} if found.server_version else {}
    return {
        "phase": str(found.phase),
        "conditions": [_condition(one) for one in (*found.conditions, *pod_conditions(facts))],
        "primaries": dict(found.primaries),
        **place_outputs(session.declaration),
        **named,
        **versions,
    }


def place_outputs(declaration: Declaration) -> dict[str, Any]:
    """The outputs that say where the instance is, whatever runs of it."""
    host = f"{declaration.place.instance}.{declaration.place.namespace}.svc"
    return {
        "endpoints": {"host": host, "port": declaration.port, "uri": f"valkey://{host}:{declaration.port}"},
        "secret_name": str((declaration.credentials or {}).get("secretName") or ""),
    }


def unreachable(problem: str) -> dict[str, Any]:
    """The outputs that change when nothing could be asked; all others keep what was last known."""
    condition = Condition("Reachable", Status.FALSE, "Unreachable", problem)
    return {"phase": str(Phase.UNREACHABLE), "conditions": [_condition(condition)]}


def _condition(condition: Condition) -> dict[str, str]:
    # The message may hold times and offsets; type, status and reason say what a drift check needs.
    return {"type": condition.type, "status": str(condition.status), "reason": condition.reason}
