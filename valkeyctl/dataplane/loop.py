"""Observe → plan → take the steps → observe again, for whatever can be observed and planned.

What is specific to a topology is its `Work`: how it looks, decides and acts. The cluster has a loop of its own
(`converge`), since its moves of slots go on beside it and end later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.progress import Progress, Teller
from valkeyctl.dataplane.rounds import Blocked, Done, Plan, Round, StepT

READY = "Ready: Valkey is in the declared state"
FASTEST_S = 0.02
SLOWEST_S = 0.25
SETTLE_S = 2.0
"""For how long a plan has to stay blocked before it is believed: elections and restarts pass through odd states."""
TRIES = 5
"""How often one and the same step may fail with a server's error before the loop calls itself blocked by it."""

ViewT = TypeVar("ViewT")


class Work(Protocol[ViewT, StepT]):
    """What a loop is about. It knows its specification, its members' addresses and how to reach them."""

    @property
    def name(self) -> str:
        """What is brought about, for messages: the instance's name."""
        ...

    def look(self) -> ViewT:
        """One observation, bounded in time. Members that can't be observed are part of it, and raise nothing."""
        ...

    def decide(self, view: ViewT) -> Plan[StepT]:
        """What to do next. Pure, and Done at the goal."""
        ...

    def carry_out(self, todo: Sequence[StepT]) -> Mapping[StepT, errors.ValkeyctlError]:
        """Take steps; returns those that failed, each with its error. Taking one that took effect before is no error.

        Where a step fails with `errors.Unreachable` it may have taken effect nevertheless: the next look tells.
        """
        ...

    def summarize(self, view: ViewT) -> str:
        """Where things stand, in a few words for a person."""
        ...


def run(
    work: Work[ViewT, StepT],
    *,
    deadline_s: float,
    progress: Callable[[Progress], None],
    may_go_on: Callable[[], None],
    settle_s: float = SETTLE_S,
) -> ViewT:
    """Go on until the plan is Done; returns the observation that shows it.

    Idempotent and resumable: killed at any point, the next run finishes. Writes nothing when all is right already.
    `may_go_on` is called before every look and before the steps of every round, and raises to stop there. `progress` is
    called on each change. Raises `errors.Blocked` when a plan stays blocked for `settle_s` or when only steps are left
    that servers refuse again and again, `errors.DeadlineExceeded` after `deadline_s` seconds, or what `may_go_on` and
    `work.look` raise; all that could be done was done before.
    """
    return _Run(work, may_go_on, Teller(progress), time.monotonic() + deadline_s, settle_s).until_done()


@dataclass
class _Run(Generic[ViewT, StepT]):
    work: Work[ViewT, StepT]
    may_go_on: Callable[[], None]
    teller: Teller
    deadline: float
    settle_s: float
    taken_at: dict[StepT, float] = field(default_factory=dict[StepT, float])
    called_for_since: dict[StepT, float] = field(default_factory=dict[StepT, float])
    failures: dict[StepT, int] = field(default_factory=dict[StepT, int])
    hopeless: dict[StepT, errors.ValkeyctlError] = field(default_factory=dict[StepT, errors.ValkeyctlError])
    blocked_since: float | None = None
    pause_s: float = FASTEST_S

    def until_done(self) -> ViewT:
        last: Plan[StepT] | None = None
        while True:
            self.may_go_on()
            view = self.work.look()
            what = self.work.decide(view)
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

    def _take(self, what: Round[StepT], view: ViewT) -> None:
        now = time.monotonic()
        self.called_for_since = {step: self.called_for_since.get(step, now) for step in what.actions}
        due = [step for step in what.actions if self._is_due(step, now)]
        # What isn't sure yet is told before it is done.
        unsure = [step for step in what.actions if now - self.called_for_since[step] < step.sure_in_s]
        waiting = (*(f"about to: {step.describe()}" for step in unsure), *(wait.describe() for wait in what.waits))
        failed: Mapping[StepT, errors.ValkeyctlError] = {}
        if due:
            self.may_go_on()
            failed = self.work.carry_out(due)
            # From its end: a step that took long has had no time to settle yet.
            self.taken_at.update(dict.fromkeys(due, time.monotonic()))
        done = tuple(step.describe() for step in due if step not in failed)
        self.teller.say(self._summary(what, view), waiting, new=done)
        for step, error in failed.items():
            self.teller.say(f"{step.describe()}: {error}", waiting)
            self._count_failure(step, error)
        self._give_up_when_hopeless(what, view)

    def _is_due(self, step: StepT, now: float) -> bool:
        if step in self.hopeless or now - self.called_for_since[step] < step.sure_in_s:
            return False
        rest_s = max(step.settles_in_s, 0.25 * self.failures.get(step, 0))
        return now - self.taken_at.get(step, float("-inf")) >= rest_s

    def _count_failure(self, step: StepT, error: errors.ValkeyctlError) -> None:
        """Remember what a server refuses again and again. One that couldn't be reached shows at the next look."""
        if isinstance(error, errors.Unreachable):
            return
        self.failures[step] = self.failures.get(step, 0) + 1
        if self.failures[step] >= TRIES:
            self.hopeless[step] = error

    def _give_up_when_hopeless(self, what: Round[StepT], view: ViewT) -> None:
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

    def _wait_blocked(self, what: Blocked, view: ViewT) -> None:
        now = time.monotonic()
        self.blocked_since = self.blocked_since or now
        self.teller.say(f"Blocked: {what.reason}", ())
        if now - self.blocked_since >= self.settle_s:
            raise errors.Blocked(what.reason, remedy=what.remedy, view=view, done=self.teller.done)

    def _give_up_when_late(self, what: Round[StepT] | Blocked, view: ViewT) -> None:
        if time.monotonic() < self.deadline:
            return
        blocked = what if isinstance(what, Blocked) else what.blocked
        named = [wait.describe() for wait in what.waits] if isinstance(what, Round) else []
        named += [f"{step.describe()} failed: {error.what}" for step, error in self.hopeless.items()]
        missing = "; ".join(named[:10]) or "; ".join(what.describe()[:10] if isinstance(what, Round) else ())
        parts = [missing, blocked.reason if blocked else ""]
        raise errors.DeadlineExceeded(
            f"the declared state wasn't reached in time. {'. '.join(part for part in parts if part)}",
            where=self.work.name,
            remedy=blocked.remedy if blocked else "",
            view=view,
            done=self.teller.done,
        )

    def _summary(self, what: Round[StepT], view: ViewT) -> str:
        summary = self.work.summarize(view)
        if what.actions:
            return f"{summary}; {len(what.actions)} step{'' if len(what.actions) == 1 else 's'}"
        first = what.waits[0].describe() if what.waits else ""
        more = f" and {len(what.waits) - 1} more" if len(what.waits) > 1 else ""
        return f"{summary}; {first}{more}"

    def _pause(self, *, changed: bool) -> None:
        """Look again at once after a change, and ever less often while nothing happens."""
        self.pause_s = FASTEST_S if changed else min(SLOWEST_S, self.pause_s * 1.1)
        time.sleep(max(0.0, min(self.pause_s, self.deadline - time.monotonic())))
