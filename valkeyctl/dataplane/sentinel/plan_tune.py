"""Parameters, quorum and what to sign in with, at the Sentinels that monitor the primary."""

from __future__ import annotations

from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import Sentinel, majority
from valkeyctl.dataplane.sentinel.steps import Action, SetAuth, SetParameters, SetQuorum


def tune(k: Knowledge, found: Gathered[Action]) -> None:
    """Set what differs, at all of them at once: none of it disturbs a Sentinel that watches."""
    for member, monitored in k.watching.items():
        lives = any(k.is_at(monitored.address, server) for server in k.servers.values())
        if lives and k.spec.authenticated and not monitored.is_reached:
            found.do(SetAuth(member, k.spec.name, k.spec.user))
    for member in k.agreeing:
        monitored = k.watching[member]
        if monitored.parameters != k.spec.parameters:
            found.do(SetParameters(member, k.spec.name, k.spec.parameters))
        if monitored.quorum != k.spec.quorum:
            if may_set_quorum(k, member):
                found.do(SetQuorum(member, k.spec.name, k.spec.quorum))
            else:
                found.symptom(member, f"its quorum can be {k.spec.quorum} instead of {monitored.quorum}")


def may_set_quorum(k: Knowledge, member: Sentinel) -> bool:
    """Whether the declared quorum suits the Sentinels that this one knows, whose number may be changing.

    It isn't raised before they are enough to reach it as surely as the old one, and not lowered below their majority
    until those that are too many are forgotten; unless the old one can't be reached at all any more.
    """
    voters, old, new = len(k.declared[member].others) + 1, k.watching[member].quorum, k.spec.quorum
    if new > old:
        return new <= majority(voters) or voters >= k.spec.sentinels
    return new >= majority(voters) or voters <= k.spec.sentinels or old > k.voters
