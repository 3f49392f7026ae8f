"""What `Prepare` does of a dataset before Pods go: the role moves off those that leave, Sentinels that leave are
released, and before a pause all is brought to rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Member, Progress
from valkeyctl.dataplane.errors import Blocked, DeadlineExceeded, Interrupted, ValkeyctlError
from valkeyctl.dataplane.holding import disk_troubles, hold_writes, release_writes
from valkeyctl.dataplane.loop import READY
from valkeyctl.dataplane.replication.converge import converge
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.sentinel.model import Sentinel
from valkeyctl.kube.declared_dataset import DeclaredSentinels, read_declared_dataset, write_declared_dataset
from valkeyctl.kube.endpoints import Wanted, write_endpoints
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.pods import pod_facts
from valkeyctl.kube.sentinel_directory import SentinelDirectory
from valkeyctl.kube.watched import Members, Watch, side_of
from valkeyctl.lifecycle.datasets.authority import Authority, BySentinels, Decide, Means, agree, authority_of
from valkeyctl.lifecycle.datasets.resting import in_sync, plan_pause, plan_retreat, serving_primary
from valkeyctl.lifecycle.datasets.rolling import heir_of
from valkeyctl.lifecycle.datasets.standing import Standing, standing
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.pausing import (
    EQUAL_S,
    HOLD_S,
    PATIENCE_S,
    WHOLE_S,
    Pausing,
    all_pods,
    holds_data,
    refuse,
    refuse_any,
    tell_all,
)
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.retreat import WITHIN_S, Retreating
from valkeyctl.lifecycle.session import api_of, hold_for_up


@dataclass
class _Doing:
    """What is done of a dataset as it stands, with its ways. `prefix` goes before each line of progress."""

    found: Standing
    authority: Authority
    engine: Engine
    tell: Callable[[str], None]
    may_go_on: Callable[[], None]
    prefix: str = ""

    def means(self, within_s: float) -> Means:
        return Means(
            self.converge,
            self.may_go_on,
            self.progress,
            self.engine.info,
            self.moved,
            time.monotonic() + within_s,
        )

    def converge(
        self, decide: Decide, at_most_s: float = float("inf"), *, wanted: Member | None = None
    ) -> ReplicationView:
        spec = self.found.spec if wanted is None else replace(self.found.spec, primary=wanted.ordinal)
        return converge(
            spec,
            self.found.directory,
            self.found.dialer,
            deadline_s=min(at_most_s, WHOLE_S),
            progress=self.progress,
            may_go_on=self.may_go_on,
            decide=lambda spec, view: self.authority.admit(decide(self.authority.informed(spec), view)),
        )

    def progress(self, now: Progress) -> None:
        for line in now.new:
            self.engine.info(line)
        if now.text != READY:  # It isn't about what is declared.
            self.tell(f"{self.prefix}{now.text}")

    def moved(self, to: Member) -> None:
        place = self.found.place
        with suppress(KubeError):  # the agents write them, too
            endpoint = self.found.endpoints.get(to)
            if endpoint is not None:
                write_endpoints(self.found.api, place.namespace, place.instance, Wanted(rw=(endpoint,)))


# --- before members go ------------------------------------------------------------------------------------------------


def roles_that_move(place: Place, declared: Retreating) -> list[str]:
    """A line where the primary is to go, for a preview; nothing where that can't be told now."""
    with suppress(ValkeyctlError):
        found = standing(place, port=declared.port, credentials=declared.credentials)
        if found is not None:
            seen = found.look()
            k = Knowledge(seen.spec, seen.view)
            primary = decide_primary(k).primary
            if primary is not None and primary.member.ordinal > declared.replicas:
                heir = heir_of(k, primary, among=1 + declared.replicas)
                return [f"primary: {primary.member} → {heir or 'a member that stays'}"]
    return []


def retreat(place: Place, declared: Retreating, engine: Engine, tell: Callable[[str], None]) -> None:
    """Returns when the primary isn't among the members that are to go. Idempotent.

    Under the instance's Lease. Errors: LeaseHeld; Blocked, where no member that stays can take the role over;
    Interrupted; those of the API.
    """
    found = standing(place, port=declared.port, credentials=declared.credentials, patience_s=PATIENCE_S)
    if found is None:
        return
    keep = 1 + declared.replicas
    with hold_for_up(found.api, place, engine, tell) as lease, ExitStack() as stack:

        def may_go_on() -> None:
            engine.require()
            lease.check()

        authority = found.authority(stack)
        doing = _Doing(found, authority, engine, tell, may_go_on)
        try:
            view = doing.converge(lambda spec, view: plan_retreat(spec, view, keep=keep), WITHIN_S)
        except DeadlineExceeded as error:
            raise Blocked(
                f"replicas can't be taken out now, and none was: {error.what.partition('. ')[2] or error.what}",
                where=place.instance,
                remedy=f"Bring the instance into order with its present replicas first, then declare "
                f"{declared.replicas}.",
            ) from error
        k = Knowledge(authority.informed(found.spec), view)
        primary = decide_primary(k).primary
        if primary is not None and primary.member.ordinal >= keep:
            heir = heir_of(k, primary, among=keep)
            if heir is not None:
                authority.hand_over(heir, primary.member, doing.means(WITHIN_S))


def sentinels_that_leave(watch: Watch | None, place: Place) -> str:
    """A line for a preview, where there are Sentinels of the instance's own that aren't declared any more; else ""."""
    with suppress(ValkeyctlError):  # an API server that doesn't answer is told of elsewhere
        if watch is not None and (leaving := _leaving(watch, place)):
            return f"release {', '.join(map(str, leaving))}, which the others forget"
    return ""


def _leaving(watch: Watch, place: Place) -> list[Sentinel]:
    if not watch.own or not watch.set_name:
        return []
    there = SentinelDirectory(api_of(place), place.namespace, watch.set_name, watch.port).there()
    return [one for one in there if one.ordinal >= watch.replicas]


def release_sentinels(
    watch: Watch, place: Place, declared: Retreating, engine: Engine, tell: Callable[[str], None]
) -> None:
    """Before there are fewer Sentinels: those that go monitor no more, and the others forget them. Idempotent.

    The agents are told first, so that they don't have them monitor again. Errors: LeaseHeld; Blocked; DeadlineExceeded;
    Interrupted; those of the API.
    """
    found = standing(place, port=declared.port, credentials=declared.credentials, patience_s=PATIENCE_S)
    if found is None or not holds_data(found.api, place) or not _leaving(watch, place):
        return
    members = Members(place.namespace, place.instance, len(found.spec.members) - 1, declared.port)
    with hold_for_up(found.api, place, engine, tell) as lease, ExitStack() as stack:

        def may_go_on() -> None:
            engine.require()
            lease.check()

        told = read_declared_dataset(found.api, place.namespace, place.instance)
        if told is not None and told.sentinels is not None:
            fewer = DeclaredSentinels(
                watch.name,
                watch.addresses,
                watch.quorum,
                watch.parameters.down_after_ms,
                watch.parameters.failover_timeout_ms,
                watch.parameters.parallel_syncs,
            )
            write_declared_dataset(found.api, place.namespace, replace(told, owner=place.owner, sentinels=fewer))
        side = side_of(watch, members, found.api, place.transport, found.credentials)
        authority = authority_of(
            found.directory,
            place,
            found.dialer,
            found.spec.members,
            stack,
            side=side,
            by_lease=False,
            recorded=found.recorded,
        )
        if isinstance(authority, BySentinels):
            agree(authority, _Doing(found, authority, engine, tell, may_go_on).means(WITHIN_S))


# --- before all Pods go -----------------------------------------------------------------------------------------------


def pause(place: Place, declared: Pausing, engine: Engine, tell: Callable[[str], None]) -> None:
    """Returns when all members that run may stop, at once and in any order, without losing a write. Idempotent.

    Writes then wait, for `HOLD_S` at most. An instance that never was Ready has nothing to be careful of. Errors:
    LeaseHeld; Blocked, after which all is as before; Interrupted; those of the API.
    """
    found = standing(place, port=declared.port, credentials=declared.credentials, patience_s=PATIENCE_S)
    if found is None or not holds_data(found.api, place):
        return
    with ExitStack() as stack:
        authority = found.authority(stack)
        before = "before all Pods stop: "
        members = _await_whole(_Doing(found, authority, engine, tell, engine.require, before))
        with hold_for_up(found.api, place, engine, tell) as lease:

            def may_go_on() -> None:
                engine.require()
                lease.check()

            tell_all(found.api, place, paused=True)
            try:
                _bring_to_rest(_Doing(found, authority, engine, tell, may_go_on, before), members)
            except ValkeyctlError as error:
                with suppress(ValkeyctlError):  # why it failed is what a person has to know
                    release_writes(found.dialer, found.endpoints)
                    if not isinstance(error, Interrupted):  # else somebody else may have the Lease by now
                        tell_all(found.api, place, paused=False)
                raise
    engine.info(f"no more writes are taken, and all copies are equal: {all_pods(len(found.spec.members))} may stop")


def _await_whole(doing: _Doing) -> frozenset[Member]:
    """Wait for all to be in sync, without the Lease: agents may have to heal for that. Who is in the end.

    Errors: Blocked where servers run and no primary answers: what they hold may be on no disk.
    """
    found, every = doing.found, frozenset(doing.found.spec.members)
    try:
        doing.converge(lambda spec, view: plan_pause(spec, view, members=every), WHOLE_S)
    except DeadlineExceeded as error:
        seen = found.look()
        if serving_primary(seen.spec, seen.view) is None:
            _refuse_silent(found)
        doing.engine.warn(f"it is paused as it is: {error.what.partition('. ')[2] or error.what}")
        return in_sync(seen.spec, seen.view)
    return every


def _refuse_silent(found: Standing) -> None:
    running = [fact.pod for fact in pod_facts(found.directory, found.spec.members) if fact.server_runs]
    if running:
        raise Blocked(
            f"it can't be paused now: {', '.join(running)} run, and no primary answers, so that nobody knows whether "
            "what they hold is on their disks",
            where=found.place.instance,
            remedy="See `valkeyctl status`. Bring the instance into order first, without `paused`.",
        )


def _bring_to_rest(doing: _Doing, members: frozenset[Member]) -> None:
    """Hold writes, wait until the copies are equal, and see that the disk takes what comes."""
    found = doing.found
    doing.may_go_on()
    seen = found.look()
    primary = serving_primary(seen.spec, seen.view)
    endpoints = {member: at for member, at in found.endpoints.items() if member == primary}
    refuse_any(hold_writes(found.dialer, endpoints, for_s=HOLD_S))
    try:
        view = doing.converge(lambda spec, view: plan_pause(spec, view, members=members, exactly=True), EQUAL_S)
    except DeadlineExceeded as error:
        what = error.what.partition(". ")[2] or error.what
        raise Blocked(
            f"it can't be paused now: the copies aren't equal {EQUAL_S:.0f} s after the last write: {what}",
            where=found.place.instance,
            remedy="See `valkeyctl status`, and run it again.",
        ) from error
    now = serving_primary(doing.authority.informed(found.spec), view)
    if now is not None and now != primary:
        refuse({now: "it has become the primary meanwhile"})
    refuse(disk_troubles(found.dialer, endpoints))
