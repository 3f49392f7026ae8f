"""What an arbiter does whose own server is a primary: keep the Lease, hand it over, or stop."""

from __future__ import annotations

from collections.abc import Mapping

from valkeyctl.agent.primacy.choice import address_of
from valkeyctl.agent.primacy.situation import (
    Action,
    Ask,
    Expect,
    Give,
    HandOver,
    Hold,
    Idle,
    SeekPromises,
    Situation,
    StopWrites,
)
from valkeyctl.agent.primacy.timing import RETRY_S
from valkeyctl.agent.primacy.word import Word
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.primary_lease import PrimaryLease, Seat

SEEK_AT, SEEK_S = 0.6, 1.0
"""At which part of its time a holder that can't renew asks for promises, and how long after it asked last."""
READY_S = 3.0
"""How long the successor in a handover has to get ready, before the Lease is taken back."""
EXPECT_S = 3.0
"""How long a server that was made the primary by the holder's may take writes before the Lease says so."""


def as_primary(s: Situation) -> Action:
    """The next thing to do."""
    lease = s.lease
    if lease is None:
        # An agent that came back and can't read the Lease goes on as the one before it, for as long as others promise.
        return keep(s)
    if s.holds:
        return keep(s)
    if lease.holder is None:
        return _adopt(s)
    return _yield(s, lease.holder) if lease.yielding == s.me else _give_way(s, lease.holder)


# --- holding it -------------------------------------------------------------------------------------------------------


def keep(s: Situation) -> Action:
    """Renew in time; where that isn't possible, go on only by the others' promises."""
    failing = s.tried_at > s.renewed_at
    if s.holds and not s.busy:
        if s.until is None and failing:
            return StopWrites(None, "the Lease can't be renewed, and the time is over")
        wanted = None if s.stands_still else _want_other(s)
        if wanted is not None:
            return wanted
        if s.until is None or s.is_due(RETRY_S if failing else s.timing.renew_s):
            return Hold()
    if 0 < s.left_s < SEEK_AT * s.timing.soft_s and s.now - s.sought_at >= SEEK_S:
        return SeekPromises()
    return Idle()


def _want_other(s: Situation) -> Action | None:
    """Begin to hand the role over, where somebody wishes for that and it can be done now."""
    if s.lease is None or s.spec is None or s.until is None or s.now < s.not_again_before:
        return None
    wanted = _wanted(s.lease, s.spec, s.me.member)
    anybody = s.leave or s.lease.wishes_any or s.me.member not in s.spec.members
    if not anybody and wanted not in s.in_sync:
        return None
    if s.left_s < s.timing.soft_s / 2:
        # It is begun with much of the time left: the Lease isn't renewed while it names the other one.
        return Hold() if s.is_due(RETRY_S) else None
    if s.words is None:
        return Ask()
    ready = _ready(s, s.spec, s.words)
    chosen = next((word for word in ready if word.member == wanted), ready[0] if ready and anybody else None)
    return None if chosen is None else Give(chosen.seat, yielding=True, why="the role is to be handed over")


def _wanted(lease: PrimaryLease, spec: ReplicationSpec, me: Member) -> Member | None:
    """Which member is to have the role: one that a person asked for now comes before one that is declared."""
    wanted = lease.wish or (Member(0, spec.primary) if spec.primary is not None else None)
    return None if wanted == me else wanted


def _ready(s: Situation, spec: ReplicationSpec, words: Mapping[Member, Word]) -> list[Word]:
    """Who could take the role over, by ordinal."""
    return [
        word
        for member, word in sorted(words.items())
        if member in s.in_sync and member in spec.members and word.in_touch and word.is_settled_replica
    ]


def _yield(s: Situation, heir: Seat) -> Action:
    """The Lease names the successor already: hand over once that is ready, or take the Lease back."""
    if s.busy or s.own.facts.get("master_failover_state", "no-failover") != "no-failover":
        return Idle()
    if s.until is None:
        return StopWrites(heir.member, "its time is over")
    if s.words is None:
        return Ask()
    failed = s.now < s.not_again_before
    theirs = s.words.get(heir.member)
    if theirs is not None and theirs.seat == heir and theirs.writable_s > 0 and not failed:
        return HandOver(heir.member)
    if (failed or s.age_s > READY_S) and s.is_due(RETRY_S):
        return Hold("the handover didn't come about")
    return Idle("the successor isn't ready yet")


# --- not holding it ---------------------------------------------------------------------------------------------------


def _adopt(s: Situation) -> Action:
    """A primary from before there was a holder: it takes the Lease, if nobody else says to be the primary."""
    if s.spec is None or s.busy or s.me.member not in s.spec.everybody:
        return Idle()
    if s.words is None:
        return Ask()
    if any(word.is_primary for word in s.words.values()):
        return Idle("there is another primary")
    return Hold("it is the primary") if s.is_due(RETRY_S) else Idle()


def _give_way(s: Situation, holder: Seat) -> Action:
    """Somebody else holds it: stop, unless that one's own server has just made this one the primary."""
    if s.words is None:
        return Ask()
    theirs = s.words.get(holder.member)
    follows = theirs is not None and theirs.is_settled_replica and s.member_at(address_of(theirs)) == s.me.member
    if theirs is not None and theirs.seat == holder and follows:
        return Idle("the Lease is about to follow") if s.until is not None else Expect(s.now + EXPECT_S)
    return StopWrites(holder.member, f"{holder.member} holds the Lease")
