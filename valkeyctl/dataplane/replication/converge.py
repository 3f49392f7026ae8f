"""Bring one dataset into the declared state: the common loop over what is seen, planned and done here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from valkeyctl.dataplane import errors, loop
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.lookout import Lookout
from valkeyctl.dataplane.model import Directory, Member
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.progress import Progress
from valkeyctl.dataplane.replication.apply import apply_all
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.observe import ask
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView, ServerView
from valkeyctl.dataplane.rounds import Plan

Decide = Callable[[ReplicationSpec, ReplicationView], Plan[Action]]


def converge(
    spec: ReplicationSpec,
    directory: Directory,
    dialer: Dialer,
    *,
    deadline_s: float,
    progress: Callable[[Progress], None],
    may_go_on: Callable[[], None],
    timeout_s: float = TIMEOUT_S,
    missing_since: Mapping[Member, float] | None = None,
    settle_s: float = loop.SETTLE_S,
    decide: Decide = plan,
) -> ReplicationView:
    """Bring the dataset into the declared state; returns the observation that shows it. See `loop.run`.

    `directory` is asked before the observations, `missing_since` is as for a `Lookout`, `decide` is the planner.
    """
    with Links(dialer, timeout_s=timeout_s, max_parallel=MAX_PARALLEL) as links:
        lookout = Lookout[ServerView](directory, lambda at: ask(links, spec, at), missing_since=missing_since)
        work = _Work(spec, links, lookout, decide)
        return loop.run(work, deadline_s=deadline_s, progress=progress, may_go_on=may_go_on, settle_s=settle_s)


@dataclass
class _Work:
    """See `loop.Work`."""

    spec: ReplicationSpec
    links: Links
    lookout: Lookout[ServerView]
    planner: Decide

    @property
    def name(self) -> str:
        return self.spec.instance

    def look(self) -> ReplicationView:
        return ReplicationView(self.spec.instance, self.lookout.look())

    def decide(self, view: ReplicationView) -> Plan[Action]:
        return self.planner(self.spec, view)

    def carry_out(self, todo: Sequence[Action]) -> Mapping[Action, errors.ValkeyctlError]:
        return apply_all(self.links, todo, self.lookout.endpoints)

    def summarize(self, view: ReplicationView) -> str:
        return f"{len(view.nodes)} of {len(view.outcomes)} members answer"
