"""Who the primary is, or is to be: found by asking, never by ordinal, which only breaks ties (reports C7, F2 to F5).

Where a server calls itself the primary, that is a decision somebody made, and it stays. Where none does, the one with
the most data becomes it; where that can't be told, a person is asked. ADR 0110 has the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.knowledge import NEEDS_A_PERSON, Knowledge
from valkeyctl.dataplane.replication.view import ServerView
from valkeyctl.dataplane.rounds import Blocked
from valkeyctl.dataplane.view import Absent, Unreachable, Why

CONSENT = "or set `allowDataLoss: true` for the instance"


@dataclass(frozen=True)
class Choice:
    """Who the primary is, or is to be.

    `primary` is a server that is the primary and stays it. Where there is none, `heir` is to become it, `waits` tell
    what is waited for before that (by member), and `problem` what only a person can decide. `outdone` are primaries
    that somebody has more data than, and that took none by themselves: they step back for `heir`.
    """

    primary: ServerView | None = None
    heir: ServerView | None = None
    outdone: tuple[ServerView, ...] = ()
    waits: tuple[tuple[Member, str], ...] = ()
    problem: Blocked | None = None


def decide_primary(k: Knowledge) -> Choice:
    """Find the primary, or who is to become it."""
    with_data = [node for node in k.nodes.values() if node.has_data]
    if not with_data:
        return _form(k)
    outdone = tuple(node for node in k.claimants if k.is_outdone(node))
    claimants = [node for node in k.claimants if node not in outdone and node.has_data]
    if claimants:
        return _keep(k, claimants)
    best = _most_advanced(k, with_data)
    if isinstance(best, Blocked):
        return Choice(problem=best)
    waits, problem = _what_may_be_better(k, best)
    return Choice(heir=best, outdone=outdone, waits=waits, problem=problem)


# --- where a server is the primary ------------------------------------------------------------------------------------


def _keep(k: Knowledge, claimants: Sequence[ServerView]) -> Choice:
    """Of primaries with data, the one that stays (report F3); of several a person, or whoever decides, may have to say.

    Until then all of them take writes: to have one step back would drop what it took.
    """
    stays = _stays(k, claimants)
    if stays is not None and k.reached and stays.member.ordinal != k.spec.last_primary:
        # Theirs may be the true primary, and this one a stray: nobody is taken away from it.
        why = "it answers; others follow it, so it may be the primary"
        return Choice(waits=tuple((member, f"{why} ({_detail(k, member)})") for member in sorted(k.reached)))
    if stays is not None:
        return Choice(primary=stays)
    names = " and ".join(str(node.member) for node in claimants)
    if k.spec.decided_elsewhere:
        return Choice(waits=tuple((node.member, f"it is decided who of {names} is the primary") for node in claimants))
    return Choice(
        problem=Blocked(
            f"{names} are primaries, each with writes that the other has not, and nothing tells which one counts",
            "Make the one whose writes aren't wanted a replica of the other (REPLICAOF), "
            f"{CONSENT}: then the one with most keys stays.",
            tuple(node.member for node in claimants),
        )
    )


def _stays(k: Knowledge, claimants: Sequence[ServerView]) -> ServerView | None:
    """The recorded one; where that isn't among them, the one that most others follow, or else the one that has all that
    the others have. Which one was promoted later tells nothing: a replica that was made a primary by hand was.
    """
    recorded = [node for node in claimants if node.member.ordinal == k.spec.last_primary]
    if len(claimants) == 1 or recorded:
        return (recorded or claimants)[0]
    if k.spec.decided_elsewhere:
        return None
    most = max(k.followers(node.member) for node in claimants)
    followed = [node for node in claimants if k.followers(node.member) == most]
    if len(followed) == 1:
        return followed[0]
    containing = [node for node in claimants if all(_contains(k, node, other) for other in claimants)]
    if containing:
        return max(containing, key=lambda node: _among_equals(k, node))
    return max(claimants, key=lambda node: _by_consent(k, node)) if k.spec.accept_data_loss else None


def _contains(k: Knowledge, one: ServerView, other: ServerView) -> bool:
    return one is other or (one.placed and other.placed and k.lineage.contains(one.history, other.history))


# --- where none is ----------------------------------------------------------------------------------------------------


def _most_advanced(k: Knowledge, with_data: Sequence[ServerView]) -> ServerView | Blocked:
    """Who has the most data (report F2).

    The log of the former primary lacks what it took in the last two seconds, which it may not have written yet. So a
    replica comes first that never stopped and followed it to its end; but one that was cut off before that may have
    much less, and comes after it. Those with a place in the stream are compared by it; last is what others have on
    their disks.
    """
    placed = [node for node in with_data if node.placed]
    own_log = [node for node in with_data if k.has_own_log(node)]
    if own_log:
        placed = [node for node in placed if k.followed_to_the_end(node, own_log[0])]
        if not placed:
            return own_log[0]
    foremost = [node for node in placed if not any(k.outdoes(other, node) for other in placed)]
    candidates = foremost or with_data
    if len(candidates) == 1 or (foremost and all(_contains(k, a, b) for a in foremost for b in foremost)):
        return max(candidates, key=lambda node: _among_equals(k, node))
    if foremost and (chosen := _newest(k, foremost)) is not None:
        return chosen
    if k.spec.accept_data_loss:
        return max(candidates, key=lambda node: _by_consent(k, node))
    held = ", ".join(f"{node.member} ({node.keys} keys)" for node in candidates)
    return Blocked(
        f"there is no primary, and nothing tells whose data is newest: {held}",
        f"Make the one that counts the primary (REPLICAOF NO ONE), {CONSENT}: then it is the one with most keys.",
        tuple(node.member for node in candidates),
    )


def _newest(k: Knowledge, foremost: Sequence[ServerView]) -> ServerView | None:
    """Of several histories that parted, the one of the recorded primary, or the one that goes on from all others.

    Whoever was promoted from the others' stream was made the primary when that had ended: what the former one took
    after it was never copied, and has been given up by that decision.
    """
    recorded = [node for node in foremost if k.spec.last_primary == node.member.ordinal]
    copies = [node for r in recorded for node in foremost if node.history.replication_id == r.history.replication_id]
    groups = [copies] if copies else []
    groups.append(
        [
            node
            for node in foremost
            if all(
                k.lineage.continues(node.history, other.history)
                or node.history.replication_id == other.history.replication_id
                for other in foremost
            )
        ]
    )
    for group in groups:
        if group:
            return max(group, key=lambda node: (node.history.offset, _among_equals(k, node)))
    return None


def _among_equals(k: Knowledge, node: ServerView) -> tuple[int | bool, ...]:
    """Of servers with the same data: whose age is known, then who stays and is wished for, then who had the role."""
    return (
        node.was_linked,
        node.member in k.spec.members,
        node.member.ordinal == k.spec.primary,
        node.member == k.incumbent,
        k.followers(node.member, linked=False),
        -node.member.ordinal,
    )


def _by_consent(k: Knowledge, node: ServerView) -> tuple[int | bool, ...]:
    """Of servers whose data can't be compared, where a person agreed that some is lost."""
    return (node.keys, node.history.offset, *_among_equals(k, node))


def _what_may_be_better(k: Knowledge, heir: ServerView) -> tuple[tuple[tuple[Member, str], ...], Blocked | None]:
    """What stands in the way of promoting the best of those that answer: others may have more data, or be the primary.

    Whoever followed the primary until that was gone has what it had; then the others only have a while to come back.
    So has the log of the former primary itself. A server that came back from its disk otherwise, and has followed
    nobody since, has data of unknown age: where others may come back with theirs, they are waited for, and only a
    person can say that they don't.
    """
    alive = sorted(k.seen_alive)
    refused = [member for member in alive if _needs_a_person(k, member)]
    if refused:
        told = "; ".join(_detail(k, member) for member in refused)
        return (), Blocked(f"there is no primary among those that answer, and one that doesn't may be it: {told}", "")
    if alive:
        why = "it answers; others reach it, so it may be the primary"
        return tuple((member, f"{why} ({_detail(k, member)})") for member in alive), None
    if heir.linked and k.upstream_of.get(heir.member, heir.member) is None:
        return (), Blocked(
            f"there is no primary, and {heir.member}, which has the most data, replicates {heir.upstream}, which is "
            "nobody of this instance",
            f"Make it the primary (REPLICAOF NO ONE on {heir.endpoint.pod}) when it is to leave that one.",
            (heir.member,),
        )
    sure = heir.was_linked or k.has_own_log(heir) or k.spec.accept_data_loss or not k.spec.formed
    awaited = k.awaited if sure else sorted({*k.awaited, *k.may_hold_data})
    why = "it answers, or stays away" if sure else "it answers: its data may be newer than what is there"
    return tuple((member, f"{why} ({_detail(k, member)})") for member in awaited), None


def _needs_a_person(k: Knowledge, member: Member) -> bool:
    outcome = k.view.missing[member]
    return isinstance(outcome, Unreachable) and outcome.why in NEEDS_A_PERSON


def _detail(k: Knowledge, member: Member) -> str:
    outcome = k.view.missing[member]
    return "it has no running Pod" if isinstance(outcome, Absent) else outcome.detail


# --- where nobody has data --------------------------------------------------------------------------------------------


def _form(k: Knowledge) -> Choice:
    """Nobody who answers has data: who is to begin, as soon as it is sure that nobody else has any (report F4)."""
    if not k.nodes:
        return Choice()
    spec = k.spec
    loading = [m for m, o in k.view.missing.items() if isinstance(o, Unreachable) and o.why is Why.LOADING]
    bound = {*k.awaited, *k.seen_alive, *loading}
    if spec.formed and not spec.accept_data_loss:
        bound |= set(k.may_hold_data)
    waits = tuple((member, f"it answers: it may hold data ({_detail(k, member)})") for member in sorted(bound))
    if not waits and spec.formed and spec.persistent and spec.held_keys and not spec.accept_data_loss:
        return Choice(
            problem=Blocked(
                "the instance has been Ready before, and every disk came back empty: all its data is gone",
                "Bring its volumes back, or set `allowDataLoss: true` for the instance: then it begins anew, empty.",
            )
        )
    first = max(k.nodes.values(), key=lambda node: _first(k, node))
    if first in k.claimants and not waits:
        return Choice(primary=first)
    return Choice(heir=first, outdone=() if waits else tuple(k.claimants), waits=waits)


def _first(k: Knowledge, node: ServerView) -> tuple[int | bool, ...]:
    """Who begins: a run that was interrupted is gone on with, but for a person's wish."""
    return (
        node.member in k.spec.members,
        k.followers(node.member) > 0,
        node.member.ordinal == k.spec.primary,
        node in k.claimants,
        node.member == k.incumbent,
        -node.member.ordinal,
    )
