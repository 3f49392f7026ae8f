"""What a roll does next: a pure function of what Kubernetes says of the Pods and what Valkey says of itself.

A roll brings Pods to their StatefulSet's newest template without taking away what serves: what doesn't run first, then
a shard's replicas, each in sync before the next, then its primary, which hands its role over first; one shard after the
other, or as many at a time as is declared. It is planned anew from every look, so it can be stopped anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Blocked, Done, Member, NodeView, Plan, Spec, View, plan
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan import Steps
from valkeyctl.dataplane.plan_handover import can_hand_over, owner_of
from valkeyctl.dataplane.plan_replicas import lag_bytes
from valkeyctl.dataplane.shards import Shard, decide_shards
from valkeyctl.lifecycle.downgrade import downgrades, line_of


@dataclass(frozen=True)
class PodState:
    """A member's Pod, as far as a roll goes by it. `runs`: its server's process runs, whether or not it answers."""

    member: Member
    exists: bool = True
    outdated: bool = False
    runs: bool = True
    terminating: bool = False


@dataclass(frozen=True)
class Terms:
    """How a roll is to go. `version`: the line that is declared, (9, 1); None where the image tells none."""

    parallel_shards: int = 1
    version: tuple[int, int] | None = None


@dataclass(frozen=True)
class Finished:
    """No Pod is of a former template."""


@dataclass(frozen=True)
class Replace:
    """Replace these Pods now, all of them at once.

    `idle`: they serve nothing, and no disruption budget has to agree. `loses`: their shards' data goes with them.
    """

    members: tuple[Member, ...]
    idle: bool = False
    loses: bool = False


@dataclass(frozen=True)
class MoveRoles:
    """Have these members take their primaries' roles over, before those are replaced. `primaries`: shard → ordinal."""

    primaries: Mapping[int, int]


@dataclass(frozen=True)
class Await:
    """Nothing may be replaced yet; `why`, for people."""

    why: str


@dataclass(frozen=True)
class Refuse:
    """Nothing more may be replaced without a person."""

    reason: str
    remedy: str


Next = Finished | Replace | MoveRoles | Await | Refuse


def plan_roll(spec: Spec, view: View, pods: Mapping[Member, PodState], terms: Terms) -> Next:
    """What the roll does next. Pure and deterministic; Finished at the goal.

    What is returned is safe in this very state alone: look again after it.
    """
    outdated = [member for member, pod in pods.items() if pod.outdated and pod.exists and not pod.terminating]
    idle = tuple(member for member in outdated if not pods[member].runs)
    if idle:
        # Whatever keeps them from starting, their own template can't be mended any more. They hold nothing that a
        # volume doesn't keep, so all go at once: that is what a corrected config is waiting for.
        return Replace(idle, idle=True)
    if not any(pod.outdated for pod in pods.values()):
        return Finished()
    k = Knowledge(replace(spec, primaries={}), view)
    shards = decide_shards(k)
    what = plan(k.spec, k.view)
    troubled = _troubled(k, what, pods)
    if troubled:
        hopeless = _replaceable(shards, k, pods, troubled, terms.parallel_shards)
        return Replace(hopeless) if hopeless else Await(_why(what, pods, troubled))
    if refusal := _refusal(k, shards, outdated, terms):
        return refusal
    return _next(k, shards, outdated, spec, terms)


def _troubled(k: Knowledge, what: Plan, pods: Mapping[Member, PodState]) -> frozenset[Member]:
    """The members that something is wrong with, in the eyes of Kubernetes or of Valkey; empty when all is right.

    Every member but those on their way out stands in a step of the data plane's plan when it isn't as it should be.
    """
    absent = {member for member, pod in pods.items() if not pod.exists or pod.terminating or not pod.runs}
    unknown = {member for member in k.spec.members if member not in pods}
    if isinstance(what, Done):
        return frozenset(absent | unknown)
    if isinstance(what, Steps) and what.blocked is None:
        told = {member for step in what.steps for member in _concerned(k, step)}
        return frozenset(absent | unknown | told)
    return frozenset(k.spec.members)


def _concerned(k: Knowledge, step: object) -> tuple[Member, ...]:
    """Whom a step is about: of two members that are at odds, the one that owns no slots."""
    found = [one for one in (getattr(step, "member", None), getattr(step, "to", None)) if isinstance(one, Member)]
    return tuple(one for one in found if one not in k.owned) or tuple(found)


def _replaceable(
    shards: Sequence[Shard], k: Knowledge, pods: Mapping[Member, PodState], troubled: frozenset[Member], at_a_time: int
) -> tuple[Member, ...]:
    """The troubled members, where they are outdated, own nothing, and their shards are served by others: of as many
    shards as may be replaced at a time, one each.

    So it is when a server runs and doesn't answer, or can't follow a primary of a newer version: waiting heals neither.
    But it may also be a moment in which a node is slow: then these are good copies. Empty where anything else is wrong
    too.
    """
    for member in troubled:
        pod = pods.get(member)
        if pod is None or not pod.outdated or not pod.exists or pod.terminating:
            return ()  # One that is leaving is among them, too: it has no place in the roll.
        owner = owner_of(k, shards[member.shard])
        if owner is None or owner.member in troubled or k.lost:
            return ()
    # As with the others: from the highest ordinal down.
    next_of = {member.shard: member for member in sorted(troubled)}
    return tuple(next_of[shard] for shard in sorted(next_of)[:at_a_time])


def _why(what: Plan, pods: Mapping[Member, PodState], troubled: frozenset[Member]) -> str:
    if isinstance(what, Blocked):
        return what.reason
    if isinstance(what, Steps):
        return "; ".join([*what.describe()[:3], *([what.blocked.reason] if what.blocked else [])])
    gone = [str(member) for member in sorted(troubled) if member not in pods or not pods[member].exists]
    return f"Pods are missing: {', '.join(gone)}" if gone else "Pods are being replaced"


def _refusal(k: Knowledge, shards: Sequence[Shard], outdated: Sequence[Member], terms: Terms) -> Refuse | None:
    shards_rolled = {member.shard for member in outdated}
    newer = [
        node
        for shard in shards
        if shard.index in shards_rolled
        for node in downgrades(k.spec.persistent, shard.nodes, terms.version)
    ]
    if newer:
        declared = ".".join(map(str, terms.version or ()))
        return Refuse(
            f"{', '.join(str(node.member) for node in newer[:4])} run Valkey {newer[0].version} and {declared} is "
            f"declared: a server of an older line can't read the data of a newer one",
            f'Declare `version: "{line_of(newer[0].version)}"` again; Pods that restart before that won\'t come up.',
        )
    return None


def _next(k: Knowledge, shards: Sequence[Shard], outdated: Sequence[Member], spec: Spec, terms: Terms) -> Next:
    """The next step where all is well: of the shards that are due, all replicas first, then the primaries' roles."""
    of_shard = {shard.index: [m for m in outdated if m.shard == shard.index] for shard in shards}
    due = sorted(
        (index for index, mine in of_shard.items() if mine), key=lambda i: (not is_begun(spec, of_shard[i]), i)
    )
    if spec.replicas == 0:
        return _alone(k, of_shard[due[0]][0])
    replicas: list[Member] = []
    roles: dict[int, int] = {}
    for index in due[: terms.parallel_shards]:
        primary = owner_of(k, shards[index])
        if primary is None:
            continue
        behind = [member for member in of_shard[index] if member != primary.member]
        if behind:
            # As a StatefulSet does it: from the highest ordinal down.
            replicas.append(max(behind))
            continue
        heir = _heir(k, shards, shards[index], primary, spec.primaries.get(index))
        if heir is not None:
            roles[index] = heir.member.ordinal
    if replicas:
        return Replace(tuple(replicas))
    return MoveRoles(roles) if roles else Await("no replica can take its primary's role over")


def is_begun(spec: Spec, outdated: Sequence[Member]) -> bool:
    """Whether some of a shard's Pods are new already: then it comes first."""
    return len(outdated) < spec.replicas + 1


def _heir(
    k: Knowledge, shards: Sequence[Shard], shard: Shard, primary: NodeView, wanted: int | None
) -> NodeView | None:
    """Who takes over: whoever is declared to be primary in the end, else the best copy."""

    def rank(node: NodeView) -> tuple[bool, int, int]:
        return node.member.ordinal != wanted, lag_bytes(node, primary), node.member.ordinal

    able = [node for node in shard.nodes if node is not primary and can_hand_over(k, shards, primary, node)]
    return min(able, key=rank, default=None)


def _alone(k: Knowledge, member: Member) -> Next:
    """The only member of its shard: nothing serves its slots while it starts again."""
    if k.spec.persistent:
        return Replace((member,))
    if k.loss_accepted:
        return Replace((member,), loses=True)
    return Refuse(
        f"the Pods are to be replaced, and {member} has the only copy of its shard's data, without a replica and "
        "without a volume: it would be gone",
        "Declare `replicas: 1` first, which takes a copy, or set `allowDataLoss: true` for this `pulumi up`.",
    )


def at_risk(spec: Spec, view: View, pods: Mapping[Member, PodState]) -> str:
    """Where a Pod of the newest template doesn't come up: which others would not either, should they restart now.

    "" where there are none. Those that are the only copy of a shard that answers come first.
    """
    new_ones_fail = any(pod.exists and not pod.outdated and not pod.runs for pod in pods.values())
    former = [member for member, pod in pods.items() if pod.outdated and pod.runs and not pod.terminating]
    if not new_ones_fail or not former:
        return ""
    k = Knowledge(spec, view)
    owners = {member for shard in decide_shards(k) if (owner := owner_of(k, shard)) for member in (owner.member,)}
    alone = {m for m in former if not any(other in view.nodes for other in spec.shard_members(m.shard) if other != m)}
    former.sort(key=lambda member: (member not in alone, member not in owners, member))
    named = [
        f"{member}{' (the only copy of its shard that answers)' if member in alone else ''}"
        f"{' (primary)' if member in owners and member not in alone else ''}"
        for member in former
    ]
    more = f" and {len(named) - 8} more" if len(named) > 8 else ""
    return (
        "These still run the former template, and won't come up again if they restart before this is mended: "
        f"{', '.join(named[:8])}{more}"
    )
