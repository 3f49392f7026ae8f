"""The loop: observe → plan → steps → observe again, until the declared state is reached or nothing can be done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.apply import apply_all
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.freshness import Freshness
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.lookout import Lookout
from valkeyctl.dataplane.loop import FASTEST_S, READY, SETTLE_S, SLOWEST_S, TRIES
from valkeyctl.dataplane.model import Directory, Member, Spec
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S, observe_over
from valkeyctl.dataplane.plan import Blocked, Done, Plan, Steps, plan
from valkeyctl.dataplane.progress import MoveClock, Progress, Teller
from valkeyctl.dataplane.slots import EMPTY
from valkeyctl.dataplane.steps import Action, HandOver, MigrateSlots, MoveKeys, Promote, Step, counted, describe_all
from valkeyctl.dataplane.translate import where
from valkeyctl.dataplane.view import Job, JobState, NodeView, Role, View
from valkeyctl.dataplane.weigh import weigh

AGAIN = ", again: nothing came of it before"
"""Said of what servers agree to and bring about, or give up, later: they don't tell which."""


def converge(
    spec: Spec,
    directory: Directory,
    dialer: Dialer,
    *,
    deadline_s: float,
    progress: Callable[[Progress], None],
    may_go_on: Callable[[], None],
    timeout_s: float = TIMEOUT_S,
    max_parallel: int = MAX_PARALLEL,
    missing_since: Mapping[Member, float] | None = None,
    decide: Callable[[Spec, View], Plan] = plan,
) -> View:
    """Bring the instance into the declared state; returns the observation that shows it.

    Idempotent and resumable: killed at any point, the next run finishes. Writes nothing when all is right already.
    `may_go_on` is called before every observation and before the steps of every round, and raises to stop there.
    `directory` is asked before every observation, and `missing_since` is as for a `Lookout`. `progress` is called on
    each change, never more than once a round. `decide` is the planner. Raises `errors.Blocked`,
    `errors.DeadlineExceeded` after `deadline_s` seconds, or what `may_go_on` and `directory` raise; all that could be
    done was done before.
    """
    with Links(dialer, timeout_s=timeout_s, max_parallel=max_parallel) as links:
        lookout = Lookout[NodeView](
            directory, lambda at: observe_over(links, spec, at).outcomes, missing_since=missing_since
        )
        run = _Run(spec, lookout, links, may_go_on, Teller(progress), time.monotonic() + deadline_s, decide)
        return run.until_done()


@dataclass
class _Run:
    spec: Spec
    lookout: Lookout[NodeView]
    links: Links
    may_go_on: Callable[[], None]
    teller: Teller
    deadline: float
    decide: Callable[[Spec, View], Plan]
    taken_at: dict[Step, float] = field(default_factory=dict[Step, float])
    called_for_since: dict[Step, float] = field(default_factory=dict[Step, float])
    asked: set[Step] = field(default_factory=set[Step])
    failures: dict[Step, int] = field(default_factory=dict[Step, int])
    hopeless: dict[Step, errors.ValkeyctlError] = field(default_factory=dict[Step, errors.ValkeyctlError])
    moves: MoveClock = field(default_factory=MoveClock)
    freshness: Freshness = field(default_factory=Freshness)
    jobs_known: set[str] | None = None
    blocked_since: float | None = None
    pause_s: float = FASTEST_S

    def until_done(self) -> View:
        last: Plan | None = None
        while True:
            self.may_go_on()
            view = View(self.freshness.mark(self.lookout.look()))
            self._note_failed_moves(view)
            what = self.decide(self.spec, view)
            self._follow_moves(what, view)
            if isinstance(what, Done):
                self.teller.say(READY, ())
                return view
            if isinstance(what, Blocked):
                self._wait_blocked(what, view)
            else:
                self.blocked_since = None
                self._take(what, view)
            self._give_up_when_late(what, view)
            self._pause(changed=what != last)
            last = what

    def _take(self, what: Steps, view: View) -> None:
        now = time.monotonic()
        self.called_for_since = {step: self.called_for_since.get(step, now) for step in what.actions}
        due = [step for step in what.actions if self._is_due(step, now)]
        if any(isinstance(step, MigrateSlots | MoveKeys) for step in due):
            self.moves.begin()
        self.may_go_on()
        failed = apply_all(self.links, due, self.lookout.endpoints)
        self.taken_at.update(dict.fromkeys(due, now))
        lines = self._told_as_done([step for step in due if step not in failed], view)
        self.teller.say(self._summary(what, view), tuple(wait.describe() for wait in what.waits), new=lines)
        for step, error in failed.items():
            self.teller.say(f"{step.describe()}: {error}", tuple(wait.describe() for wait in what.waits))
            self._count_failure(step, error)
        self._give_up_when_hopeless(what, view)

    def _told_as_done(self, done: Sequence[Action], view: View) -> tuple[str, ...]:
        """What was done, line by line, so that nothing that came to nothing reads as a success."""
        self.asked = {step for step in self.asked if not _is_primary(step.member, view)}
        again = [step for step in done if step in self.asked]
        self.asked |= {step for step in done if isinstance(step, Promote | HandOver)}
        # Keys are sent in many small turns; that it is done is told once, and how far it is in the summary.
        by_keys = describe_all(step for step in done if isinstance(step, MoveKeys))
        return (
            *describe_all(step for step in done if not isinstance(step, MoveKeys) and step not in again),
            *(f"{step.describe()}{AGAIN}" for step in again),
            *(line for line in by_keys if line not in self.teller.done),
        )

    def _follow_moves(self, what: Plan, view: View) -> None:
        """See how far moves of slots are, and ask once what the slots hold, where it takes its time."""
        left = what.to_move if isinstance(what, Steps) else EMPTY
        self.moves.see(left, moving=any(node.is_moving_slots for node in view.nodes.values()))
        if self.moves.wants_weight:
            given = {member: node.slots & left for member, node in view.nodes.items() if node.slots.bits & left.bits}
            self.moves.weight = weigh(self.links, given, self.lookout.endpoints)

    def _note_failed_moves(self, view: View) -> None:
        """Servers move slots by themselves and tell afterwards that they failed: count that like a failed step.

        What had failed before the first look isn't this run's.
        """
        ended = {
            job.name: (node, job)
            for node in view.nodes.values()
            for job in node.jobs
            if job.gives and job.state is JobState.FAILED
        }
        # Kept, since who doesn't answer for a moment tells of the same ones again.
        known, self.jobs_known = self.jobs_known, {*(self.jobs_known or ()), *ended}
        if known is None:
            return
        for node, job in (ended[name] for name in ended if name not in known):
            begun_by = (node.member, job.other_id, job.slots)
            for step in self.taken_at:
                if isinstance(step, MigrateSlots) and (step.member, step.to_id, step.slots) == begun_by:
                    error = errors.ErrorReply(_told_of(job, view), where=where(node.endpoint))
                    self.teller.say(f"{step.describe()}: {error}", ())
                    self._count_failure(step, error)

    def _is_due(self, step: Action, now: float) -> bool:
        if step in self.hopeless:
            return False
        if now - self.called_for_since[step] < step.sure_in_s:
            return False
        rest_s = max(step.settles_in_s, 0.25 * self.failures.get(step, 0))
        return now - self.taken_at.get(step, float("-inf")) >= rest_s

    def _count_failure(self, step: Step, error: errors.ValkeyctlError) -> None:
        """Remember what a server refuses again and again. One that couldn't be reached shows at the next look."""
        if isinstance(error, errors.Unreachable):
            return
        self.failures[step] = self.failures.get(step, 0) + 1
        if self.failures[step] >= TRIES:
            self.hopeless[step] = error

    def _give_up_when_hopeless(self, what: Steps, view: View) -> None:
        """When only steps are left that servers keep refusing, a person is needed; the rest has been done before."""
        if not self.hopeless or what.waits or any(step not in self.hopeless for step in what.actions):
            return
        step = next(step for step in what.actions if step in self.hopeless)
        error = self.hopeless[step]
        raise errors.Blocked(
            f"{step.describe()} failed {TRIES} times: {error.what}",
            where=error.where,
            remedy=error.remedy,
            view=view,
            done=self.teller.done,
        ) from error

    def _wait_blocked(self, what: Blocked, view: View) -> None:
        now = time.monotonic()
        self.blocked_since = self.blocked_since or now
        self.teller.say(f"Blocked: {what.reason}", ())
        if now - self.blocked_since >= SETTLE_S:
            raise errors.Blocked(what.reason, remedy=what.remedy, view=view, done=self.teller.done)

    def _give_up_when_late(self, what: Plan, view: View) -> None:
        if time.monotonic() < self.deadline:
            return
        waits = [wait.describe() for wait in what.waits] if isinstance(what, Steps) else []
        waits += [f"{step.describe()} failed: {error.what}" for step, error in self.hopeless.items()]
        blocked = what.blocked if isinstance(what, Steps) else what
        missing = "; ".join(waits[:10]) or "; ".join(what.describe()[:10] if isinstance(what, Steps) else ())
        parts = [missing, blocked.reason if isinstance(blocked, Blocked) else ""]
        raise errors.DeadlineExceeded(
            f"the declared state wasn't reached in time. {'. '.join(part for part in parts if part)}",
            where=self.spec.instance,
            remedy=blocked.remedy if isinstance(blocked, Blocked) else "",
            view=view,
            done=self.teller.done,
        )

    def _summary(self, what: Steps, view: View) -> str:
        present = f"{len(view.nodes)} of {len(view.outcomes)} members answer"
        moved = self.moves.line()
        if moved:
            return f"{moved}; {present}"
        if what.actions:
            return f"{present}; {len(what.actions)} steps"
        first = what.waits[0].describe() if what.waits else ""
        more = f" and {len(what.waits) - 1} more" if len(what.waits) > 1 else ""
        return f"{present}; {first}{more}"

    def _pause(self, *, changed: bool) -> None:
        """Look again at once after a change, and ever less often while nothing happens."""
        self.pause_s = FASTEST_S if changed else min(SLOWEST_S, self.pause_s * 1.1)
        time.sleep(max(0.0, min(self.pause_s, self.deadline - time.monotonic())))


def _is_primary(member: Member, view: View) -> bool:
    node = view.nodes.get(member)
    return node is not None and node.role is Role.PRIMARY


def _told_of(job: Job, view: View) -> str:
    """Why a move failed, in the words of both servers: often only the one at the other end knows."""
    words = [job.message]
    to = view.nodes.get(view.member_of_id.get(job.other_id, Member(-1, -1)))
    words += [other.message for other in to.jobs if other.name == job.name] if to is not None else []
    told = "; ".join(dict.fromkeys(word.rstrip(".") for word in words if word)) or "it was cancelled"
    return f"the move of {counted(job.slots)} failed: {told}"
