"""Who a shard's primary is, or is to be: found by asking, never by ordinal, which only breaks ties (report C7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from valkeyctl.dataplane.ghosts import Ghost, Kind
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.rounds import Blocked
from valkeyctl.dataplane.view import NodeView, Role


@dataclass(frozen=True)
class Shard:
    """One shard as it stands.

    `nodes` are its members that answered. `primary` is the one that owns slots, or the one that is to get them; None
    while that can't be said: then `waits_for` tells what decides it, or `problem` why nothing will. `heirs` are
    replicas with a copy of a primary that is gone, and `without_vote` says that one of them is to take over without an
    election, as a person declared for this case. `given_up` are the ids of lost owners that nobody can take over
    from and whose slots may go to others.
    """

    index: int
    nodes: tuple[NodeView, ...]
    primary: NodeView | None = None
    waits_for: str = ""
    problem: Blocked | None = None
    heirs: tuple[NodeView, ...] = ()
    without_vote: bool = False
    given_up: frozenset[str] = frozenset()


def has_copy(node: NodeView) -> bool:
    """Whether a replica has, or may have, data of its primary: it has been in sync since it started, or holds keys."""
    return node.keys > 0 or (node.link is not None and node.link.was_up)


def decide_shards(k: Knowledge) -> tuple[Shard, ...]:
    """Every declared shard as it stands, in order, and after them those that are leaving and not empty yet."""
    return tuple(_decide(k, shard) for shard in (*range(k.spec.shards), *k.draining))


def _decide(k: Knowledge, index: int) -> Shard:
    nodes = tuple(k.nodes[m] for m in k.spec.shard_members(index) if m in k.nodes)
    owners = [node for node in nodes if node.member in k.owned]
    lost = [k.ghost_of_id[node_id] for node_id, shard in k.shard_of_ghost.items() if shard == index]
    ways = {ghost.node_id: _stands_in_the_way(k, index, nodes, ghost) for ghost in lost}
    given_up = frozenset(node_id for node_id, undecided in ways.items() if undecided is None)
    undecided = next((undecided for undecided in ways.values() if undecided is not None), None)
    if owners:
        primary = max(owners, key=lambda n: (n.keys, len(k.owned[n.member]), -n.member.ordinal))
        return replace(undecided or Shard(index, nodes), primary=primary, given_up=given_up)
    if undecided is not None:
        return undecided
    followers = _followers(k)
    candidates = [node for node in nodes if node.role is Role.PRIMARY]
    primary = max(candidates, key=lambda n: (n.keys, followers.get(n.node_id, 0), -n.member.ordinal), default=None)
    return Shard(index, nodes, primary, given_up=given_up)


def _stands_in_the_way(k: Knowledge, index: int, nodes: tuple[NodeView, ...], ghost: Ghost) -> Shard | None:
    """Why the slots of a lost owner can't be given to another node now; None when they can."""
    if ghost.kind is Kind.UNDECLARED:
        return Shard(index, nodes, problem=_on_undeclared(k, ghost))
    if ghost.kind is Kind.AWAY and ghost.seen_alive:
        return Shard(index, nodes, waits_for=f"{ghost} answers; the others reach it")
    heirs = tuple(n for n in k.nodes.values() if n.primary_id == ghost.node_id and has_copy(n))
    if heirs:
        return _with_heirs(k, index, nodes, ghost, heirs)
    waits_for = _may_still_come(k, ghost)
    if waits_for:
        return Shard(index, nodes, waits_for=waits_for)
    return None if k.loss_accepted else Shard(index, nodes, problem=_data_gone(k, ghost))


def _with_heirs(
    k: Knowledge, index: int, nodes: tuple[NodeView, ...], ghost: Ghost, heirs: tuple[NodeView, ...]
) -> Shard:
    """A shard whose owner is lost, and of whose data others have a copy."""
    names = " or ".join(str(n.member) for n in heirs)
    after_s = k.spec.takeover_after_s
    if k.takeover_due:
        # A better copy may be on a member that hasn't been silent for as long.
        young = [m for m in k.spec.shard_members(index) if m in k.view.missing and not k.silent_for(m, after_s or 0)]
        waits_for = f"{young[0]} comes back; it may have a better copy" if young else f"{names} takes over from {ghost}"
        return Shard(index, nodes, waits_for=waits_for, heirs=heirs, without_vote=not young)
    if not k.majority_possible:
        return Shard(index, nodes, problem=_no_majority(k, ghost), heirs=heirs)
    if k.majority_heard:
        return Shard(index, nodes, waits_for=f"{names} takes over from {ghost}", heirs=heirs)
    way_out = (
        "; to have it take over without one, declare `takeover: {afterSeconds: …}`"
        if after_s is None
        else f"; after {after_s:g} s it takes over without one, as declared"
    )
    waits_for = f"a majority of the primaries comes back and elects {names} in the place of {ghost}{way_out}"
    return Shard(index, nodes, waits_for=waits_for, heirs=heirs)


def _may_still_come(k: Knowledge, ghost: Ghost) -> str:
    """What may still bring back a lost owner, or a copy of it; "" when nothing can."""
    if ghost.kind is Kind.AWAY:
        return f"{ghost} comes back; no copy of its data answers"
    away = [g for g in k.ghosts if g.kind is Kind.AWAY and _follows(g, ghost)]
    if away:
        return f"{away[0]} comes back; it may have the only copy of the data of {ghost}"
    # It is remembered under the name of a member that has another id now. Until the others miss it too, it may live.
    return f"the others notice that {ghost} is gone" if ghost.seen_alive else ""


def _follows(replica: Ghost, primary: Ghost) -> bool:
    return any(peer.primary_id == primary.node_id for peer in replica.told_by.values())


def _followers(k: Knowledge) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node in k.nodes.values():
        if node.primary_id:
            counts[node.primary_id] = counts.get(node.primary_id, 0) + 1
    return counts


def _on_undeclared(k: Knowledge, ghost: Ghost) -> Blocked:
    return Blocked(
        f"slots {k.lost[ghost.node_id]} are on {ghost}, which isn't declared",
        "The next `pulumi up` moves them to the declared shards.",
    )


def _no_majority(k: Knowledge, ghost: Ghost) -> Blocked:
    gone = sum(1 for node_id in k.lost if k.ghost_of_id[node_id].kind is Kind.GONE)
    return Blocked(
        f"{gone} of {len(k.elector_ids)} primaries are gone for good, so that no majority can elect a new one "
        f"for {ghost}",
        "Bring the Pods back with their volumes, or declare `takeover: {afterSeconds: …}` for the instance: then the "
        "best copies take over, and what only the lost primaries had is lost.",
    )


def _data_gone(k: Knowledge, ghost: Ghost) -> Blocked:
    shard = k.shard_of_ghost[ghost.node_id]
    return Blocked(
        f"shard {shard}: {ghost} is gone and so is every copy of its data; slots {k.lost[ghost.node_id]} have no owner",
        "Bring a Pod of the shard back with its volume, or set `allowDataLoss: true` for the "
        "instance: then empty servers take over.",
        k.spec.shard_members(shard),
    )
