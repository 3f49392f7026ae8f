"""Who is there, who is who, and whether those who are there know each other."""

from __future__ import annotations

from collections import Counter

from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.steps import Action
from valkeyctl.dataplane.view import Absent, Role, Unreachable


def await_sentinels(k: Knowledge, found: Gathered[Action]) -> None:
    """Wait for declared Sentinels that don't answer."""
    for member in k.spec.declared:
        outcome = k.view.outcomes[member]
        if isinstance(outcome, Absent):
            found.wait(member, "its Pod runs")
        elif isinstance(outcome, Unreachable):
            found.wait(member, f"it answers ({outcome.why.value})")


def check_ids(k: Knowledge, found: Gathered[Action]) -> None:
    """Every Sentinel has the id that is declared for it, and none has another's: two with one id have one vote."""
    for member, told in k.declared.items():
        declared = k.spec.ids.get(member.ordinal)
        if declared is not None and told.sentinel_id != declared:
            found.refuse(
                f"{member} has the id {told.sentinel_id} where {declared} is declared",
                "Restart it with the declared `sentinel myid` in its file.",
                member,
            )
    counted = Counter(told.sentinel_id for told in k.declared.values())
    for member, told in k.declared.items():
        if counted[told.sentinel_id] > 1:
            found.refuse(
                f"{member} shares the id {told.sentinel_id} with another Sentinel",
                "Give each its own `sentinel myid`.",
                member,
            )


def refuse_unknown(k: Knowledge, found: Gathered[Action]) -> None:
    """It isn't sure who is the primary: a failover comes, or servers are yet to answer, or nobody can tell."""
    primaries = [server.member for server in k.servers.values() if server.role is Role.PRIMARY]
    missing = [member for member in k.spec.servers if member not in k.servers]
    for member, told in k.watching.items():
        if not told.is_calm:
            found.wait(member, f"it has a primary again ({told.address} is down for it)")
    for member in missing:
        found.wait(member, "it answers, as it may be the primary")
    if not primaries and not missing:
        found.refuse(
            "every server is a replica, so there is nothing to monitor",
            "Make the one with the newest data the primary.",
        )
    elif len(primaries) > 1:
        found.refuse(
            f"{', '.join(map(str, primaries))} all call themselves primary, and the Sentinels don't settle which of "
            "them it is",
            "Make all but the one with the right data replicas of it.",
        )
    elif primaries and not missing:
        found.refuse(
            f"{primaries[0]} calls itself primary, and most servers follow another",
            "Make it a replica, or have the others follow it.",
        )


def await_acquaintance(k: Knowledge, found: Gathered[Action]) -> None:
    """The last conditions: the Sentinels know each other and all replicas, and could fail over."""
    for member in k.agreeing:
        told, monitored = k.declared[member], k.watching[member]
        lacking = k.lacks(member)
        if lacking:
            found.symptom(member, f"it knows {', '.join(lacking)}")
        if monitored.config_epoch != k.newest_epoch:
            found.symptom(member, "it hears the newest configuration from the others")
        if not monitored.is_calm:
            found.symptom(member, "it reaches the primary")
        if told.in_tilt:
            found.symptom(member, "it acts again after its clock or its process stood still (TILT)")
        if not told.reaches_quorum:
            found.symptom(member, f"a quorum can be reached ({told.quorum_told or 'CKQUORUM refuses'})")
