"""Carries the roll of one dataset out: looks, has `rolling` decide, evicts Pods, moves the role; between two steps the
data plane heals.

It runs inside the converge of an `up`, under its Lease. The agents only guard their own servers meanwhile, and have the
primary taken over where it is lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import Blocked
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Done, Plan
from valkeyctl.lifecycle.datasets.authority import Authority, Means
from valkeyctl.lifecycle.datasets.rolling import GiveRole, Next, plan_roll
from valkeyctl.lifecycle.replacing import Replacing
from valkeyctl.lifecycle.roll_steps import Await, Finished, Refuse, Replace, states

FACTS_S = 1.0
"""How old what is known of the Pods may be while the data plane is at work."""
_PAUSE_S = 0.1


@dataclass
class Rollout:
    """One roll; also of nothing, where all Pods are of the newest template. `wish`: who is the primary in the end."""

    spec: ReplicationSpec
    wish: int | None
    version: tuple[int, int] | None
    pods: Replacing
    authority: Authority
    means: Means
    _why: str = ""

    def run(self) -> ReplicationView:
        """Brings the servers to what is declared, and every Pod to the newest template; returns the last look.

        Where the role is to be in the end counts only after that: until then it moves as the roll needs. Idempotent and
        resumable. Errors: Blocked, DeadlineExceeded, those of the API, what `may_go_on` raises.
        """
        self.pods.await_controllers()
        while True:
            self.means.may_go_on()
            view = self.means.converge(self.decide)
            if not self.pods.outdated:
                return view
            self.pods.look()
            step = self._next(view)
            if isinstance(step, Finished) and isinstance(plan(self.authority.informed(self.spec), view), Done):
                return view
            self._take(step, view)
            if time.monotonic() >= self.means.deadline:
                raise self.pods.late(self._why)

    def decide(self, spec: ReplicationSpec, view: ReplicationView) -> Plan[Action]:
        """The data plane's plan; but Done, so that the roll gets its turn, as soon as a Pod is to be replaced."""
        what = plan(spec, view)
        if isinstance(what, Done) or not self.pods.outdated:
            return what
        self.pods.look(if_older_than_s=FACTS_S)
        return Done() if isinstance(self._next(view), Replace) else what

    def _next(self, view: ReplicationView) -> Next:
        spec = replace(self.authority.informed(self.spec), primary=self.wish)
        return plan_roll(spec, view, states(self.pods.facts), self.version)

    def _take(self, step: Next, view: ReplicationView) -> None:
        self._why = step.why if isinstance(step, Await) else ""
        match step:
            case Replace():
                self.pods.replace(step)
            case GiveRole(to=to):
                if (now := primary_of(self.authority.informed(self.spec), view)) is not None:
                    self.authority.hand_over(to, now, self.means)
            case Refuse(reason=reason, remedy=remedy):
                raise Blocked(reason, where=self.spec.instance, remedy=remedy)
            case Await() | Finished():
                time.sleep(_PAUSE_S)


def primary_of(spec: ReplicationSpec, view: ReplicationView) -> Member | None:
    """The member that is the primary; None where there is none, or it can't be told which of several it is."""
    found = decide_primary(Knowledge(spec, view)).primary
    return None if found is None else found.member
