"""Who decides which member is the primary: this program, the holder of a Lease, or the Sentinels.

Each of them tells the planner what is decided, lets nobody be promoted past it, and moves the role its own way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from valkeyctl.dataplane import Dialer, Member, Progress, Role, errors
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.loop import run as run_loop
from valkeyctl.dataplane.model import Endpoint
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.steps import Action, Promote
from valkeyctl.dataplane.replication.view import Handover, ReplicationView
from valkeyctl.dataplane.rounds import Done, Plan, Round
from valkeyctl.dataplane.sentinel.converge import SentinelWork
from valkeyctl.dataplane.sentinel.knowledge import Knowledge as SentinelKnowledge
from valkeyctl.dataplane.sentinel.observe import sentinels_over
from valkeyctl.dataplane.sentinel.plan import plan as plan_sentinels
from valkeyctl.dataplane.sentinel.steps import Action as SentinelAction
from valkeyctl.dataplane.sentinel.view import SentinelsView
from valkeyctl.dataplane.sentinel.word import Word, word_of
from valkeyctl.dataplane.steps import Wait
from valkeyctl.kube.access import Api
from valkeyctl.kube.dataset_look import by_holder, by_word
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.primary_lease import appoint, drop_wish, read_primacy, wish_for
from valkeyctl.kube.watched import SentinelSide
from valkeyctl.lifecycle.props import Place

ASKED_EVERY_S = 0.5
"""How old what is known of a decision may be."""
HANDOVER_S = 60.0
"""How long a role may take to move."""
_LOOK_S = 0.2


Decide = Callable[[ReplicationSpec, ReplicationView], Plan[Action]]


class Converge(Protocol):
    """One converge of the servers."""

    def __call__(
        self,
        decide: Decide,
        at_most_s: float = float("inf"),
        *,
        wanted: Member | None = None,
    ) -> ReplicationView:
        """Goes on until `decide` says Done. `wanted`: whom the planner is to give the role to."""
        ...


@dataclass(frozen=True)
class Means:
    """What an authority works with.

    `did` keeps a step that was done; `moved` hears who has the role now, as soon as that is sure. `deadline` by the
    monotonic clock.
    """

    converge: Converge
    may_go_on: Callable[[], None]
    progress: Callable[[Progress], None]
    did: Callable[[str], None]
    moved: Callable[[Member], None]
    deadline: float

    def left_s(self, at_most_s: float) -> float:
        """How long something may take."""
        return min(at_most_s, max(self.deadline - time.monotonic(), 1.0))


class Authority(Protocol):
    """See the module."""

    def informed(self, spec: ReplicationSpec) -> ReplicationSpec:
        """The specification with what is decided now. Errors: those of the API."""
        ...

    def admit(self, what: Plan[Action]) -> Plan[Action]:
        """What of a plan is for this program to do. Errors: those of the API."""
        ...

    def hand_over(self, to: Member, now: Member, means: Means) -> None:
        """Returns when the role is with that member, and no longer with the one that has it `now`. Errors: Blocked,
        DeadlineExceeded, those of the API, what `may_go_on` raises.
        """
        ...


@dataclass
class ByUp:
    """Nobody but `up` promotes. `recorded`: who was the primary last, as the status tells."""

    recorded: int | None = None

    def informed(self, spec: ReplicationSpec) -> ReplicationSpec:
        """See Authority."""
        return replace(spec, last_primary=self.recorded)

    def admit(self, what: Plan[Action]) -> Plan[Action]:
        """See Authority."""
        return what

    def hand_over(self, to: Member, now: Member, means: Means) -> None:
        """See Authority: the server does it, told by its own command."""
        means.converge(until_moved(to, now), HANDOVER_S, wanted=to)
        self.recorded = to.ordinal
        means.moved(to)


@dataclass
class ByLease:
    """The agents promote whoever holds the Lease; as long as nobody has ever held it, this is as where only `up` does.

    The first holder is appointed here, and its own agent promotes it.
    """

    api: Api
    place: Place
    members: Sequence[Member]
    recorded: int | None = None
    _holder: Member | None = None
    _settled: bool = True
    _asked_at: float = field(default=float("-inf"))

    def informed(self, spec: ReplicationSpec) -> ReplicationSpec:
        """See Authority."""
        if time.monotonic() - self._asked_at >= ASKED_EVERY_S:
            self._ask()
        return by_holder(spec, self._holder, self.recorded)

    def admit(self, what: Plan[Action]) -> Plan[Action]:
        """See Authority: in the place of promoting a member it is appointed."""
        if not isinstance(what, Round):
            return what
        promoted = [step.member for step in what.actions if isinstance(step, Promote)]
        if not promoted:
            return what
        place = self.place
        appoint(self.api, place.namespace, place.instance, promoted[0], candidates=self.members)
        self._ask()
        rest = tuple(step for step in what.actions if not isinstance(step, Promote))
        waits = (*what.waits, *(Wait(member, "its agent has made it the primary") for member in promoted))
        return Round(rest, waits, what.blocked)

    def hand_over(self, to: Member, now: Member, means: Means) -> None:
        """See Authority: the holder's agent does it, which is told by a wish."""
        self._ask()
        if self._holder is None:
            means.converge(until_moved(to, now), HANDOVER_S, wanted=to)
            self.recorded = to.ordinal
            means.moved(to)
            return
        place = self.place
        until = time.monotonic() + means.left_s(HANDOVER_S)
        wish_for(self.api, place.namespace, place.instance, to)
        # Until the former holder has let go of it, that one may take writes.
        while self._holder != to or not self._settled:
            means.may_go_on()
            if time.monotonic() >= until:
                drop_wish(self.api, place.namespace, place.instance)
                raise errors.Blocked(
                    f"the role didn't move from {now} to {to} in {HANDOVER_S:.0f} s",
                    where=place.instance,
                    remedy=f"See what the agent of {now} tells: kubectl logs, container agent.",
                )
            time.sleep(_LOOK_S)
            self._ask()
        means.did(f"{now}: hand the primary's role over to {to}")
        means.moved(to)

    def _ask(self) -> None:
        lease = read_primacy(self.api, self.place.namespace, self.place.instance)
        self._holder = lease.holder.member if lease is not None and lease.holder is not None else None
        self._settled = lease is None or lease.yielding is None
        self._asked_at = time.monotonic()


@dataclass
class BySentinels:
    """The Sentinels promote. Where none of them monitors the dataset yet, this is as where only `up` does."""

    side: SentinelSide
    servers: Callable[[], Mapping[Member, Endpoint]]
    server_links: Links
    sentinel_links: Links
    recorded: int | None = None
    _word: Word = field(default_factory=lambda: Word(decides=False))
    _asked_at: float = field(default=float("-inf"))

    def informed(self, spec: ReplicationSpec) -> ReplicationSpec:
        """See Authority."""
        if time.monotonic() - self._asked_at >= ASKED_EVERY_S:
            told = sentinels_over(self.sentinel_links, self.side.spec, self.side.directory())
            self._word, self._asked_at = word_of(self.side.spec, told), time.monotonic()
        return by_word(spec, self._word, self.recorded)

    def admit(self, what: Plan[Action]) -> Plan[Action]:
        """See Authority."""
        return what

    def hand_over(self, to: Member, now: Member, means: Means) -> None:  # noqa: ARG002
        """See Authority: a Sentinel leads it, with the servers."""
        spec = replace(self.side.spec, wanted=to)
        work = _Handover(
            spec,
            self.side.directory,
            self.servers,
            (self.sentinel_links, self.server_links),
            self.side.monitor_as,
        )
        run_loop(work, deadline_s=means.left_s(HANDOVER_S), progress=means.progress, may_go_on=means.may_go_on)
        self._asked_at = float("-inf")
        means.moved(to)


def until_moved(to: Member, former: Member) -> Decide:
    """The planner, but Done as soon as the role is with who is to have it: the former primary need not be in sync
    again, since the new one's version may be one that it can't follow.
    """

    def decide(spec: ReplicationSpec, view: ReplicationView) -> Plan[Action]:
        heir, before = view.nodes.get(to), view.nodes.get(former)
        settled = heir is not None and heir.role is Role.PRIMARY and heir.handover is Handover.NONE
        if settled and (before is None or before.role is Role.REPLICA):
            return Done()
        return plan(spec, view)

    return decide


def authority_of(
    directory: Directory,
    place: Place,
    dialer: Dialer,
    members: Sequence[Member],
    stack: ExitStack,
    *,
    side: SentinelSide | None,
    by_lease: bool,
    recorded: int | None,
) -> Authority:
    """Who decides which member of a dataset is the primary. What is opened is closed with the stack."""
    if side is not None:
        to_servers = stack.enter_context(Links(dialer, timeout_s=TIMEOUT_S, max_parallel=MAX_PARALLEL))
        to_sentinels = stack.enter_context(Links(side.dialer, timeout_s=TIMEOUT_S, max_parallel=MAX_PARALLEL))
        return BySentinels(side, directory, to_servers, to_sentinels, recorded)
    return ByLease(directory.api, place, members, recorded) if by_lease else ByUp(recorded)


class _Handover(SentinelWork):
    """Ends as soon as the role is with who is wanted: what else is to be put right at the Sentinels can wait."""

    def decide(self, view: SentinelsView) -> Plan[SentinelAction]:
        k = SentinelKnowledge(self.spec, view)
        if k.live is not None and k.live.member == self.spec.wanted and not k.failing_over:
            return Done()
        return plan_sentinels(self.spec, view)


def agree(sentinels: BySentinels, means: Means) -> SentinelsView:
    """Has the Sentinels monitor the primary as declared, know each other, and forget who is gone; the last look.

    Errors: Blocked, DeadlineExceeded, those of the API, what `may_go_on` raises.
    """
    side = sentinels.side
    links = sentinels.sentinel_links, sentinels.server_links
    work = SentinelWork(side.spec, side.directory, sentinels.servers, links, side.monitor_as)
    left_s = means.left_s(float("inf"))
    return run_loop(work, deadline_s=left_s, progress=means.progress, may_go_on=means.may_go_on)
