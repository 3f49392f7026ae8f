"""Move the primary's role to the member that is declared to have it: with the Sentinels, never past them."""

from __future__ import annotations

from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import Sentinel, majority
from valkeyctl.dataplane.sentinel.plan_priorities import Favour
from valkeyctl.dataplane.sentinel.selection import surely_selects
from valkeyctl.dataplane.sentinel.steps import Action, Coordinate, HandOver
from valkeyctl.dataplane.sentinel.view import ServerView

MOST_BEHIND = 16 * 1024 * 1024
"""Bytes of writes that an heir may still have to get: a fraction of a second's worth, on any network."""


def hand_over(k: Knowledge, found: Gathered[Action]) -> Favour | None:
    """Hand the role over, when the heir nearly has all and a Sentinel surely chooses it. Returns whom to prefer."""
    live, wanted = k.live, k.spec.wanted
    if live is None or wanted is None or live.member == wanted:
        return None
    favour = Favour(wanted, k.spec.priority(wanted))
    if favour.priority == 0:
        found.refuse(f"{wanted} is never to be primary (its priority is 0)", "Name another member, or raise it.")
        return None
    heir = k.servers.get(wanted)
    target = _named_by(k, live, heir) if heir is not None else None
    calm = [member for member in k.agreeing if k.watching[member].is_calm]
    ready = len(calm) >= majority(k.spec.sentinels) and not k.astray
    if heir is None or target is None or not _is_close(k, live, heir) or not ready or found.actions:
        found.symptom(wanted, f"it can take the primary's role over from {live.member}")
        # Priorities that are set already stay so while something small is put right first.
        return favour if ready and found.actions else None
    for member in sorted(calm, key=lambda m: not k.declared[m].coordinates):
        if can_lead(k, member, heir):
            found.do(_step(k, member, live, heir, target))
            return favour
    found.symptom(wanted, "the Sentinels know that it is to be chosen (they ask the servers every 10 s)")
    return favour


def can_lead(k: Knowledge, member: Sentinel, heir: ServerView) -> bool:
    """Whether a handover that this Sentinel leads goes through, and to nobody else."""
    told, known = k.declared[member], k.replica_of(k.declared[member], heir.member)
    return (
        known is not None
        and k.watching[member].config_epoch == k.newest_epoch
        and told.reaches_quorum
        and _can_be_elected(k, member)
        and not told.in_tilt
        and surely_selects(told, known)
    )


def _can_be_elected(k: Knowledge, member: Sentinel) -> bool:
    """Whether enough can be asked for their votes: a Sentinel asks once, and only those that it is connected to."""
    others = k.declared[member].others
    reached = 1 + sum(1 for other in others if other.linked and not other.down)
    return reached >= max(k.watching[member].quorum, majority(len(others) + 1))


def _is_close(k: Knowledge, live: ServerView, heir: ServerView) -> bool:
    """Whether the heir follows so closely that writes needn't be held back for long until it has all."""
    return k.is_in_sync(heir) and live.offset - heir.offset <= MOST_BEHIND


def _step(k: Knowledge, member: Sentinel, live: ServerView, heir: ServerView, target: Address) -> Action:
    if k.declared[member].coordinates:
        return Coordinate(member, k.spec.name, live.member, heir.member)
    return HandOver(live.member, k.spec.name, heir.member, target, member, k.spec.handover_timeout_ms)


def _named_by(k: Knowledge, live: ServerView, heir: ServerView) -> Address | None:
    """How the primary names a replica of it: by what that one announces."""
    return next((address for address in live.followers if k.is_at(address, heir)), None)
