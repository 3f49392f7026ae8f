"""Have every Sentinel monitor the one living primary, without disturbing those that do.

Sentinels mend most of this themselves within seconds: whoever has the newest configuration tells it to the others every
2 s. What is told here is what doesn't come right by that, so most steps have to be called for a while.
"""

from __future__ import annotations

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import Sentinel
from valkeyctl.dataplane.sentinel.plan_priorities import Favour
from valkeyctl.dataplane.sentinel.selection import surely_selects
from valkeyctl.dataplane.sentinel.steps import Action, Drop, Follow, Monitor, MonitorAnew


def monitor_primary(k: Knowledge, found: Gathered[Action]) -> None:
    """Monitor where the name is unknown; and anew, one Sentinel at a time, where another server is monitored."""
    live = k.live
    if live is None:
        return
    if k.astray and not k.agreeing:
        if not can_follow(k):
            _drop(k, found, k.astray)
        return
    for member in k.unaware:
        found.do(_monitor(k, Monitor, member, live.member))
    if not k.astray:
        return
    infectious = tuple(m for m in k.astray if 0 < k.watching[m].config_epoch >= k.newest_epoch)
    if infectious:
        # They would turn others round, at the latest those that are told anew; what they monitor is no primary.
        _drop(k, found, infectious)
        return
    for member in k.astray:
        found.symptom(member, f"it monitors the primary instead of {k.watching[member].address}")
    if k.most_answer and all(k.watching[m].is_calm and not k.lacks(m, k.agreeing) for m in k.agreeing):
        found.do(_monitor(k, MonitorAnew, k.astray[0], live.member))


def follow_moved_role(k: Knowledge, found: Gathered[Action]) -> Favour | None:
    """All Sentinels monitor a server that follows the primary now: its role moved without them.

    They would fail over by themselves only after `down-after` and 20 s more, and perhaps to a third server; so one of
    them is asked to, as soon as it is sure that it promotes, in its own books, the one that is the primary already.
    Returns whom they are to prefer.
    """
    if k.live is None or not can_follow(k):
        return None
    to = k.live.member
    known = {member: k.replica_of(k.declared[member], to) for member in k.astray}
    for member, replica in known.items():
        if replica is not None and k.watching[member].is_calm and surely_selects(k.declared[member], replica):
            found.do(Follow(member, k.spec.name, to))
            break
    else:
        found.wait(k.astray[0], f"it would choose {to}, which is the primary")
    return Favour(to, max(replica.priority for replica in known.values() if replica is not None))


def can_follow(k: Knowledge) -> bool:
    """Whether the Sentinels that are astray can come to the primary by a failover of their own."""
    if k.live is None or k.agreeing or not k.most_answer or not k.astray:
        return False
    former = {k.member_at(k.watching[member].address) for member in k.astray}
    if len(former) > 1 or None in former:
        return False
    known = [k.replica_of(k.declared[member], k.live.member) for member in k.astray]
    return any(replica is not None and replica.priority != 0 for replica in known)


def _monitor(k: Knowledge, kind: type[Monitor], member: Sentinel, live: Member) -> Monitor:
    return kind(member, k.spec.name, k.spec.servers[live], k.spec.quorum, k.spec.parameters)


def _drop(k: Knowledge, found: Gathered[Action], members: tuple[Sentinel, ...]) -> None:
    if not k.most_answer:
        found.symptom(members[0], "most Sentinels answer")
        return
    for member in members:
        found.do(Drop(member, k.spec.name))
