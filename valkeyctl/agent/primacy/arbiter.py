"""What an arbiter sees, and how it carries out what the rules say. `primacy` has its threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from valkeyctl.agent.logs import Log
from valkeyctl.agent.primacy import rules
from valkeyctl.agent.primacy.choice import EndpointOf, view_of
from valkeyctl.agent.primacy.clerk import Clerk, Job
from valkeyctl.agent.primacy.fence import ALONE, Clock, Fence
from valkeyctl.agent.primacy.memory import Memory
from valkeyctl.agent.primacy.own import NOBODY, OwnServer
from valkeyctl.agent.primacy.situation import (
    Action,
    Ask,
    Expect,
    Follow,
    Give,
    HandOver,
    Hold,
    Idle,
    Promote,
    SeekPromises,
    Situation,
    StopWrites,
)
from valkeyctl.agent.primacy.timing import KILL_S, SOFT_S, Timing
from valkeyctl.agent.primacy.word import Word, facts_of
from valkeyctl.agent.resp import Link, Nonsense
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.replication.knowledge import MOST_LAG_BYTES
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.wire import SAY_HOW_FAR
from valkeyctl.kube.primary_lease import PrimaryLease, Seat, handed_to

LOOK_S = 0.3
"""How long a look at the own server may take, where the last one would do too."""
HANDOVER_S = 5.0
FRESH_S = 1.0
"""How long words count that were given before the Lease was taken."""
HURRY_S, REST_S = 0.1, 0.5
"""Between two tries to stop writes, and between two looks whether that is due."""
AGAIN_S = 15.0
"""How long a handover that failed isn't tried again."""
UNENDING_S = 1e9
SOURCE = "primacy"


class Server(Protocol):
    """The own server, watched; `watch.Watch` is one."""

    @property
    def state(self) -> ServerState:
        """The last look."""
        ...

    def look_again(self, timeout_s: float) -> ServerState:
        """A look that begins after this call, or the last one when the time is over."""
        ...

    def poke(self) -> None:
        """Have it looked at now. Returns at once."""
        ...


class Others(Protocol):
    """The other members' arbiters."""

    def ask(self, own: Word, members: frozenset[Member]) -> Mapping[Member, Word]:
        """The words that these members' arbiters give now; who doesn't answer in time isn't in it."""
        ...


class Arbiter:
    """One member's. `turn` and `keep_in_time` are for one thread each, `hear` for any.

    Nothing here waits for the API server, and for servers and other agents only a second or so.
    """

    def __init__(
        self,
        instance: str,
        me: Seat,
        timing: Timing,
        *,
        watch: Server,
        held: Callable[[], bool],
        connect: Callable[[Member], Link],
        endpoint_of: EndpointOf,
        declared: Callable[[], ReplicationSpec | None],
        stands_still: Callable[[], bool],
        fence: Fence,
        memory: Memory,
        clerk: Clerk,
        others: Others,
        clock: Clock,
        log: Log,
        wake: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`connect` gives a signed-in connection to a member's server; the rest as for `Primacy`."""
        self.instance, self.me, self.timing, self.wake = instance, me, timing, wake
        self._watch, self._held, self._connect = watch, held, connect
        self._endpoint_of, self._declared, self._stands_still = endpoint_of, declared, stands_still
        self.fence, self._memory, self.clerk = fence, memory, clerk
        self._others, self._now, self._log = others, clock, log
        self._own = OwnServer(lambda: connect(me.member), fence, clock, sleep)
        self.in_sync: frozenset[Member] = frozenset()
        self.leave_until = self._sought_at = self._not_again_before = float("-inf")
        self._asked_at = float("-inf")
        self._words: Mapping[Member, Word] | None = None
        self._told = ""

    def turn(self) -> bool:
        """Decide once, and act; whether something is under way."""
        state = self._watch.state
        self._note(state)
        situation = self._situation(state)
        if situation.now - self._asked_at > FRESH_S:
            self._words = None
        action = rules.decide(replace(situation, words=self._words))
        if not situation.busy:
            self._words = None
        if isinstance(action, Ask):
            words = self._ask(situation)
            words = {**words, **self._ask_above(situation, words)}
            situation = replace(self._situation(self._watch.look_again(LOOK_S)), words=words)
            action = rules.decide(situation)
            if isinstance(action, Hold) and not situation.own.is_primary:
                # Whoever takes the Lease goes on by the same words: to ask anew those who are gone costs time.
                self._asked_at, self._words = situation.now, words
        self._say(action)
        self._carry_out(action, situation)
        yielding = situation.lease is not None and situation.lease.yielding is not None
        return yielding or not isinstance(action, Idle)

    @property
    def others(self) -> frozenset[Member]:
        """The other members, declared or to be asked."""
        spec = self._declared()
        declared = frozenset(spec.everybody) if spec is not None else frozenset[Member]()
        return (declared | self._memory.candidates) - {self.me.member}

    def keep_in_time(self) -> float:
        """Stop writes before the time for them is over, whatever the other threads are waiting for.

        Returns after how many seconds to call it again.
        """
        until = self.fence.until
        left_s = REST_S if until is None else until - SOFT_S - self._now()
        if left_s > 0:
            return min(REST_S, max(HURRY_S, left_s))
        if self._watch.state.phase is Phase.DOWN and self._held():
            self.fence.stand_down()
        else:
            was_primary = self._watch.state.serving and not self._watch.state.is_replica
            if self._own.stop_writes(None) and was_primary:
                self._log.warning(SOURCE, "the own server takes no more writes: the Lease isn't sure any more")
            self._watch.poke()
            self.wake()
        return HURRY_S

    # --- seeing ------------------------------------------------------------------------------------------------------

    def _note(self, state: ServerState) -> None:
        """Remember of a look what is needed when the server doesn't tell any more."""
        if not state.serving:
            return
        if not state.is_replica and self.fence.until is not None:
            self.in_sync = frozenset(self._listed(state))
            self._memory.keep(state.facts.get("run_id", ""))
        elif state.link_up and state.facts.get("master_sync_in_progress") == "0":
            self._memory.keep(state.facts.get("run_id", ""))

    def _listed(self, state: ServerState) -> dict[Member, Address]:
        """The replicas in sync with the own server, each as that lists it."""
        spec, place = self._declared(), self._endpoint_of(self.me.member)
        view = view_of(self._word(state), place)
        if spec is None or view is None:
            return {}
        at = {one.at: one for one in view.replicas if one.online and view.history.offset - one.offset <= MOST_LAG_BYTES}
        found: dict[Member, Address] = {}
        for member in spec.everybody:
            endpoint = self._endpoint_of(member)
            for host in (endpoint.host, endpoint.address):
                if Address(host, endpoint.port) in at:
                    found[member] = Address(host, endpoint.port)
        return found

    def _situation(self, state: ServerState) -> Situation:
        clerk = self.clerk
        with self.fence.lock:
            return Situation(
                now=self._now(),
                me=self.me,
                timing=self.timing,
                endpoint_of=self._endpoint_of,
                spec=self._declared(),
                stands_still=self._stands_still(),
                own=self._word(state),
                seen=clerk.seen,
                until=self.fence.until,
                renewed_at=clerk.renewed_at,
                tried_at=clerk.tried_at,
                sought_at=self._sought_at,
                handed_since=clerk.handed_since,
                busy=clerk.busy,
                in_sync=self.in_sync,
                candidates=self._memory.candidates,
                promised_until=self._memory.promised_until,
                leave=self._now() < self.leave_until,
                not_again_before=self._not_again_before,
            )

    def _word(self, state: ServerState) -> Word:
        until, now = self.fence.until, self._now()
        seen = self.clerk.seen
        holder = seen.lease.holder if seen is not None else None
        left_s = 0.0 if until is None else min(UNENDING_S, max(0.0, until - now))
        return Word(
            member=self.me.member,
            token=self.me.token,
            phase=str(state.phase),
            held=state.phase is Phase.DOWN and self._held(),
            kept=bool(self._memory.kept) and state.facts.get("run_id") == self._memory.kept,
            info=facts_of(state.facts) if state.serving else None,
            writable_s=left_s,
            in_touch=self.clerk.in_touch,
            holder=holder.identity(self.instance) if holder is not None else "",
        )

    def _ask(self, situation: Situation, asks_s: float = 0.0) -> Mapping[Member, Word]:
        return self._others.ask(replace(self._word(self._watch.state), asks=asks_s), situation.members)

    def _ask_above(self, situation: Situation, words: Mapping[Member, Word]) -> Mapping[Member, Word]:
        """What the server tells that the own one follows, where its agent doesn't: it may be none that knows of Leases.

        So it is while an instance is moved to, or from, another way of failing over, one Pod after the other.
        """
        above = situation.upstream
        if above is None or above == self.me.member or above in words:
            return {}
        try:
            link = self._connect(above)
        except (OSError, Nonsense):
            return {}
        try:
            info = link.ask(("INFO",))[0]
        except (OSError, Nonsense):
            return {}
        finally:
            link.close()
        if not isinstance(info, bytes):
            return {}
        pairs = (line.partition(":") for line in info.decode(errors="replace").splitlines())
        facts = facts_of({name: value.strip() for name, colon, value in pairs if colon})
        return {above: Word(above, "", phase=str(Phase.SERVING), info=facts)}

    def hear(self, theirs: Word) -> Word:
        """Another arbiter gives its word: the own one in return, with a promise where that asks for one."""
        state = self._watch.look_again(LOOK_S)
        promised_s = self._promise(theirs, state) if theirs.asks > 0 else 0.0
        return replace(self._word(state), promises_s=promised_s)

    def _promise(self, asker: Word, state: ServerState) -> float:
        """Promise not to take over, for so many seconds; 0 where that can't be promised.

        Noted before it is told. Who is armed may be promoted any moment: it promises nothing, and who has promised
        isn't promoted (`_may_promote`).
        """
        with self.fence.lock:
            seen = self.clerk.seen
            if self.fence.until is not None or (state.serving and not state.is_replica):
                return 0.0
            if seen is not None and seen.lease.holder != asker.seat:
                return 0.0
            promised_s = min(asker.asks, self.timing.promise_s)
            self._memory.promise(self._now() + promised_s)
            return promised_s

    def _may_promote(self) -> bool:
        return self._now() >= self._memory.promised_until

    # --- doing -------------------------------------------------------------------------------------------------------

    def _carry_out(self, action: Action, situation: Situation) -> None:
        match action:
            case Idle() | Ask():
                return
            case Hold():
                self._hold(situation, action)
                return
            case Give():
                self._give(situation, action)
                return
            case SeekPromises():
                self._seek_promises(situation)
                return
            case Expect(until=until):
                self.fence.arm(until)
            case Promote():
                if self._own.promote(self._may_promote):
                    self._log.warning(SOURCE, "the own server is the primary now")
            case StopWrites(to=to):
                self._own.stop_writes(self._address_of(to))
            case Follow(to=to):
                self._own.follow(self._address_of(to) or NOBODY)
            case HandOver(to=to):
                self._hand_over(to)
        self._watch.look_again(LOOK_S)
        self.wake()

    def _hold(self, situation: Situation, action: Hold) -> None:
        lease, spec = situation.lease, situation.spec
        if lease is None:
            return
        alone = frozenset({self.me.member})
        candidates = frozenset(spec.members) if spec is not None else lease.candidates
        if situation.stands_still:
            # Others may not know yet that they are to stand still too.
            candidates = alone
        if self.fence.until == ALONE and candidates != alone:
            # Others may take over from now on: so the time has to end before that is written.
            self.fence.arm(self._now() + self.timing.hard_s)
        self._memory.note_candidates(candidates | lease.candidates)

        def held(sent_at: float, written: PrimaryLease) -> None:
            self.clerk.renewed_at = sent_at
            self._memory.note_candidates(written.candidates)
            only = written.candidates == alone
            self.fence.arm(ALONE if only else sent_at + self.timing.hard_s)

        body = handed_to(
            lease, self.me, candidates=candidates, yielding=action.after, duration_s=self.timing.duration_s
        )
        self.clerk.submit(Job(body, held))

    def _give(self, situation: Situation, action: Give) -> None:
        lease, spec = situation.lease, situation.spec
        if lease is None or spec is None:
            return
        if not action.yielding:
            ended = situation.own.phase == Phase.DOWN and situation.own.held
            if ended:
                self.fence.stand_down()
            elif not self._own.stop_writes(None):
                return
        body = handed_to(
            lease,
            action.to,
            candidates=spec.members,
            yielding=self.me if action.yielding else None,
            duration_s=self.timing.duration_s,
        )
        self.clerk.submit(Job(body, lambda _at, _written: None))

    def _seek_promises(self, situation: Situation) -> None:
        """Go on without the API server, for as long as nobody else will take over."""
        asked_at = self._sought_at = self._now()
        others = situation.others
        words = self._ask(situation, self.timing.promise_s) if others else {}
        promised = [words[member].promises_s if member in words else 0.0 for member in others]
        least_s = min(promised, default=self.timing.promise_s)
        if least_s > KILL_S:
            self._extend(asked_at + least_s - KILL_S)
            return
        silent = ", ".join(str(one) for one in sorted(others) if one not in words or words[one].promises_s <= 0)
        self._log.warning(SOURCE, f"the Lease can't be renewed, and {silent} don't promise not to take over")

    def _extend(self, until: float) -> None:
        with self.fence.lock:
            if self.fence.until is not None:
                self.fence.arm(until)

    def _hand_over(self, to: Member) -> None:
        state = self._watch.look_again(LOOK_S)
        listed, until = self._listed(state).get(to), self.fence.until
        within_s = min(HANDOVER_S, 0.0 if until is None else until - SOFT_S - self._now() - 0.5)
        if listed is None or within_s < 1.0:
            self._not_again_before = self._now() + AGAIN_S
            return
        try:
            heir = self._connect(to)
        except (OSError, Nonsense):
            heir = None

        def hurry() -> None:
            """Have the successor say how far it is; by itself it does so once a second."""
            if heir is not None:
                heir.tell(SAY_HOW_FAR)

        handed = self._own.hand_over(listed, within_s, hurry)
        if heir is not None:
            heir.close()
        if not handed:
            self._log.warning(SOURCE, f"{to} didn't take the role over")
            self._not_again_before = self._now() + AGAIN_S

    def _address_of(self, member: Member | None) -> Address | None:
        if member is None:
            return None
        endpoint = self._endpoint_of(member)
        return Address(endpoint.host, endpoint.port)

    def _say(self, action: Action) -> None:
        """What is done, or waited for, is told once."""
        match action:
            case Idle(why=why):
                text = why
            case Hold(why="") | Ask() | SeekPromises():
                return
            case Hold(why=why):
                text = f"taking the Lease: {why}"
            case Give(to=to, why=why):
                text = f"giving the Lease to {to.member}: {why}"
            case Promote(why=why):
                text = f"becoming the primary: {why}"
            case StopWrites(to=to, why=why):
                text = f"taking no more writes, following {to or 'nobody'}: {why}"
            case Follow(to=to):
                text = f"following {to}"
            case Expect():
                text = "taking writes without the Lease, which nobody else may take now"
            case HandOver(to=to):
                text = f"{to} is ready for the role"
        if text != self._told:
            self._told = text
            if text:
                self._log.info(SOURCE, text)
