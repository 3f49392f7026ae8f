"""What an arbiter does whose server takes no writes: become the primary, give the Lease to who should, or follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from valkeyctl.agent.primacy.choice import Choice, choose
from valkeyctl.agent.primacy.fence import ALONE
from valkeyctl.agent.primacy.situation import (
    Action,
    Ask,
    Expect,
    Follow,
    Give,
    Hold,
    Idle,
    Promote,
    Situation,
    StopWrites,
)
from valkeyctl.agent.primacy.timing import ENOUGH_S, RETRY_S
from valkeyctl.agent.primacy.word import Word
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.primary_lease import PrimaryLease, Seat

Words = Mapping[Member, Word]


# --- holding the Lease ------------------------------------------------------------------------------------------------


def as_holder(s: Situation, lease: PrimaryLease, spec: ReplicationSpec) -> Action:
    """The next thing to do, where the Lease names this member.

    It isn't renewed for its own sake: whoever can't become the primary lets it run out.
    """
    if s.busy:
        return Idle()
    if lease.yielding is not None:
        return _succeed(s, lease.yielding)
    if s.now < s.promised_until:
        return Idle("a promise not to take over is still kept")
    if s.words is None:
        return Ask()
    if s.own.is_settled_replica:
        return _begin(s, spec, s.words)
    return _give_away(s, spec, s.words) if s.own.held else Idle(f"the own server is {s.own.phase}")


def _succeed(s: Situation, former: Seat) -> Action:
    """The former holder is about to hand over: be ready for it, and act only once that can't take writes any more."""
    if s.handed_since is not None and s.now - s.handed_since >= s.timing.take_s:
        return Hold("the former holder's time is over") if s.is_due(RETRY_S) else Idle()
    if s.until is not None and not s.is_due(s.timing.renew_s):
        return Idle()
    if s.words is None:
        return Ask()
    told = s.words.get(former.member)
    if told is not None and told.seat == former and told.is_settled_replica and told.writable_s <= 0:
        return Hold("the former holder takes no more writes")
    return Hold("getting ready", after=former)


def _begin(s: Situation, spec: ReplicationSpec, words: Words) -> Action:
    """The own server is a replica, and could be made the primary."""
    above = words.get(s.upstream) if s.upstream is not None else None
    if above is not None and above.is_primary:
        return Give(above.seat, yielding=False, why=f"{above.member} has been made the primary")
    choice = _choose(s, spec, {**words, s.me.member: s.own}, last=s.me.member)
    if choice.heir == s.me.member:
        return _rise(s)
    if choice.heir is None:
        return Idle(choice.why)
    heir = words[choice.heir]
    if not heir.in_touch:
        return Idle(f"{heir.member} has more, and isn't in touch with the API server")
    return Give(heir.seat, yielding=False, why=f"{heir.member} has more")


def _rise(s: Situation) -> Action:
    """The own server is the one: have it take writes, as soon as there is enough time for that."""
    if s.left_s >= ENOUGH_S:
        return Promote("it holds the Lease, and nobody who answers has more")
    if s.candidates == frozenset({s.me.member}):
        # Nobody else may take the Lease, whether it can be renewed now or not.
        return Expect(ALONE)
    return Hold() if s.is_due(RETRY_S) else Idle()


def _give_away(s: Situation, spec: ReplicationSpec, words: Words) -> Action:
    """The own server has ended, and none starts: a replica that was in sync with it goes on at once."""
    ready = {member: word for member, word in words.items() if member in s.in_sync and word.in_touch}
    choice = _choose(s, spec, ready, last=s.me.member)
    if choice.heir is None:
        return Idle(f"nobody can take over at once: {choice.why}")
    return Give(ready[choice.heir].seat, yielding=False, why="the own server has ended")


# --- not holding it ---------------------------------------------------------------------------------------------------


def as_other(s: Situation, lease: PrimaryLease, spec: ReplicationSpec) -> Action:
    """The next thing to do, where the Lease names somebody else, or nobody."""
    if lease.holder is None:
        return Idle("nobody has been appointed")
    if not s.own.is_settled_replica:
        return Idle()
    holder = lease.holder.member
    if s.until is not None:
        return StopWrites(holder, f"{holder} holds the Lease")
    if _may_take(s, lease, spec):
        if s.words is None:
            return Ask()
        found = _take(s, spec, {**s.words, s.me.member: s.own}, holder)
        if found is not None:
            return found
    # Who is about to hand over is followed until it has.
    other = holder not in (s.upstream, s.me.member) and lease.yielding is None
    return Follow(holder) if other and holder in spec.everybody else Idle()


def _may_take(s: Situation, lease: PrimaryLease, spec: ReplicationSpec) -> bool:
    """Whether the Lease has run out, and this member is one of those that its holder reckoned with."""
    candidates = lease.candidates & frozenset(spec.members)
    return s.expired and not s.busy and s.now >= s.promised_until and s.me.member in candidates


def _take(s: Situation, spec: ReplicationSpec, words: Words, holder: Member) -> Action | None:
    """Take the Lease, if nobody who answers is to have it rather; None where that isn't known."""
    if any(word.writable_s > 0 for word in words.values()):
        return None
    if s.age_s > 2 * s.timing.take_s:
        # Whoever was to act had the time to: those that can't are left out, however much they have.
        words = {one: word for one, word in words.items() if word.in_touch or word.is_primary or one == s.me.member}
    choice = _choose(s, spec, words, last=holder)
    if choice.heir == s.me.member:
        return Hold("the Lease has run out") if s.is_due(RETRY_S) else Idle()
    return Idle(choice.why or f"{choice.heir} is to take over")


def _choose(s: Situation, spec: ReplicationSpec, words: Words, *, last: Member) -> Choice:
    return choose(replace(spec, last_primary=last.ordinal), words, s.endpoint_of)
