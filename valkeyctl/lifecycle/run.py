"""One converge of an instance, with all that surrounds it: Lease, progress, status, Events, and a readable failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from valkeyctl.dataplane import (
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
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.kube.declared import write_declared
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.lease import Lease
from valkeyctl.kube.pods import PodFacts
from valkeyctl.kube.status import read_status
from valkeyctl.kube.trouble import pod_conditions, trouble
from valkeyctl.lifecycle.account import Account
from valkeyctl.lifecycle.downgrade import numbers_of
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.look import outputs_of
from valkeyctl.lifecycle.pod_watch import PodWatch
from valkeyctl.lifecycle.props import Declaration
from valkeyctl.lifecycle.replacing import Hands, Replacing
from valkeyctl.lifecycle.roll_steps import states
from valkeyctl.lifecycle.rolling import Terms, at_risk
from valkeyctl.lifecycle.rollout import Decide, Rollout
from valkeyctl.lifecycle.session import Session, api_of, declared, for_agents, hold_for_up, open_session
from valkeyctl.lifecycle.settings_check import await_settings

#: How long an API server that doesn't answer is put up with in the middle of the work.
PATIENCE_S = 15.0


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
        recorder = Recorder(api, place.namespace, place.instance, session.directory.workloads())
        account = Account(api, place, engine, tell, recorder)
        account.begin(before, declared(declaration), formed=formed, finished=finished)
        work = _Work(session, engine, lease, account, deadline)
        try:
            work.tell_agents(formed=formed)
            view = work.bring_about()
            warnings = await_settings(session, deadline=deadline, tell=tell, may_go_on=work.may_go_on)
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
    account: Account
    deadline: float
    watch: PodWatch = field(init=False)
    pods: Replacing = field(init=False)
    roll: Rollout = field(init=False)
    _seen: View | None = None
    _loss_told: bool = False

    def __post_init__(self) -> None:
        session, account = self.session, self.account
        self.watch = PodWatch(session.directory, lambda line: account.tell(f"{self.pods.progress}{line}"))
        hands = Hands(
            may_go_on=self.may_go_on,
            did=lambda line: account.keep((line,)),
            warn=self.engine.warn,
            tell=account.tell,
            replaced=self.watch.patience.forget,
            deadline=self.deadline,
        )
        self.pods = Replacing(
            session.api, session.place, session.directory, session.spec.members, session.spec.leaving, hands
        )
        terms = Terms(session.declaration.parallel_shards, numbers_of(session.declaration.version))
        self.roll = Rollout(session, terms, self.pods, self.converge)

    # --- before and during -------------------------------------------------------------------------------------------

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
        self.watch.patience.answered(view.nodes)
        return decide(spec, view)

    def may_go_on(self) -> None:
        """Raises where the work must stop: pulumi is gone, the Lease is lost, or Pods are stuck for good."""
        self.engine.require()
        self.lease.check()
        if (seen := self._seen) is not None:
            spec = self.session.spec
            missing = (one.for_s for one in seen.missing.values())
            self.watch.look(missing, spec.everybody, lambda: Knowledge(spec, seen).awaited)

    def progress(self, now: Progress) -> None:
        """Shows a line, and keeps each step that was done: in the output, in Events, in the status."""
        if self.account.status.formed and not self._loss_told and any("assign slots" in line for line in now.new):
            self._loss_told = True
            self.engine.warn("servers without data get slots that had an owner before: what these slots held is gone")
        # A step of a roll isn't the end: there is more to do.
        self.account.progress(now, self.pods.progress, more_to_do=bool(self.pods.outdated))

    # --- after -------------------------------------------------------------------------------------------------------

    def succeeded(self, view: View) -> dict[str, Any]:
        """Writes down the good end, and returns the outputs."""
        found = report(self.session.spec, view)
        facts = self.watch.facts(self.session.spec.members)
        self._record(found, facts, formed=True)
        self.account.end_well(found.phase, self._summary(found))
        if not self.session.spec.formed:
            self.tell_agents(formed=True)
        return outputs_of(self.session, found, facts)

    def failed(self, error: ValkeyctlError) -> ValkeyctlError:
        """Writes down the bad end, and returns what the user gets to read."""
        spec = self.session.spec
        facts, lines = self.watch.facts(spec.members), trouble(self.watch.facts(spec.everybody))
        view = getattr(error, "view", None)
        if not isinstance(view, View):
            view = self._view()
        if view is None:
            return self.account.end_badly(error, Phase.UNREACHABLE, lines)
        found = report(spec, view)
        self._record(found, facts, formed=self.account.status.formed)
        return self.account.end_badly(error, found.phase, lines, at_risk(spec, view, states(facts)))

    def _view(self) -> View | None:
        try:
            return observe(self.session.spec, self.session.directory(), self.session.dialer)
        except ValkeyctlError:
            return None

    def _record(self, found: Report, facts: list[PodFacts], *, formed: bool) -> None:
        self.account.record(
            found.phase,
            (*found.conditions, *(pod_conditions(facts) if facts else ())),
            formed=formed,
            primaries=dict(found.primaries),
            server_version=found.server_version,
            layout=describe_layout(found.layout) if any(found.layout) else None,
        )

    def _summary(self, found: Report) -> str:
        done = len(self.account.status.done)
        spec = self.session.spec
        return (
            f"{spec.shards} shards with {spec.replicas} replicas each are as declared"
            f" (Valkey {found.server_version}; {done} steps)"
        )
