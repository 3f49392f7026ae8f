"""Planners for what is waited for before members go or stop: nothing is done by them, and nothing healed. Pure."""

from __future__ import annotations

from collections.abc import Collection

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView, ServerView
from valkeyctl.dataplane.rounds import Done, Plan, Round
from valkeyctl.dataplane.steps import Wait
from valkeyctl.lifecycle.datasets.rolling import heir_of


def serving_primary(spec: ReplicationSpec, view: ReplicationView) -> Member | None:
    """The primary that answers; None where that isn't settled."""
    found = decide_primary(Knowledge(spec, view)).primary
    return found.member if found else None


def plan_pause(
    spec: ReplicationSpec, view: ReplicationView, *, members: Collection[Member], exactly: bool = False
) -> Plan[Action]:
    """What is still to be waited for before `members` may stop: that the primary answers, and that all others are in
    sync with it. `exactly`: to the last byte, which comes about only while no writes do.
    """
    k = Knowledge(spec, view)
    primary = decide_primary(k).primary
    if primary is None:
        return Round((), (Wait(Member(0, 0), "there is one primary that answers"),))
    waits = tuple(
        Wait(member, f"it has all that {primary.member}, the primary, has")
        for member in sorted(members)
        if member != primary.member and not _has_all(k, k.nodes.get(member), primary, exactly=exactly)
    )
    return Round((), waits) if waits else Done()


def in_sync(spec: ReplicationSpec, view: ReplicationView) -> frozenset[Member]:
    """The primary, and all that have what it has, as far as a look can tell under load."""
    k = Knowledge(spec, view)
    primary = decide_primary(k).primary
    if primary is None:
        return frozenset()
    return frozenset(m for m, node in k.nodes.items() if node is primary or k.in_sync(node, primary))


def plan_retreat(spec: ReplicationSpec, view: ReplicationView, *, keep: int) -> Plan[Action]:
    """Done when the primary is among the first `keep` members, or one of those could take its role over now.

    `spec` has all members that there are, those that are to go among them. A primary that can't be told is waited for,
    since it may be one that goes.
    """
    k = Knowledge(spec, view)
    primary = decide_primary(k).primary
    if primary is None:
        return Round((), (Wait(Member(0, 0), "there is one primary that answers: it may be a member that goes"),))
    if primary.member.ordinal < keep or heir_of(k, primary, among=keep) is not None:
        return Done()
    stay = (member for member in spec.members if member.ordinal < keep)
    return Round((), tuple(Wait(member, f"it is in sync with {primary.member}, which goes") for member in stay))


def _has_all(k: Knowledge, node: ServerView | None, primary: ServerView, *, exactly: bool) -> bool:
    if node is None or not k.in_sync(node, primary):
        return False
    return not exactly or node.history.offset == primary.history.offset
