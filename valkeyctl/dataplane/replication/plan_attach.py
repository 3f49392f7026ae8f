"""Make every member that isn't the primary a replica of it, under its name, without losing what it may hold alone."""

from __future__ import annotations

from valkeyctl.dataplane.replication.knowledge import Knowledge, name_of
from valkeyctl.dataplane.replication.plan_primary import Choice
from valkeyctl.dataplane.replication.steps import Action, Announce, Demote, Promote, Replicate
from valkeyctl.dataplane.replication.view import ServerView
from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.view import Role


def announce_names(k: Knowledge, found: Gathered[Action]) -> None:
    """Have every server tell others its name: an address that others keep is wrong as soon as its Pod is replaced."""
    for node in k.nodes.values():
        if node.announces != node.endpoint.host and node.member in k.spec.members:
            found.do(Announce(node.member))


def make_a_primary(k: Knowledge, choice: Choice, found: Gathered[Action]) -> None:
    """Where there is no primary, promote the one that was chosen; but first those step back that are outdone.

    In that order there are never two that take writes, and the next round finds the same heir: it has all that they
    have.
    """
    for member, what in choice.waits:
        found.wait(member, what)
    if choice.problem is not None:
        found.problems.append(choice.problem)
    heir = choice.heir
    if heir is None or choice.problem is not None:
        return
    if k.spec.decided_elsewhere and k.spec.formed:
        found.wait(heir.member, "it is decided who the primary is")
        return
    others = [node for node in choice.outdone if node is not heir]
    for node in others:
        found.do(_step_back(k, node, heir))
    if not choice.waits and not others:
        found.do(Promote(heir.member))


def attach_replicas(k: Knowledge, primary: ServerView, found: Gathered[Action]) -> None:
    """Attach every other member to the primary, and wait until the declared ones are in sync."""
    kept = [node for node in k.nodes.values() if _would_lose_keys(k, node, primary)]
    for node in kept:
        found.refuse(
            f"{node.member} holds {node.keys} keys, and {primary.member}, the primary, is empty and never had them",
            f"Hand the role over to {node.member} by hand if its keys are wanted; if not, empty it "
            f"(REPLICAOF NO ONE and FLUSHALL on {node.endpoint.pod}).",
            node.member,
        )
    # Whoever they try to follow passes on what it gets.
    untouched = {node.member for node in kept} | {above for node in kept for above in k.above(node.member)}
    for node in k.nodes.values():
        if node is primary or node.member in untouched:
            continue
        if node.role is Role.PRIMARY:
            _take_in(k, node, primary, found)
        elif not k.follows_by_name(node, primary):
            # A leaving member that follows somebody who takes no writes harms nobody.
            if node.member in k.spec.members:
                found.do(Replicate(node.member, primary.member, name_of(primary)))
        elif node.member in k.spec.members and not k.in_sync(node, primary):
            found.wait(node.member, f"it is in sync with {primary.member}")


def _would_lose_keys(k: Knowledge, node: ServerView, primary: ServerView) -> bool:
    """Whether a replica that follows somebody else holds keys that its copy of an empty primary would delete.

    Not where the primary has had them, and they were deleted there.
    """
    if node.role is Role.PRIMARY or not node.keys or primary.keys or k.spec.accept_data_loss:
        return False
    related = node.placed and k.lineage.own_bytes(node.history, primary.history) is not None
    return not related and k.upstream_of[node.member] != primary.member


def _take_in(k: Knowledge, node: ServerView, primary: ServerView, found: Gathered[Action]) -> None:
    """A second primary becomes a replica (reports F3, F5).

    What it took by itself since the two parted is dropped: most often it is the former primary, come back with what it
    had not sent to anybody, or a replica on which keys expired, and as long as it isn't attached there are two
    servers that take writes, so that waiting for a person would lose more. But data that has nothing in common with
    the primary's isn't such a rest: only a person can say that it isn't wanted.
    """
    own_bytes = k.lineage.own_bytes(node.history, primary.history) if node.placed else None
    if node.keys and own_bytes is None and not k.spec.accept_data_loss:
        found.refuse(
            f"{node.member} is a second primary and holds {node.keys} keys that have nothing in common with those of "
            f"{primary.member}, the primary",
            f"See whether they are wanted; if not, empty it (FLUSHALL on {node.endpoint.pod}).",
            node.member,
        )
    else:
        found.do(_step_back(k, node, primary))


def _step_back(k: Knowledge, node: ServerView, primary: ServerView) -> Action:
    if not node.has_data:
        return Replicate(node.member, primary.member, name_of(primary))
    own_bytes = k.lineage.own_bytes(node.history, primary.history) if node.placed else None
    return Demote(node.member, primary.member, name_of(primary), own_bytes or 0)
