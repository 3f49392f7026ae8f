"""Carries a roll out: looks, has `rolling` decide, evicts Pods, moves roles; between two steps the data plane heals.

It runs inside the converge of an `up`, under its Lease: no agent does anything meanwhile but guard its own server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Done, Plan, Spec, View, plan
from valkeyctl.dataplane.errors import Blocked
from valkeyctl.dataplane.plan_roles import plan_roles
from valkeyctl.lifecycle.replacing import Replacing
from valkeyctl.lifecycle.roles import with_roles
from valkeyctl.lifecycle.roll_steps import Await, Finished, Refuse, Replace, states
from valkeyctl.lifecycle.rolling import MoveRoles, Next, Terms, plan_roll
from valkeyctl.lifecycle.session import Session

Decide = Callable[[Spec, View], Plan]
Converge = Callable[[Spec, Decide, float], View]
"""Brings Valkey to a Spec with a planner, within so many seconds."""

FACTS_S = 1.0
"""How old what is known of the Pods may be while the data plane is at work."""
HANDOVER_S, ONE_MORE_S = 60.0, 6.0
"""How long a role may take to move; each that moves with it may need a second try of the servers."""
PLACINGS = 3
"""How often roles are placed in one `up`, should Pods be put elsewhere meanwhile."""
_PAUSE_S = 0.1


@dataclass
class Rollout:
    """One roll; also of nothing, where all Pods are of the newest template."""

    session: Session
    terms: Terms
    pods: Replacing
    converge: Converge
    _why: str = ""

    def run(self) -> View:
        """Brings Valkey to what is declared, and every Pod to the newest template; returns the last look.

        Idempotent and resumable. Errors: Blocked, DeadlineExceeded, those of the API, what `may_go_on` raises.
        """
        spec = self.session.spec
        # Where primaries are to be in the end counts when all else is done: until then roles move as the roll needs.
        rolled = replace(spec, primaries={})
        self.pods.await_controllers()
        while True:
            self.pods.hands.may_go_on()
            view = self._converge(rolled, self.decide)
            if not self.pods.outdated:
                break
            self.pods.look()
            step = plan_roll(spec, view, states(self.pods.facts), self.terms)
            if isinstance(step, Finished) and isinstance(plan(rolled, view), Done):
                break
            self._take(step)
            if time.monotonic() >= self.pods.hands.deadline:
                raise self.pods.late(self._why)
        return self._place_roles(view)

    def decide(self, spec: Spec, view: View) -> Plan:
        """The data plane's plan; but Done, so that the roll gets its turn, as soon as a Pod is to be replaced."""
        what = plan(spec, view)
        if isinstance(what, Done) or not self.pods.outdated:
            return what
        self.pods.look(if_older_than_s=FACTS_S)
        return Done() if isinstance(plan_roll(spec, view, states(self.pods.facts), self.terms), Replace) else what

    def _place_roles(self, view: View) -> View:
        """Last of all: moves roles to where they are to be, by where the Pods are now that all are as they should be.

        Looked at again afterwards: a Pod may have been put elsewhere meanwhile. Where that goes on, it is for the next
        `up`.
        """
        for _ in range(PLACINGS):
            if self.session.declaration.spread_primaries:
                self.pods.look()
            spec = with_roles(self.session, view, self.pods.facts, self.pods.hands.tell)
            if isinstance(plan(spec, view), Done):
                break
            view = self._converge(spec, plan)
        return view

    def _converge(self, spec: Spec, decide: Decide, at_most_s: float = float("inf")) -> View:
        return self.converge(spec, decide, at_most_s)

    def _take(self, step: Next) -> None:
        self._why = step.why if isinstance(step, Await) else ""
        match step:
            case Replace():
                self.pods.replace(step)
            case MoveRoles(primaries=primaries):
                # They move one after the other.
                within_s = HANDOVER_S + (len(primaries) - 1) * ONE_MORE_S
                self._converge(replace(self.session.spec, primaries=dict(primaries)), plan_roles, within_s)
            case Refuse(reason=reason, remedy=remedy):
                raise Blocked(reason, where=self.session.place.instance, remedy=remedy)
            case Await() | Finished():
                time.sleep(_PAUSE_S)
