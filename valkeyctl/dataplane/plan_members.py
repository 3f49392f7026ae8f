"""What has to be true beside the steps: members answer, and all serve."""

from __future__ import annotations

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import union
from valkeyctl.dataplane.view import Absent, Why

NEEDS_A_PERSON = frozenset({Why.AUTH_FAILED, Why.RIGHT_MISSING})


def await_members(k: Knowledge, found: Findings) -> None:
    """Wait for members that didn't answer. A refused login or a missing right goes away only by a person's hand."""
    for member, outcome in k.awaited.items():
        if isinstance(outcome, Absent):
            found.wait(member, "it has a running Pod")
        elif outcome.why in NEEDS_A_PERSON:
            found.refuse(outcome.detail, "", member)
        else:
            found.wait(member, f"it answers ({outcome.detail})")


def await_service(k: Knowledge, found: Findings) -> None:
    """Wait until every shard owns its slots and every member serves."""
    for shard, wanted in enumerate(k.target):
        lacking = wanted - union(slots for member, slots in k.owned.items() if member.shard == shard)
        if lacking:
            found.symptom(Member(shard, 0), f"shard {shard} owns slots {lacking}")
    for node in k.nodes.values():
        if not node.state_ok:
            found.symptom(node.member, "it calls the cluster's state ok")
