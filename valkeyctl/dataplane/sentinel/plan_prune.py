"""Forget who is gone: Sentinels that are leaving or were replaced, and replicas that no longer exist.

A Sentinel forgets by RESET alone, which makes it forget everybody, and undoes a failover that it leads. So it is done
at one Sentinel at a time, only while nothing is wrong anywhere; the next has its turn when that one knows all again.
"""

from __future__ import annotations

from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import Sentinel
from valkeyctl.dataplane.sentinel.steps import Action, Drop, Remove, Reset
from valkeyctl.dataplane.sentinel.view import KnownReplica, KnownSentinel, SentinelView

SILENT_MS = 7_000
"""A Sentinel says what it monitors every 2 s; who hasn't for so long doesn't monitor the name any more."""


def release_leaving(k: Knowledge, found: Gathered[Action]) -> None:
    """Have the Sentinels that are leaving stop monitoring, once the others can do without them."""
    for member in k.spec.leaving:
        told = k.view.sentinels.get(member)
        if told is None or told.monitored is None:
            continue
        hindrance = _hindrance(k)
        if member in k.misleading:
            found.do(Drop(member, k.spec.name))
        elif hindrance or found.actions:
            found.symptom(member, f"it isn't needed any more{f' ({hindrance})' if hindrance else ''}")
        else:
            found.do(Remove(member, k.spec.name))


def prune(k: Knowledge, found: Gathered[Action]) -> None:
    """Have one Sentinel forget those that are gone for good."""
    stale = {member: names for member in k.agreeing if (names := stale_at(k, k.declared[member]))}
    for member, names in stale.items():
        found.symptom(member, f"it forgets {', '.join(names)}")
    ready = {member: names for member, names in stale.items() if is_gone(k, k.declared[member])}
    if not ready or found.actions:
        return
    for member, names in ready.items():
        if not _hindrance(k, but=member):
            found.do(Reset(member, k.spec.name, names))
            return


def stale_at(k: Knowledge, told: SentinelView) -> tuple[str, ...]:
    """Whom a Sentinel remembers that isn't declared, and doesn't follow the primary."""
    sentinels = [f"Sentinel {other.address}" for other in _strange_sentinels(k, told)]
    return (*sentinels, *(f"replica {replica.address}" for replica in _strange_replicas(k, told)))


def is_gone(k: Knowledge, told: SentinelView) -> bool:
    """Whether somebody whom it remembers is surely gone: silent, or told to stop. Others would only be found again."""
    released = {
        other.sentinel_id
        for member, other in k.view.sentinels.items()
        if member in k.spec.leaving and other.monitored is None
    }
    return any(
        other.heard_ms > SILENT_MS or other.sentinel_id in released for other in _strange_sentinels(k, told)
    ) or any(replica.down for replica in _strange_replicas(k, told))


def _strange_sentinels(k: Knowledge, told: SentinelView) -> list[KnownSentinel]:
    if any(member not in k.declared and member.ordinal not in k.spec.ids for member in k.spec.declared):
        return []  # the one that doesn't answer may be any of those whose id isn't known
    ours = {other.sentinel_id for other in k.declared.values()} | set(k.spec.ids.values())
    return [other for other in told.others if other.sentinel_id not in ours]


def _strange_replicas(k: Knowledge, told: SentinelView) -> list[KnownReplica]:
    followers = k.live.followers if k.live else ()
    return [
        replica
        for replica in told.replicas
        if k.member_at(replica.address) is None and not any(f.is_same(replica.address) for f in followers)
    ]


def _hindrance(k: Knowledge, *, but: Sentinel | None = None) -> str:
    """Why this is no moment to make a Sentinel forget; "" when all is well. `but` is the one that is to forget."""
    silent = [*(m for m in k.spec.declared if m not in k.declared), *(m for m in k.spec.servers if m not in k.servers)]
    if silent:
        return f"{', '.join(map(str, silent))} must answer before"
    if len(k.agreeing) < k.spec.sentinels:
        return "all Sentinels must monitor the primary before"
    if any(not k.watching[m].is_calm or k.declared[m].in_tilt for m in k.agreeing):
        return "the primary must be up for all Sentinels before"
    # Where those who are gone are too many for a quorum, forgetting them is what brings it back.
    if not all(told.reaches_quorum or _strange_sentinels(k, told) for told in k.declared.values()):
        return "a quorum must be reachable before"
    if not all(k.is_in_sync(server) for server in k.servers.values() if server is not k.live):
        return "all replicas must be in sync before"
    learning = [m for m in k.agreeing if m != but and k.lacks(m)]
    return f"{', '.join(map(str, learning))} must know all others again before" if learning else ""
