"""Move the primary's role, as planned: a handover between two that answer, never a takeover.

The server does it without losing an acknowledged write: the primary pauses writes until the replica has all of them.
"""

from __future__ import annotations

from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.steps import AbortHandOver, Action, HandOver
from valkeyctl.dataplane.replication.view import Handover, ServerView
from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.view import Absent, Role, Unreachable


def await_handover(k: Knowledge, found: Gathered[Action]) -> bool:
    """Whether a handover is under way: then there is nothing to do but to wait, or to give it up if it doesn't end.

    While it waits for its replica, a primary pauses writes, and one that was told no timeout does so for ever. Once it
    has stepped back, it can only take the role again where the other hasn't taken it: that one says so, or is gone.
    """
    for node in k.nodes.values():
        if node.handover is Handover.NONE:
            continue
        found.wait(node.member, "its handover ends")
        if not k.spec.decided_elsewhere and (node.handover is Handover.WAITING or _is_refused(k, node)):
            found.do(AbortHandOver(node.member))
    return any(node.handover is not Handover.NONE for node in k.nodes.values())


def _is_refused(k: Knowledge, node: ServerView) -> bool:
    heir = k.upstream_of.get(node.member)
    if heir is None:
        return False
    outcome = k.view.outcomes[heir]
    if isinstance(outcome, Unreachable):
        return outcome.for_s >= k.spec.patience_s and heir not in k.seen_alive
    return isinstance(outcome, Absent) or outcome.role is Role.REPLICA


def hand_over(k: Knowledge, primary: ServerView, found: Gathered[Action]) -> None:
    """Hand the primary's role to the member that is wished for, or away from one that is leaving.

    Last of all: only to a replica in sync, and while nothing else is to be done.
    """
    heir = _wanted(k, primary)
    if heir is None:
        return
    node = k.nodes.get(heir)
    listed = _as_listed(k, primary, heir)
    if found.actions or node is None or listed is None or not k.in_sync(node, primary) or k.spec.decided_elsewhere:
        found.symptom(heir, f"it can take the primary's role over from {primary.member}")
    else:
        found.do(HandOver(primary.member, heir, listed))


def _wanted(k: Knowledge, primary: ServerView) -> Member | None:
    """Who is to have the role in the place of the one that has it; None where that is right."""
    spec = k.spec
    if spec.primary is not None:
        wanted = Member(0, spec.primary)
        return None if wanted == primary.member else wanted
    if primary.member in spec.members:
        return None
    ready = [member for member in spec.members if member in k.nodes and k.in_sync(k.nodes[member], primary)]
    return ready[0] if ready else spec.members[0]


def _as_listed(k: Knowledge, primary: ServerView, heir: Member) -> Address | None:
    """What a primary calls one of its replicas: a handover is told in these words."""
    return next((each.at for each in primary.replicas if each.online and k.view.member_at(each.at) == heir), None)
