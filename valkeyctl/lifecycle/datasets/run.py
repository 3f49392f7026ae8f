"""One `up` of a dataset, with all that surrounds it: Lease, progress, status, Events, and a readable failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from valkeyctl.dataplane import Condition, Member, Phase, Progress, pod_name
from valkeyctl.dataplane.errors import Blocked, ValkeyctlError
from valkeyctl.dataplane.observe import TIMEOUT_S
from valkeyctl.dataplane.replication.converge import converge
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Plan
from valkeyctl.kube.dataset_look import DatasetLook, look_at, wanted_endpoints
from valkeyctl.kube.declared_dataset import write_declared_dataset
from valkeyctl.kube.endpoints import Wanted, ensure_endpoints, write_endpoints
from valkeyctl.kube.errors import ApiConflict, KubeError
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.lease import Lease
from valkeyctl.kube.pods import PodFacts
from valkeyctl.kube.primary_lease import ensure_primacy, remove_primacy
from valkeyctl.kube.status import InstanceStatus, read_status, recorded_primary
from valkeyctl.kube.trouble import pod_conditions, trouble
from valkeyctl.lifecycle.account import Account
from valkeyctl.lifecycle.datasets.authority import Authority, BySentinels, Decide, Means, agree, authority_of
from valkeyctl.lifecycle.datasets.declaration import DatasetDeclaration
from valkeyctl.lifecycle.datasets.farewell import forget
from valkeyctl.lifecycle.datasets.outputs import outputs_of
from valkeyctl.lifecycle.datasets.rolling import at_risk, heir_of
from valkeyctl.lifecycle.datasets.rollout import Rollout, primary_of
from valkeyctl.lifecycle.datasets.session import DatasetSession, declared, for_agents, open_session
from valkeyctl.lifecycle.downgrade import numbers_of
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.pod_watch import PodWatch
from valkeyctl.lifecycle.replacing import Hands, Replacing
from valkeyctl.lifecycle.roll_steps import states
from valkeyctl.lifecycle.session import api_of, hold_for_up
from valkeyctl.lifecycle.settings_check import await_settings

PATIENCE_S = 15.0
"""How long an API server that doesn't answer is put up with in the middle of the work."""
ENDPOINTS_TRIES = 5
"""How often endpoints are written anew where agents write them at the same time."""


def run(
    declaration: DatasetDeclaration, engine: Engine, tell: Callable[[str], None], *, formed: bool = False
) -> dict[str, Any]:
    """Makes the dataset what is declared, and returns the outputs. Idempotent and resumable.

    `tell` takes progress lines. `formed`: Pulumi's state knows that the instance was Ready once; the status, which
    knows it too, may have been deleted. Errors: LeaseHeld, ConvergeFailed, those of the API.
    """
    deadline = time.monotonic() + declaration.timeout_s
    place = declaration.place
    engine.require()
    api = api_of(place, patience_s=PATIENCE_S)
    with ExitStack() as stack:
        lease = stack.enter_context(hold_for_up(api, place, engine, tell))
        # Read under the Lease: whoever held it until now may have formed the instance, or moved the role.
        before = read_status(api, place.namespace, place.instance)
        finished = formed or bool(before and before.finished)
        formed = formed or bool(before and before.formed)
        session = open_session(declaration, formed=formed, patience_s=PATIENCE_S)
        recorder = Recorder(api, place.namespace, place.instance, session.directory.workloads())
        account = Account(api, place, engine, tell, recorder)
        account.begin(before, declared(declaration), formed=formed, finished=finished)
        authority = authority_of(
            session.directory,
            place,
            session.dialer,
            session.spec.members,
            stack,
            side=session.sentinels,
            by_lease=declaration.automatic_failover_s is not None,
            recorded=recorded_primary(before),
        )
        work = _Work(session, engine, lease, account, authority, deadline)
        try:
            work.prepare(formed=formed)
            work.bring_about(before, finished=finished)
            warnings = await_settings(session, deadline=deadline, tell=tell, may_go_on=work.may_go_on)
            for line in warnings:
                engine.warn(line)
            return work.succeeded()
        except ValkeyctlError as error:
            raise work.failed(error) from error


@dataclass
class _Work:
    session: DatasetSession
    engine: Engine
    lease: Lease
    account: Account
    authority: Authority
    deadline: float
    watch: PodWatch = field(init=False)
    pods: Replacing = field(init=False)
    roll: Rollout = field(init=False)
    means: Means = field(init=False)
    _seen: ReplicationView | None = None

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
        self.means = Means(self.converge, self.may_go_on, self.progress, hands.did, self.moved, self.deadline)
        self.roll = Rollout(
            session.spec,
            session.declaration.primary,
            numbers_of(session.declaration.version),
            self.pods,
            self.authority,
            self.means,
        )

    # --- before and during -------------------------------------------------------------------------------------------

    def prepare(self, *, formed: bool) -> None:
        """Makes what agents write into, and says to them what is declared: from now on they go towards it, should this
        run not get there. Sentinels that are to watch no more are told before anything moves.

        Errors: those of the API; what is declared must not differ from what they are told.
        """
        declaration, place = self.session.declaration, self.session.place
        api, namespace, instance, owner = self.session.api, place.namespace, place.instance, place.owner
        ensure_endpoints(api, namespace, instance, owner, architecture=declaration.architecture)
        if declaration.automatic_failover_s is not None:
            ensure_primacy(api, namespace, instance, owner, duration_s=declaration.automatic_failover_s)
        self._tell_agents(formed=formed)
        if declaration.former_watch is not None:
            for line in forget(declaration.former_watch, declaration, api, self.session.credentials):
                self.account.keep((line,))

    def _tell_agents(self, *, formed: bool) -> None:
        declaration = self.session.declaration
        write_declared_dataset(self.session.api, self.session.place.namespace, for_agents(declaration, formed=formed))

    def bring_about(self, before: InstanceStatus | None, *, finished: bool) -> None:
        """Makes servers, Pods and Sentinels what is declared, and moves the role to where it is to be, last of all."""
        view = self.roll.run()
        self._write_endpoints(view)
        self._agree()
        view = self._place_role(view, before, finished=finished)
        self._agree()
        self._write_endpoints(view)
        if self.session.declaration.automatic_failover_s is None:
            # Whoever holds it is nobody's concern any more, and would be a false one if it were ever asked for again.
            remove_primacy(self.session.api, self.session.place.namespace, self.session.place.instance)

    def converge(
        self, decide: Decide, at_most_s: float = float("inf"), *, wanted: Member | None = None
    ) -> ReplicationView:
        """One converge of the servers, within what is left of the time."""
        spec = self.session.spec if wanted is None else replace(self.session.spec, primary=wanted.ordinal)
        return converge(
            spec,
            self.session.directory,
            self.session.dialer,
            deadline_s=self.means.left_s(at_most_s),
            progress=self.progress,
            may_go_on=self.may_go_on,
            decide=lambda spec, view: self._decide(decide, spec, view),
        )

    def _decide(self, decide: Decide, spec: ReplicationSpec, view: ReplicationView) -> Plan[Action]:
        """The planner's word; what it saw is kept, so that `may_go_on` knows who doesn't answer."""
        self._seen = view
        self.watch.patience.answered(view.nodes)
        return self.authority.admit(decide(self.authority.informed(spec), view))

    def may_go_on(self) -> None:
        """Raises where the work must stop: pulumi is gone, the Lease is lost, or Pods are stuck for good."""
        self.engine.require()
        self.lease.check()
        if (seen := self._seen) is not None:
            missing = {member: one.for_s for member, one in seen.missing.items()}
            self.watch.look(missing.values(), self.session.spec.everybody, lambda: missing)

    def progress(self, now: Progress) -> None:
        """Shows a line, and keeps each step that was done: in the output, in Events, in the status."""
        # A step of a roll isn't the end: there is more to do.
        self.account.progress(now, self.pods.progress, more_to_do=bool(self.pods.outdated))

    def moved(self, to: Member) -> None:
        """Leads writers to who has the role now, and keeps in mind who that is. What can't be written now is, at the
        end.
        """
        pod = pod_name(self.session.place.instance, to)
        self.account.status = replace(self.account.status, primaries={"s0": pod})
        self.account.write()
        place = self.session.place
        with suppress(KubeError):
            endpoint = self.session.directory().get(to)
            if endpoint is not None:
                write_endpoints(self.session.api, place.namespace, place.instance, Wanted(rw=(endpoint,)))

    def _agree(self) -> None:
        if isinstance(self.authority, BySentinels):
            agree(self.authority, self.means)

    def _write_endpoints(self, view: ReplicationView) -> None:
        """Agents write them, too, as soon as the role moves: who is refused looks again."""
        api, place, spec = self.session.api, self.session.place, self.session.spec
        for attempt in range(ENDPOINTS_TRIES):
            endpoints = self.session.directory()
            what = wanted_endpoints(self.authority.informed(spec), view, endpoints)
            try:
                for line in write_endpoints(api, place.namespace, place.instance, what):
                    self.account.keep((f"endpoints of {line}",))
            except ApiConflict:
                if attempt == ENDPOINTS_TRIES - 1:
                    raise
                view = self.converge(self.roll.decide)
            else:
                return

    def _place_role(self, view: ReplicationView, before: InstanceStatus | None, *, finished: bool) -> ReplicationView:
        """Moves the role to where a person wants it: for good, or once."""
        declaration = self.session.declaration
        asked = declaration.handover
        done = before.handed_over if before else ""
        if asked is not None and asked.token == done:
            asked = None
        # With the first `up` nothing is handed over: who begins is its choice anyway.
        once = asked if finished else None
        informed = self.authority.informed(self.session.spec)
        now = primary_of(informed, view)
        to = self._wanted(view, now, once.to if once else None, anybody=once is not None and once.to is None)
        if to is not None and now is not None and to != now:
            self.authority.hand_over(to, now, self.means)
            view = self.converge(self.roll.decide)
        if asked is not None:
            self.account.status = replace(self.account.status, handed_over=asked.token)
            self.account.write()
        return view

    def _wanted(self, view: ReplicationView, now: Member | None, once: int | None, *, anybody: bool) -> Member | None:
        wish = self.session.declaration.primary
        if anybody and wish is None:
            k = Knowledge(self.authority.informed(self.session.spec), view)
            primary = decide_primary(k).primary
            heir = heir_of(k, primary) if primary is not None else None
            if heir is None:
                raise Blocked(
                    f"no replica can take the role of {now} over",
                    where=self.session.place.instance,
                    remedy="Declare a replica first, and wait for it to be in sync.",
                )
            return heir
        ordinal = wish if wish is not None else once
        return None if ordinal is None else Member(0, ordinal)

    # --- after -------------------------------------------------------------------------------------------------------

    def succeeded(self) -> dict[str, Any]:
        """Writes down the good end, and returns the outputs."""
        seen = self._look()
        facts = self.watch.facts(self.session.spec.members)
        conditions = self._record(seen, facts, formed=True)
        self.account.end_well(seen.report.phase, self._summary(seen))
        if not self.session.spec.formed:
            self._tell_agents(formed=True)
        return {**outputs_of(self.session.declaration, seen.report, conditions), "formed": True}

    def failed(self, error: ValkeyctlError) -> ValkeyctlError:
        """Writes down the bad end, and returns what the user gets to read."""
        spec = self.session.spec
        facts, lines = self.watch.facts(spec.members), trouble(self.watch.facts(spec.everybody))
        try:
            seen = self._look()
        except ValkeyctlError:
            return self.account.end_badly(error, Phase.UNREACHABLE, lines)
        self._record(seen, facts, formed=self.account.status.formed)
        return self.account.end_badly(error, seen.report.phase, lines, at_risk(seen.spec, seen.view, states(facts)))

    def _look(self) -> DatasetLook:
        session, declaration = self.session, self.session.declaration
        return look_at(
            session.spec,
            session.directory,
            session.dialer,
            timeout_s=TIMEOUT_S,
            side=session.sentinels,
            by_lease=declaration.automatic_failover_s is not None,
            recorded=recorded_primary(self.account.status),
        )

    def _record(self, seen: DatasetLook, facts: list[PodFacts], *, formed: bool) -> tuple[Condition, ...]:
        found = seen.report
        conditions = (*found.conditions, *(pod_conditions(facts) if facts else ()))
        self.account.record(
            found.phase,
            conditions,
            formed=formed,
            # Who was the primary is not forgotten because nobody is at the moment.
            primaries=found.primaries or self.account.status.primaries,
            server_version=found.server_version,
        )
        return conditions

    def _summary(self, seen: DatasetLook) -> str:
        spec, done = self.session.spec, len(self.account.status.done)
        replicas = f"{spec.replicas} replica{'' if spec.replicas == 1 else 's'}"
        return (
            f"the primary {seen.report.primary} and {replicas} are as declared "
            f"(Valkey {seen.report.server_version}; {done} steps)"
        )
