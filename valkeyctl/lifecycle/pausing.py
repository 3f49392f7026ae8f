"""What `Prepare` does before the Pods of an instance that is to be paused go, and before they come back.

Pulumi scales all StatefulSets to zero at once, and their Pods stop in no order. So before that, writes are held and all
copies made equal: then it doesn't matter who stops when, nobody has to take over from anybody, and each disk alone has
everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Endpoint, Member, Plan, Progress, Spec, View, converge
from valkeyctl.dataplane.errors import Blocked, DeadlineExceeded, Interrupted, ValkeyctlError
from valkeyctl.dataplane.holding import disk_troubles, hold_writes, release_writes, tell_settings
from valkeyctl.dataplane.loop import READY
from valkeyctl.dataplane.plan_pause import in_sync_with_primary, plan_pause, serving_primaries
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import DeclaredState, DeclaredUnreadable, read_declared, write_declared
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.pods import pod_facts
from valkeyctl.kube.status import read_status, write_status
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.present import Present, present, sizes_of
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of, hold_for_up

WHOLE_S = 60.0
"""How long an instance may take to be whole, which its agents may still be at. Then it is paused as it is."""
EQUAL_S = 30.0
"""How long copies may take for what is under way to them, once no more is written."""
HOLD_S = 120.0
"""How long writes wait for the Pods to stop; should nobody come to stop them, they go on then."""
PATIENCE_S = 20.0
#: What servers are told so that no member takes over from one that stops; the ConfigMap, which follows, says the same.
AT_REST = ("cluster-replica-no-failover", "shutdown-on-sigterm")


@dataclass(frozen=True)
class Pausing:
    """How to speak to the servers, and the live settings that a paused instance declares."""

    settings: Mapping[str, str]
    port: int = 6379
    credentials: Mapping[str, str | None] | None = None

    @property
    def at_rest(self) -> dict[str, str]:
        """Those of the settings that are told before the Pods stop."""
        return {name: self.settings[name] for name in AT_REST if name in self.settings}


def to_do(place: Place, *, paused: bool) -> str:
    """What is to be done about running or stopped Pods, for a preview; "" where nothing is, or nobody can be asked."""
    with suppress(ValkeyctlError):  # an API server that doesn't answer is told of elsewhere
        api = api_of(place)
        if paused:
            pods = sum(sizes_of(place, Directory(api, place.namespace, place.instance)))
            return f"stop {_all(pods)}; the data stays on {_disks(pods)}" if pods else ""
        state = _declared(api, place)
        if state is not None and state.paused:
            pods = len(state.spec.members)
            return f"start {_all(pods)}, with the data that is on {_disks(pods)}"
    return ""


def pause(place: Place, declared: Pausing, engine: Engine, tell: Callable[[str], None]) -> None:
    """Returns when all members that run may stop, at once and in any order, without losing a write. Idempotent.

    Writes then wait, for `HOLD_S` at most. An instance that never was Ready has nothing to be careful of. Errors:
    LeaseHeld; Blocked, after which all is as before; Interrupted; those of the API.
    """
    found = present(place, port=declared.port, credentials=declared.credentials, patience_s=PATIENCE_S)
    if found is None:
        return
    members = _asked_for(place, found)
    if not members or not _holds_data(found.api, place):
        return
    in_sync = _await_whole(found, members, engine, tell)
    with hold_for_up(found.api, place, engine, tell) as lease:

        def may_go_on() -> None:
            engine.require()
            lease.check()

        _tell_all(found.api, place, paused=True)
        try:
            _bring_to_rest(found, in_sync, declared, tell, may_go_on)
        except ValkeyctlError as error:
            # Settings are set back by the agents, which find them otherwise in the ConfigMap.
            with suppress(ValkeyctlError):  # why it failed is what a person has to know
                release_writes(found.dialer, found.directory())
                if not isinstance(error, Interrupted):  # else somebody else may have the Lease by now
                    _tell_all(found.api, place, paused=False)
            raise
    engine.info(f"no more writes are taken, and all copies are equal: {_all(len(members))} may stop")


def wake(place: Place, declared: Pausing, engine: Engine, tell: Callable[[str], None]) -> None:
    """Takes back that the instance is paused, before its Pods come back: their agents may heal from then on.

    What still runs, since pausing was interrupted, takes writes again. Idempotent. Errors: LeaseHeld; Interrupted;
    those of the API.
    """
    state = _declared(api_of(place), place)
    if state is None or not state.paused:
        return
    found = present(place, port=declared.port, credentials=declared.credentials, patience_s=PATIENCE_S)
    with hold_for_up(api_of(place, patience_s=PATIENCE_S), place, engine, tell):
        _tell_all(api_of(place, patience_s=PATIENCE_S), place, paused=False)
        if found is not None:
            release_writes(found.dialer, found.directory())


def _holds_data(api: Api, place: Place) -> bool:
    """Whether the instance was Ready once, by either that is told of it, and isn't being destroyed."""
    status, state = read_status(api, place.namespace, place.instance), _declared(api, place)
    formed = bool(status and status.formed) or bool(state and state.spec.formed)
    return formed and not (status and status.destroying)


# --- before the Pods go ----------------------------------------------------------------------------------------------


def _await_whole(
    found: Present, members: frozenset[Member], engine: Engine, tell: Callable[[str], None]
) -> frozenset[Member]:
    """Wait for all to be in sync, without the Lease: agents may have to heal for that. Who is in the end.

    Errors: Blocked where a shard has servers that run and no primary that answers: what they hold may be on no disk.
    """

    def decide(spec: Spec, view: View) -> Plan:
        return plan_pause(spec, view, members=members)

    try:
        _converge(found, decide, WHOLE_S, tell, engine.require)
    except DeadlineExceeded as error:
        seen = error.view if isinstance(error.view, View) else found.look()
        serving = {member.shard for member in serving_primaries(found.spec, seen)}
        _refuse_silent(found, [member for member in sorted(members) if member.shard not in serving])
        engine.warn(f"it is paused as it is: {error.what.partition('. ')[2] or error.what}")
        return members & in_sync_with_primary(found.spec, seen)
    return members


def _refuse_silent(found: Present, members: list[Member]) -> None:
    running = [fact.pod for fact in pod_facts(found.directory, members) if fact.server_runs]
    if running:
        raise Blocked(
            f"it can't be paused now: {', '.join(running)} run, and no primary of their shard answers, so that nobody "
            "knows whether what they hold is on their disks",
            where=found.spec.instance,
            remedy="See `valkeyctl status`. Bring the instance into order first, without `paused`.",
        )


def _bring_to_rest(
    found: Present,
    members: frozenset[Member],
    declared: Pausing,
    tell: Callable[[str], None],
    may_go_on: Callable[[], None],
) -> None:
    """Have no role move any more, hold writes, wait until the copies are equal, and see that disks take what comes."""
    may_go_on()
    _refuse_any(tell_settings(found.dialer, _among(found.directory(), members), declared.at_rest))
    # From here on roles stay where they are, and so it is known who takes writes.
    primaries = _among(found.directory(), serving_primaries(found.spec, found.look()))
    may_go_on()
    _refuse_any(hold_writes(found.dialer, primaries, for_s=HOLD_S))

    def decide(spec: Spec, view: View) -> Plan:
        return plan_pause(spec, view, members=members, exactly=True)

    try:
        view = _converge(found, decide, EQUAL_S, tell, may_go_on)
    except DeadlineExceeded as error:
        what = error.what.partition(". ")[2] or error.what
        raise Blocked(
            f"it can't be paused now: the copies aren't equal {EQUAL_S:.0f} s after the last write: {what}",
            where=found.spec.instance,
            remedy="See `valkeyctl status`, and run it again.",
        ) from error
    if missed := [member for member in serving_primaries(found.spec, view) if member not in primaries]:
        _refuse(dict.fromkeys(missed, "it has become a primary meanwhile"))
    _refuse(disk_troubles(found.dialer, primaries))


def _refuse_any(errors: Mapping[Member, ValkeyctlError]) -> None:
    _refuse({member: str(error) for member, error in errors.items()})


def _refuse(troubles: Mapping[Member, str]) -> None:
    if troubles:
        lines = "; ".join(f"{member}: {what}" for member, what in sorted(troubles.items())[:4])
        raise Blocked(
            f"it can't be paused now, since data might be lost: {lines}",
            remedy="See the log of these Pods, container server, and run it again.",
        )


def _converge(
    found: Present,
    decide: Callable[[Spec, View], Plan],
    within_s: float,
    tell: Callable[[str], None],
    may_go_on: Callable[[], None],
) -> View:
    def progress(now: Progress) -> None:
        if now.text != READY:  # It isn't about what is declared.
            tell(f"before all Pods stop: {now.text}")

    return converge(
        found.spec,
        found.directory,
        found.dialer,
        deadline_s=within_s,
        progress=progress,
        may_go_on=may_go_on,
        decide=decide,
    )


def _asked_for(place: Place, found: Present) -> frozenset[Member]:
    """The members that the StatefulSets ask for: none of a shard whose StatefulSet was scaled to zero before."""
    sizes = sizes_of(place, found.directory)
    return frozenset(Member(shard, ordinal) for shard, size in enumerate(sizes) for ordinal in range(size))


def _among(endpoints: Mapping[Member, Endpoint], members: Collection[Member]) -> dict[Member, Endpoint]:
    return {member: endpoint for member, endpoint in endpoints.items() if member in members}


# --- what agents and people are told ---------------------------------------------------------------------------------


def _tell_all(api: Api, place: Place, *, paused: bool) -> None:
    """Say it to the agents, and in the status, where either has been told anything before."""
    state = _declared(api, place)
    if state is not None and state.paused is not paused:
        write_declared(api, place.namespace, place.instance, replace(state, owner=place.owner, paused=paused))
    status = read_status(api, place.namespace, place.instance)
    if status is not None and status.declared is not None and status.declared.paused is not paused:
        declared = replace(status.declared, paused=paused)
        write_status(api, place.namespace, place.instance, place.owner, replace(status, declared=declared))


def _declared(api: Api, place: Place) -> DeclaredState | None:
    try:
        return read_declared(api, place.namespace, place.instance)
    except DeclaredUnreadable:
        return None  # The topology writes it anew.


def _all(pods: int) -> str:
    return "the Pod" if pods == 1 else f"all {pods} Pods"


def _disks(pods: int) -> str:
    return "its volume" if pods == 1 else f"their {pods} volumes"
