"""One converge of an instance, with all that surrounds it: Lease, progress, status, Events, and a readable failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from valkeyctl.dataplane import (
    Condition,
    Member,
    Phase,
    Plan,
    Progress,
    Report,
    Spec,
    View,
    converge,
    describe_layout,
    observe,
    report,
)
from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.loop import READY
from valkeyctl.kube.declared import write_declared
from valkeyctl.kube.errors import KubeError, LeaseHeld
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.lease import Lease
from valkeyctl.kube.pods import NO_WORKLOAD, PodFacts, pod_facts
from valkeyctl.kube.status import InstanceStatus, read_status, write_status
from valkeyctl.kube.trouble import pod_conditions, trouble
from valkeyctl.lifecycle.downgrade import numbers_of
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.forecast import states
from valkeyctl.lifecycle.look import outputs_of
from valkeyctl.lifecycle.patience import Patience
from valkeyctl.lifecycle.props import Declaration
from valkeyctl.lifecycle.rolling import Terms, at_risk
from valkeyctl.lifecycle.rollout import Decide, Hands, Rollout
from valkeyctl.lifecycle.session import Session, api_of, declared, for_agents, hold_for_up, open_session
from valkeyctl.lifecycle.settings_check import await_settings

#: How long an API server that doesn't answer is put up with in the middle of the work.
PATIENCE_S = 15.0
#: Kubernetes is asked what is wrong with missing Pods after they have been missed for so long, and again each so often.
POD_LOOK_S = 2.0
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
    api = api_of(place, patience_s=PATIENCE_S)
    with hold_for_up(api, place, engine, tell) as lease:
        # Read under the Lease: whoever held it until now may have formed the instance, or let members go.
        before = read_status(api, place.namespace, place.instance)
        finished = formed or bool(before and before.finished)
        formed = formed or bool(before and before.formed)
        session = open_session(declaration, formed=formed, patience_s=PATIENCE_S)
        work = _Work(session, engine, lease, tell, InstanceStatus(str(Phase.INITIALIZING)), deadline)
        work.begin(before, finished=finished)
        try:
            work.tell_agents(formed=formed)
            view = work.bring_about()
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
    roll: Rollout = field(init=False)
    _patience: Patience = field(default_factory=Patience)
    _looked_at: float = 0.0
    _seen: View | None = None
    _done: tuple[str, ...] = ()
    _told: str = ""
    _loss_told: bool = False

    def __post_init__(self) -> None:
        place = self.session.place
        self.recorder = Recorder(self.session.api, place.namespace, place.instance, self.session.directory.workloads())
        declaration = self.session.declaration
        self.roll = Rollout(
            self.session,
            Terms(declaration.parallel_shards, numbers_of(declaration.version)),
            Hands(
                converge=self.converge,
                may_go_on=self.may_go_on,
                did=self.did,
                warn=self.engine.warn,
                tell=self.tell,
                replaced=self._patience.forget,
                deadline=self.deadline,
            ),
        )

    # --- before and during -------------------------------------------------------------------------------------------

    def begin(self, before: InstanceStatus | None, *, finished: bool) -> None:
        """Says that the work begins. What was true of the instance before stays until it is known better."""
        formed = self.session.spec.formed
        # That it was paused is over, whatever comes next.
        rested = before is not None and before.phase == Phase.PAUSED
        phase = before.phase if before and formed and before.phase and not rested else str(Phase.INITIALIZING)
        self.status = InstanceStatus(
            phase=phase,
            conditions=before.conditions if before and not rested else (),
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

    def bring_about(self) -> View:
        """Makes Valkey and the Pods what is declared."""
        return self.roll.run()

    def converge(self, spec: Spec, decide: Decide, at_most_s: float) -> View:
        """One converge of the data plane, within what is left of the time."""
        return converge(
            spec,
            self.session.directory,
            self.session.dialer,
            deadline_s=min(at_most_s, max(self.deadline - time.monotonic(), 1.0)),
            progress=self.progress,
            may_go_on=self.may_go_on,
            decide=lambda spec, view: self._decide(decide, spec, view),
        )

    def _decide(self, decide: Decide, spec: Spec, view: View) -> Plan:
        """The planner's word; what it saw is kept, so that `may_go_on` knows who doesn't answer."""
        self._seen = view
        self._patience.answered(view)
        return decide(spec, view)

    def may_go_on(self) -> None:
        """Raises where the work must stop: pulumi is gone, the Lease is lost, or Pods are stuck for good."""
        self.engine.require()
        self.lease.check()
        seen, now = self._seen, time.monotonic()
        if seen is None or now - self._looked_at < POD_LOOK_S:
            return
        if not any(one.for_s >= POD_LOOK_S for one in seen.missing.values()):
            return
        self._looked_at = now
        awaited = Knowledge(self.session.spec, seen).awaited
        facts = [fact for fact in self._facts(self.session.spec.everybody) if fact.member in awaited]
        lines = trouble(facts)
        if lines:
            what = f"waiting for Pods: {'; '.join(lines[:3])}{' …' if len(lines) > 3 else ''}"
            self.tell(f"{self.roll.progress}{what}")
        gone = {fact.member for fact in facts if fact.reason == NO_WORKLOAD} & set(self.session.spec.leaving)
        self._patience.judge([fact for fact in facts if fact.member not in gone])

    def did(self, line: str) -> None:
        """Keeps a step that was done: in the output, in Events, in the status."""
        self._keep((line,))

    def progress(self, now: Progress) -> None:
        """Shows a line, and keeps each step that was done: in the output, in Events, in the status."""
        if self.status.formed and not self._loss_told and any("assign slots" in line for line in now.new):
            self._loss_told = True
            self.engine.warn("servers without data get slots that had an owner before: what these slots held is gone")
        self._keep(now.new)
        if now.text == READY and self.roll.under_way:
            return  # A step of the roll: there is more to do.
        if now.text != self._told:
            self._told = now.text
            self.tell(f"{self.roll.progress}{now.text}")

    def _keep(self, lines: Sequence[str]) -> None:
        for line in lines:
            (self.engine.warn if TAKEOVER in line else self.engine.info)(line)
            self.recorder.step(line)
        if lines:
            self._done = (*self._done, *lines)
            self.status = replace(self.status, done=self._done)
            self._write()

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
        self.recorder.phase(str(found.phase), self._summary(found), bad=False)
        return outputs_of(self.session, found, facts)

    def failed(self, error: ValkeyctlError) -> ValkeyctlError:
        """Writes down the bad end, and returns what the user gets to read."""
        facts, lines = self._facts(), trouble(self._facts(self.session.spec.everybody))
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
        if view is not None and (risk := at_risk(self.session.spec, view, states(facts))):
            what += f". {risk}"
        failure = f"{what}. {error.remedy}".rstrip()
        self.status = replace(self.status, phase=str(phase), failure=failure, failure_of=self.status.observer)
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

    def _facts(self, members: Sequence[Member] = ()) -> list[PodFacts]:
        """Of the declared members, or of others; nothing where the API server can't be asked."""
        try:
            return pod_facts(self.session.directory, members or self.session.spec.members)
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
