"""A short look at a dataset, for `diff` and `read`: bounded, and never an exception for what cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.kube.access import Api
from valkeyctl.kube.dataset_look import DatasetLook, look_at
from valkeyctl.kube.dataset_overview import lines_of
from valkeyctl.kube.declared import DeclaredUnreadable
from valkeyctl.kube.declared_dataset import read_declared_dataset
from valkeyctl.kube.pods import pod_facts
from valkeyctl.kube.status import InstanceStatus, read_status, recorded_primary
from valkeyctl.kube.trouble import pod_conditions
from valkeyctl.lifecycle.datasets.declaration import DatasetDeclaration
from valkeyctl.lifecycle.datasets.outputs import outputs_of, unreachable
from valkeyctl.lifecycle.datasets.rolling import forecast, heir_of
from valkeyctl.lifecycle.datasets.session import for_agents, open_session
from valkeyctl.lifecycle.roll_steps import states
from valkeyctl.lifecycle.session import api_of

ANSWER_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What a look found. `right`: the servers, their Pods and the Sentinels are as declared. `todo`: what an `up` would
    do first, for people; `rolling`: which Pods it would replace, and where the role would go, in its order.

    `told_to_agents`: the agents in the Pods have been told the same declaration. `problem` says why nothing could be
    seen, where that is so.
    """

    right: bool
    todo: tuple[str, ...] = ()
    told_to_agents: bool = False
    problem: str = ""
    rolling: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])


def look(declaration: DatasetDeclaration, *, formed: bool = False, all_outdated: bool = False) -> Seen:
    """Asks every member and every Sentinel once. `formed` as for `run`; `all_outdated`: the Pods' template is about to
    change.
    """
    place = declaration.place
    try:
        status = read_status(api_of(place), place.namespace, place.instance)
        formed = formed or bool(status and status.formed)
        told = is_told(api_of(place), declaration, formed=formed)
        session = open_session(declaration, formed=formed)
        seen = look_at(
            session.spec,
            session.directory,
            session.dialer,
            timeout_s=ANSWER_TIMEOUT_S,
            side=session.sentinels,
            by_lease=declaration.automatic_failover_s is not None,
            recorded=recorded_primary(status),
        )
        facts = pod_facts(session.directory, session.spec.members)
    except ValkeyctlError as error:
        return Seen(right=False, problem=str(error), outputs=unreachable(str(error)))
    pods = states(facts, all_outdated=all_outdated)
    wish = _wish(declaration, seen, status)
    rolling = forecast(replace(seen.spec, primary=wish), seen.view, pods)
    todo = (*lines_of(seen.plan), *lines_of(seen.plan_of_sentinels))
    misled = any(one.type == "EndpointsRight" and one.reason == "NotAsSeen" for one in seen.report.conditions)
    return Seen(
        right=not (todo or rolling or misled) and not any(pod.outdated for pod in pods.values()),
        todo=(*todo, *(("lead the Services to the right members",) if misled else ())),
        told_to_agents=told,
        rolling=rolling,
        outputs=outputs_of(declaration, seen.report, (*seen.report.conditions, *pod_conditions(facts))),
    )


def is_told(api: Api, declaration: DatasetDeclaration, *, formed: bool) -> bool:
    """Whether the agents have been told this declaration. Errors: those of the API."""
    place = declaration.place
    try:
        told = read_declared_dataset(api, place.namespace, place.instance)
    except DeclaredUnreadable:
        return False
    return told == for_agents(declaration, formed=formed)


def _wish(declaration: DatasetDeclaration, seen: DatasetLook, status: InstanceStatus | None) -> int | None:
    """The ordinal that is to have the role when the next `up` has ended; None where it stays wherever it is."""
    asked = declaration.handover
    if declaration.primary is not None or asked is None:
        return declaration.primary
    if status is None or not status.finished or status.handed_over == asked.token:
        return None
    if asked.to is not None:
        return asked.to
    k = Knowledge(seen.spec, seen.view)
    primary = decide_primary(k).primary
    heir: Member | None = heir_of(k, primary) if primary is not None else None
    return None if heir is None else heir.ordinal
