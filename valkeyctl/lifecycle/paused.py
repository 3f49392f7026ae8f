"""The topology of a paused instance: no Pod runs, and what is declared and known of it stays as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from valkeyctl.dataplane import Condition, Phase, describe_layout
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.access import Object
from valkeyctl.kube.declared import write_declared
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.paused import paused_condition, running_pods
from valkeyctl.kube.pods import pod_facts
from valkeyctl.kube.status import InstanceStatus, read_status, write_status
from valkeyctl.kube.trouble import trouble
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.look import Seen, is_told, place_outputs, unreachable
from valkeyctl.lifecycle.props import Declaration
from valkeyctl.lifecycle.run import PATIENCE_S, ConvergeFailed
from valkeyctl.lifecycle.session import api_of, declared, for_agents, hold_for_up

_PAUSE_S = 0.3
_SHOWN = 4


@dataclass(frozen=True)
class Resting:
    """A paused instance: its outputs, and whether it was Ready before."""

    outputs: dict[str, Any]
    formed: bool


def run_paused(declaration: Declaration, engine: Engine, tell: Callable[[str], None], *, formed: bool) -> Resting:
    """Returns when the last Pod has gone. Idempotent and resumable.

    `formed` as for `run`. Errors: LeaseHeld; ConvergeFailed, which names the Pods that stay; those of the API.
    """
    deadline, place = time.monotonic() + declaration.timeout_s, declaration.place
    engine.require()
    api = api_of(place, patience_s=PATIENCE_S)
    before = read_status(api_of(place), place.namespace, place.instance)
    formed = formed or bool(before and before.formed)
    directory = Directory(api, place.namespace, place.instance, declaration.port)
    with hold_for_up(api, place, engine, tell) as lease:

        def may_go_on() -> None:
            engine.require()
            lease.check()

        status = replace(
            before or InstanceStatus(str(Phase.INITIALIZING)),
            formed=formed,
            destroying=False,
            declared=declared(declaration),
            done=(),
            failure="",
            observed_at="",
            observer=f"up of {place.owner}",
        )
        write_status(api, place.namespace, place.instance, place.owner, status)
        write_declared(api, place.namespace, place.instance, for_agents(declaration, formed=formed))
        recorder = Recorder(api, place.namespace, place.instance, directory.workloads())
        try:
            _await_the_last(declaration, directory, deadline, tell, may_go_on)
        except ConvergeFailed as error:
            phase = str(Phase.DEGRADED)
            failed = replace(status, phase=phase, failure=error.what, failure_of=status.observer)
            with suppress(KubeError):  # What can't be told must not hide why it failed.
                write_status(api, place.namespace, place.instance, place.owner, failed)
            recorder.phase(phase, error.what, bad=True)
            raise
        condition = paused_condition(())
        status = replace(
            status,
            phase=str(Phase.PAUSED),
            conditions=(condition,),
            layout=describe_layout(declaration.layout),
            finished=True,
        )
        write_status(api, place.namespace, place.instance, place.owner, status)
        recorder.phase(str(Phase.PAUSED), condition.message, bad=False)
    known: dict[str, Any] = {"primaries": dict(status.primaries)}
    if status.server_version:
        known["server_version"] = status.server_version
    return Resting({**_outputs(declaration, Phase.PAUSED, condition), **known}, formed)


def look_paused(declaration: Declaration, *, formed: bool) -> Seen:
    """As `look`, where no Pod is to run. One that does is something to do, and nobody asks it."""
    place = declaration.place
    try:
        api = api_of(place)
        status = read_status(api, place.namespace, place.instance)
        told = is_told(api, declaration, formed=formed or bool(status and status.formed))
        running = running_pods(Directory(api, place.namespace, place.instance, declaration.port))
    except ValkeyctlError as error:
        return Seen(right=False, problem=str(error), outputs=unreachable(str(error)))
    phase = Phase.DEGRADED if running else Phase.PAUSED
    # Whose StatefulSet asks for them is put back by Kubernetes' provider; that is said by `Prepare`.
    return Seen(right=not running, told_to_agents=told, outputs=_outputs(declaration, phase, paused_condition(running)))


def _await_the_last(
    declaration: Declaration,
    directory: Directory,
    deadline: float,
    tell: Callable[[str], None],
    may_go_on: Callable[[], None],
) -> None:
    told, first = "", 0
    while pods := directory.pods():
        may_go_on()
        first = max(first, len(pods))
        if time.monotonic() >= deadline:
            raise _not_gone(declaration, directory, pods)
        line = f"{first - len(pods)} of {first} Pods have stopped"
        if line != told:
            told = line
            tell(line)
        time.sleep(_PAUSE_S)


def _not_gone(declaration: Declaration, directory: Directory, pods: Sequence[Object]) -> ConvergeFailed:
    names = sorted(str(pod["metadata"]["name"]) for pod in pods)
    members = [member for pod in pods if (member := directory.member_of(pod)) is not None]
    lines = [line for line in trouble(pod_facts(directory, sorted(members))) if "Terminating" not in line]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    why = f". Pods: {'; '.join(lines)}" if lines else ""
    return ConvergeFailed(
        f"{declaration.place.instance} is not paused: {', '.join(names[:_SHOWN])}{more} haven't stopped{why}",
        where=declaration.place.instance,
        remedy="See why they don't stop (kubectl describe pod), and run it again; what was done is kept.",
    )


def _outputs(declaration: Declaration, phase: Phase, condition: Condition) -> dict[str, Any]:
    return {
        "phase": str(phase),
        "conditions": [{"type": condition.type, "status": str(condition.status), "reason": condition.reason}],
        "layout": describe_layout(declaration.layout),
        **place_outputs(declaration),
    }
