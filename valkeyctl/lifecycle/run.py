"""One converge of an instance, with all that surrounds it: Lease, progress, status, Events, and a readable failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from valkeyctl.dataplane import (
    Condition,
    Endpoint,
    Member,
    Phase,
    Progress,
    Report,
    View,
    converge,
    describe_layout,
    observe,
    report,
)
from valkeyctl.dataplane.errors import Blocked, Interrupted, ValkeyctlError
from valkeyctl.kube.declared import write_declared
from valkeyctl.kube.errors import KubeError, LeaseHeld
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.lease import Lease, hold
from valkeyctl.kube.pods import PodFacts, pod_conditions, pod_facts, trouble
from valkeyctl.kube.status import InstanceStatus, read_status, write_status
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.look import outputs_of
from valkeyctl.lifecycle.props import Declaration
from valkeyctl.lifecycle.session import Session, api_of, declared, for_agents, open_session
from valkeyctl.lifecycle.settings_check import await_settings

#: How long an API server that doesn't answer is put up with in the middle of the work.
PATIENCE_S = 15.0
#: Kubernetes is asked what is wrong with missing Pods after they have been missed for so long, and again each so often.
POD_LOOK_S = 2.0
#: A Pod that waiting cannot heal (an image that isn't there) ends the work after this, not at its deadline.
STUCK_PATIENCE_S = 120.0
#: What stands in the line of a step that a person wants to be shouted at.
TAKEOVER = "TAKE OVER"
_BAD = (Phase.DEGRADED, Phase.FAILED, Phase.UNREACHABLE)


class ConvergeFailed(ValkeyctlError):  # noqa: N818 - reads as what happened
    """The declared state was not reached. Says why, which Pods are in trouble, and what to do."""


def run(
    declaration: Declaration, engine: Engine, tell: Callable[[str], None], *, formed: bool = False
) -> dict[str, Any]:
    """Makes Valkey what is declared, and returns the outputs. Idempotent and resumable.

    `tell` takes progress lines. `formed`: Pulumi's state knows that the instance was Ready once; the status, which
    knows it too, may have been deleted. Errors: LeaseHeld, ConvergeFailed, those of the API.
    """
    deadline = time.monotonic() + declaration.timeout_s
    place = declaration.place
    engine.require()
    before = read_status(api_of(place), place.namespace, place.instance)
    finished = formed or bool(before and before.finished)
    formed = formed or bool(before and before.formed)
    session = open_session(declaration, formed=formed, patience_s=PATIENCE_S)
    with hold(
        session.api,
        place.namespace,
        place.instance,
        owner=place.owner,
        purpose=f"up of {place.owner}",
        progress=tell,
        may_go_on=engine.require,
    ) as lease:
        work = _Work(session, engine, lease, tell, InstanceStatus(str(Phase.INITIALIZING)), deadline)
        work.begin(before, finished=finished)
        try:
            work.tell_agents(formed=formed)
            view = converge(
                session.spec,
                work.directory,
                session.dialer,
                deadline_s=max(deadline - time.monotonic(), 1.0),
                progress=work.progress,
                may_go_on=work.may_go_on,
            )
            warnings = await_settings(session, deadline=deadline, tell=work.tell, may_go_on=work.may_go_on)
        except ValkeyctlError as error:
            raise work.failed(error) from error
        for line in warnings:
            engine.warn(line)
        return work.succeeded(view)


@dataclass
class _Work:
    session: Session
    engine: Engine
    lease: Lease
    tell: Callable[[str], None]
    status: InstanceStatus
    deadline: float
    recorder: Recorder = field(init=False)
    _missing_since: float | None = None
    _looked_at: float = 0.0
    _stuck_since: float | None = None
    _missing: tuple[Member, ...] = ()
    _told: str = ""
    _loss_told: bool = False

    def __post_init__(self) -> None:
        place = self.session.place
        self.recorder = Recorder(self.session.api, place.namespace, place.instance, self.session.directory.workloads())

    # --- before and during -------------------------------------------------------------------------------------------

    def begin(self, before: InstanceStatus | None, *, finished: bool) -> None:
        """Says that the work begins. What was true of the instance before stays until it is known better."""
        formed = self.session.spec.formed
        phase = before.phase if before and formed and before.phase else str(Phase.INITIALIZING)
        self.status = InstanceStatus(
            phase=phase,
            conditions=before.conditions if before else (),
            layout=before.layout if before else {},
            primaries=before.primaries if before else {},
            server_version=before.server_version if before else "",
            formed=formed,
            finished=finished,
            declared=declared(self.session.declaration),
            observer=f"up of {self.session.place.owner}",
        )
        self._write()

    def tell_agents(self, *, formed: bool) -> None:
        """Says to the Pods' agents what is declared: from now on they go towards it, should this run not get there.

        Errors: those of the API; what is declared must not differ from what they are told.
        """
        place, declaration = self.session.place, self.session.declaration
        write_declared(self.session.api, place.namespace, place.instance, for_agents(declaration, formed=formed))

    def directory(self) -> Mapping[Member, Endpoint]:
        """The data plane's directory; what is missing in it is looked into by `may_go_on`."""
        found = self.session.directory()
        self._missing = tuple(member for member in self.session.spec.members if member not in found)
        if not self._missing:
            self._missing_since = self._stuck_since = None
        elif self._missing_since is None:
            self._missing_since = time.monotonic()
        return found

    def may_go_on(self) -> None:
        """Raises where the work must stop: pulumi is gone, the Lease is lost, or Pods are stuck for good."""
        self.engine.require()
        self.lease.check()
        now = time.monotonic()
        if self._missing_since is None or now - max(self._missing_since, self._looked_at) < POD_LOOK_S:
            return
        self._looked_at = now
        facts = [fact for fact in self._facts() if fact.member in self._missing]
        lines = trouble(facts)
        if lines:
            self.tell(f"waiting for Pods: {'; '.join(lines[:3])}{' …' if len(lines) > 3 else ''}")
        stuck = [fact for fact in facts if fact.stuck]
        if not stuck:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since >= STUCK_PATIENCE_S:
            raise Blocked(
                f"Pods have been unable to start for {STUCK_PATIENCE_S:.0f} s",
                remedy="Correct the image or configuration, delete these Pods, and run it again.",
            )

    def progress(self, now: Progress) -> None:
        """Shows a line, and keeps each step that was done: in the output, in Events, in the status."""
        if self.status.formed and not self._loss_told and any("assign slots" in line for line in now.new):
            self._loss_told = True
            self.engine.warn("servers without data get slots that had an owner before: what these slots held is gone")
        for line in now.new:
            (self.engine.warn if TAKEOVER in line else self.engine.info)(line)
            self.recorder.step(line)
        if now.new:
            self.status = replace(self.status, done=now.done)
            self._write()
        if now.text != self._told:
            self._told = now.text
            self.tell(now.text)

    # --- after -------------------------------------------------------------------------------------------------------

    def succeeded(self, view: View) -> dict[str, Any]:
        """Writes down the good end, and returns the outputs."""
        found = report(self.session.spec, view)
        facts = self._facts()
        self._record(found, facts, formed=True)
        self.status = replace(self.status, finished=True)
        self._write()
        if not self.session.spec.formed:
            self.tell_agents(formed=True)
        outdated = [fact.pod for fact in facts if fact.outdated]
        if outdated:
            self.engine.warn(
                f"{len(outdated)} Pods still run the former template: {', '.join(outdated)}. This version replaces "
                "none: delete them one at a time, replicas first, and run `pulumi up` after each"
            )
        self.recorder.phase(str(found.phase), self._summary(found), bad=False)
        return outputs_of(self.session, found, facts)

    def failed(self, error: ValkeyctlError) -> ValkeyctlError:
        """Writes down the bad end, and returns what the user gets to read."""
        facts = self._facts()
        lines = trouble(facts)
        view = getattr(error, "view", None)
        if not isinstance(view, View):
            view = self._view()
        if view is not None:
            found = report(self.session.spec, view)
            self._record(found, facts, formed=self.status.formed)
            phase = found.phase if found.phase in _BAD else Phase.FAILED
        else:
            phase = Phase.UNREACHABLE
        what = error.what + (f". Pods: {'; '.join(lines)}" if lines else "")
        self.status = replace(self.status, phase=str(phase), failure=f"{what}. {error.remedy}".rstrip())
        self._write()
        self.recorder.phase(str(phase), what, bad=True)
        if isinstance(error, LeaseHeld | Interrupted):
            return error
        place = self.session.place
        remedy = error.remedy or "Correct what is named here, and run it again; what was done is kept."
        return ConvergeFailed(f"{place.instance} is {phase}: {what}", where=error.where, remedy=remedy)

    def _view(self) -> View | None:
        try:
            return observe(self.session.spec, self.session.directory(), self.session.dialer)
        except ValkeyctlError:
            return None

    def _facts(self) -> list[PodFacts]:
        try:
            return pod_facts(self.session.directory, self.session.spec.members)
        except KubeError:
            return []

    def _record(self, found: Report, facts: list[PodFacts], *, formed: bool) -> None:
        conditions: tuple[Condition, ...] = (*found.conditions, *(pod_conditions(facts) if facts else ()))
        self.status = replace(
            self.status,
            phase=str(found.phase),
            conditions=conditions,
            layout=describe_layout(found.layout) if any(found.layout) else self.status.layout,
            primaries=dict(found.primaries),
            server_version=found.server_version or self.status.server_version,
            formed=formed,
        )

    def _write(self) -> None:
        place = self.session.place
        try:
            write_status(self.session.api, place.namespace, place.instance, place.owner, self.status)
        except KubeError as error:
            # The status tells people; that it cannot be told must not stop what is being done.
            self.tell(f"the status could not be written: {error}")

    def _summary(self, found: Report) -> str:
        done = len(self.status.done)
        spec = self.session.spec
        return (
            f"{spec.shards} shards with {spec.replicas} replicas each are as declared"
            f" (Valkey {found.server_version}; {done} steps)"
        )
