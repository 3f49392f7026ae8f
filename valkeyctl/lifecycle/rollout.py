"""Carries a roll out: looks, has `rolling` decide, evicts Pods, moves roles; between two steps the data plane heals.

It runs inside the converge of an `up`, under its Lease: no agent does anything meanwhile but guard its own server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Done, Member, Plan, Spec, View, plan
from valkeyctl.dataplane.errors import Blocked, DeadlineExceeded
from valkeyctl.dataplane.plan_roles import plan_roles
from valkeyctl.kube.access import Object
from valkeyctl.kube.eviction import delete_now, evict
from valkeyctl.kube.pods import PodFacts, pod_facts
from valkeyctl.lifecycle.forecast import states
from valkeyctl.lifecycle.roles import with_roles
from valkeyctl.lifecycle.rolling import (
    Await,
    Finished,
    MoveRoles,
    Next,
    Refuse,
    Replace,
    Terms,
    plan_roll,
)
from valkeyctl.lifecycle.session import Session

Decide = Callable[[Spec, View], Plan]

FACTS_S = 1.0
"""How old what is known of the Pods may be while the data plane is at work."""
OBSERVED_S = 30.0
"""How long the StatefulSets' controller may take to notice what was declared."""
EVICT_S = 120.0
"""How long a disruption budget may keep a Pod from being evicted, all members being right."""
TOLD_AFTER_S = 3.0
"""A Pod counts as Ready some seconds after its server is in sync: that a budget waits for it needn't be told."""
HANDOVER_S, ONE_MORE_S = 60.0, 6.0
"""How long a role may take to move; each that moves with it may need a second try of the servers."""
PLACINGS = 3
"""How often roles are placed in one `up`, should Pods be put elsewhere meanwhile."""
_PAUSE_S = 0.1
_LOOK_S = 0.25


@dataclass(frozen=True)
class Hands:
    """What a roll is given to work with.

    `converge` brings Valkey to a Spec with a planner, within so many seconds; `may_go_on` raises where the work must
    stop; `did` keeps a step that was done, `warn` shouts one, `tell` shows a line. `deadline` by the monotonic clock.
    """

    converge: Callable[[Spec, Decide, float], View]
    may_go_on: Callable[[], None]
    did: Callable[[str], None]
    warn: Callable[[str], None]
    tell: Callable[[str], None]
    replaced: Callable[[Sequence[Member]], None]
    deadline: float


@dataclass
class Rollout:
    """One roll; also of nothing, where all Pods are of the newest template."""

    session: Session
    terms: Terms
    hands: Hands
    _facts: Sequence[PodFacts] = ()
    _facts_at: float = field(default=float("-inf"))
    _total: int = 0
    _why: str = ""

    def run(self) -> View:
        """Brings Valkey to what is declared, and every Pod to the newest template; returns the last look.

        Idempotent and resumable. Errors: Blocked, DeadlineExceeded, those of the API, what `may_go_on` raises.
        """
        spec = self.session.spec
        # Where primaries are to be in the end counts when all else is done: until then roles move as the roll needs.
        rolled = replace(spec, primaries={})
        self._await_controllers()
        while True:
            self.hands.may_go_on()
            view = self._converge(rolled, self.decide)
            if not self._outdated:
                break
            self._look()
            step = plan_roll(spec, view, states(self._facts), self.terms)
            if isinstance(step, Finished) and isinstance(plan(rolled, view), Done):
                break
            self._take(step)
            if time.monotonic() >= self.hands.deadline:
                why = f": {self._why}" if self._why else ""
                raise DeadlineExceeded(
                    f"not all Pods were replaced in time: {len(self._outdated)} of {self._total} are left{why}",
                    where=spec.instance,
                    remedy="Run it again: it goes on from here. `timeoutSeconds` gives it more time.",
                )
        return self._place_roles(view)

    def decide(self, spec: Spec, view: View) -> Plan:
        """The data plane's plan; but Done, so that the roll gets its turn, as soon as a Pod is to be replaced."""
        what = plan(spec, view)
        if isinstance(what, Done) or not self._outdated:
            return what
        if time.monotonic() - self._facts_at >= FACTS_S:
            self._look()
        return Done() if isinstance(plan_roll(spec, view, states(self._facts), self.terms), Replace) else what

    @property
    def progress(self) -> str:
        """How far it is, to go before a line of progress; "" where nothing is rolled."""
        return f"{self._total - len(self._outdated)} of {self._total} Pods are new; " if self._total else ""

    @property
    def under_way(self) -> bool:
        """Whether Pods of a former template are left, as last seen."""
        return bool(self._outdated)

    @property
    def _outdated(self) -> list[PodFacts]:
        return [fact for fact in self._facts if fact.outdated]

    def _look(self) -> None:
        self._facts = pod_facts(self.session.directory, self.session.spec.members)
        self._facts_at = time.monotonic()
        self._total = max(self._total, len(self._outdated))

    def _await_controllers(self) -> None:
        """Which Pods are outdated can be told only when the StatefulSets' controller has seen the newest templates."""
        until = min(time.monotonic() + OBSERVED_S, self.hands.deadline)
        while unseen := [name_of(one) for one in self.session.directory.workloads() if not is_observed(one)]:
            self.hands.may_go_on()
            if time.monotonic() >= until:
                raise Blocked(
                    f"the StatefulSet controller hasn't taken notice of {', '.join(unseen[:4])} for {OBSERVED_S:.0f} s",
                    where=self.session.place.instance,
                    remedy="See whether the cluster's kube-controller-manager runs.",
                )
            time.sleep(_PAUSE_S)
        self._look()

    def _place_roles(self, view: View) -> View:
        """Last of all: moves roles to where they are to be, by where the Pods are now that all are as they should be.

        Looked at again afterwards: a Pod may have been put elsewhere meanwhile. Where that goes on, it is for the next
        `up`.
        """
        for _ in range(PLACINGS):
            if self.session.declaration.spread_primaries:
                self._look()
            spec = with_roles(self.session, view, self._facts, self.hands.tell)
            if isinstance(plan(spec, view), Done):
                break
            view = self._converge(spec, plan)
        return view

    def _converge(self, spec: Spec, decide: Decide, at_most_s: float = float("inf")) -> View:
        return self.hands.converge(spec, decide, at_most_s)

    def _take(self, step: Next) -> None:
        self._why = step.why if isinstance(step, Await) else ""
        match step:
            case Replace():
                self._replace(step)
            case MoveRoles(primaries=primaries):
                # They move one after the other.
                within_s = HANDOVER_S + (len(primaries) - 1) * ONE_MORE_S
                self._converge(replace(self.session.spec, primaries=dict(primaries)), plan_roles, within_s)
            case Refuse(reason=reason, remedy=remedy):
                raise Blocked(reason, where=self.session.place.instance, remedy=remedy)
            case Await() | Finished():
                time.sleep(_PAUSE_S)

    def _replace(self, step: Replace) -> None:
        facts = {fact.member: fact for fact in self._facts}
        if step.loses:
            names = ", ".join(facts[member].pod for member in step.members)
            self.hands.warn(f"{names}: the data goes with the Pod, as `allowDataLoss` permits")
        gone: list[Member] = []
        for member in step.members:
            self.hands.may_go_on()
            fact = facts[member]
            if step.idle:
                delete_now(self.session.api, self.session.place.namespace, fact.pod, uid=fact.uid)
            else:
                self._evict(fact, ours=bool(gone))
            gone.append(member)
            why = f", which couldn't start ({fact.reason or fact.phase})" if step.idle else ""
            self.hands.did(f"{member}: replace its Pod{why}")
        self.hands.replaced(gone)
        # What is known of these Pods is known to be wrong now.
        self._facts_at = float("-inf")

    def _evict(self, fact: PodFacts, *, ours: bool) -> None:
        """Asks until the budgets agree. `ours`: Pods of other shards were evicted in the same step.

        The instance's own budget allows one Pod at a time. Where a person allowed several shards at a time, or a Pod
        that is leaving isn't Ready and never may be, that this budget alone refuses is no reason to wait: the plan has
        weighed all that it protects.
        """
        api, place = self.session.api, self.session.place
        began = time.monotonic()
        until = min(began + EVICT_S, self.hands.deadline)
        while refusal := evict(api, place.namespace, fact.pod, uid=fact.uid):
            self.hands.may_go_on()
            if f"disruption budget {place.instance} needs" in refusal and (ours or self._leavers_arent_ready()):
                delete_now(api, place.namespace, fact.pod, uid=fact.uid)
                return
            if time.monotonic() - began >= TOLD_AFTER_S:
                self.hands.tell(f"{self.progress}{fact.pod} may not be evicted yet: {refusal}")
            if time.monotonic() >= until:
                raise Blocked(
                    f"{fact.pod} couldn't be evicted for {EVICT_S:.0f} s: {refusal}",
                    where=place.instance,
                    remedy="See which Pods aren't Ready, and why (kubectl get pods, describe pdb), and run it again.",
                )
            time.sleep(_LOOK_S)

    def _leavers_arent_ready(self) -> bool:
        leaving = self.session.spec.leaving
        return bool(leaving) and any(not fact.ready for fact in pod_facts(self.session.directory, leaving))


def is_observed(workload: Object) -> bool:
    """Whether a StatefulSet's status is about what is declared in it now."""
    wanted = (workload.get("metadata") or {}).get("generation")
    seen = (workload.get("status") or {}).get("observedGeneration")
    return wanted is None or int(seen or 0) >= int(wanted)


def name_of(workload: Object) -> str:
    """The name of a StatefulSet."""
    return str(workload["metadata"]["name"])
