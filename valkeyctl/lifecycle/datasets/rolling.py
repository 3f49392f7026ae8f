"""What the roll of one dataset does next: a pure function of what Kubernetes says of the Pods and the servers of
themselves.

As in a cluster's shard: what doesn't run first, then the replicas, each in sync before the next, then the role moves to
one of them, and the former primary goes last. It is planned anew from every look, so it can be stopped anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView, ServerView
from valkeyctl.dataplane.rounds import Blocked, Done, Plan, Round
from valkeyctl.lifecycle.downgrade import downgrades, line_of
from valkeyctl.lifecycle.roll_steps import Await, Finished, PodState, Refuse, Replace, absent_ones, idle_ones

IN_FLIGHT_BYTES = 1 << 16


@dataclass(frozen=True)
class GiveRole:
    """Have this member take the primary's role over, before the primary's Pod is replaced."""

    to: Member


Next = Finished | Replace | GiveRole | Await | Refuse


def plan_roll(
    spec: ReplicationSpec,
    view: ReplicationView,
    pods: Mapping[Member, PodState],
    version: tuple[int, int] | None = None,
) -> Next:
    """What the roll does next. Pure and deterministic; Finished at the goal.

    `spec.primary` only says whom the role is given to rather than to another: it is there in the end. `version`: the
    line that is declared, (9, 1); None where the image tells none. What is returned is safe in this very state alone:
    look again after it.
    """
    if idle := idle_ones(pods):
        return Replace(idle, idle=True)
    if not any(pod.outdated for pod in pods.values()):
        return Finished()
    k = Knowledge(replace(spec, primary=None), view)
    what, primary = plan(k.spec, view), decide_primary(k).primary
    troubled = _troubled(k, what, pods)
    if troubled:
        hopeless = _replaceable(pods, troubled, primary)
        return Replace((max(hopeless),)) if hopeless else Await(_why(what, pods, troubled))
    if refusal := _refusal(k, version):
        return refusal
    return _next(spec, k, primary, [member for member, pod in pods.items() if pod.outdated])


def _next(spec: ReplicationSpec, k: Knowledge, primary: ServerView | None, outdated: Sequence[Member]) -> Next:
    """The next step where all is well: the replicas first, then the role, then who had it."""
    if primary is None:
        return Await("there is no primary")
    behind = [member for member in outdated if member != primary.member]
    if behind:
        # As a StatefulSet does it: from the highest ordinal down.
        return Replace((max(behind),))
    if spec.replicas == 0:
        return _alone(spec, primary.member)
    heir = heir_of(k, primary, spec.primary)
    return GiveRole(heir) if heir is not None else Await(f"no replica can take the role of {primary.member} over")


def heir_of(k: Knowledge, primary: ServerView, wanted: int | None = None, *, among: int | None = None) -> Member | None:
    """Who takes over: whoever is to be the primary in the end, else the best copy; None where none is in sync.

    `among`: only of the first so many members.
    """

    def rank(node: ServerView) -> tuple[bool, int, int]:
        # What is in flight at the moment of the look says nothing of who is better.
        behind = max(0, primary.history.offset - node.history.offset) // IN_FLIGHT_BYTES
        return node.member.ordinal != wanted, behind, node.member.ordinal

    able = [
        node
        for member, node in k.nodes.items()
        if member in k.spec.members[:among] and node is not primary and k.in_sync(node, primary)
    ]
    best = min(able, key=rank, default=None)
    return best.member if best else None


def _troubled(k: Knowledge, what: Plan[Action], pods: Mapping[Member, PodState]) -> frozenset[Member]:
    """The members that something is wrong with, in the eyes of Kubernetes or of the servers; empty when all is right.

    Every member but those on their way out stands in a step of the data plane's plan when it isn't as it should be.
    """
    unknown = {member for member in k.spec.members if member not in pods}
    amiss = absent_ones(pods) | unknown
    if isinstance(what, Done):
        return frozenset(amiss)
    if isinstance(what, Round) and what.blocked is None:
        return frozenset(amiss | {step.member for step in (*what.actions, *what.waits)})
    return frozenset(k.spec.members)


def _replaceable(
    pods: Mapping[Member, PodState], troubled: frozenset[Member], primary: ServerView | None
) -> tuple[Member, ...]:
    """The troubled members, where all of them are outdated replicas and the primary is well.

    So it is when a server runs and doesn't answer, or can't follow a primary of a newer version: waiting heals neither.
    Empty where anything else is wrong too.
    """
    if primary is None or primary.member in troubled:
        return ()
    for member in troubled:
        pod = pods.get(member)
        if pod is None or not pod.outdated or not pod.exists or pod.terminating:
            return ()  # One that is leaving is among them, too: it has no place in the roll.
    return tuple(sorted(troubled))


def _why(what: Plan[Action], pods: Mapping[Member, PodState], troubled: frozenset[Member]) -> str:
    if isinstance(what, Blocked):
        return what.reason
    if isinstance(what, Round):
        return "; ".join([*what.describe()[:3], *([what.blocked.reason] if what.blocked else [])])
    gone = [str(member) for member in sorted(troubled) if member not in pods or not pods[member].exists]
    return f"Pods are missing: {', '.join(gone)}" if gone else "Pods are being replaced"


def _refusal(k: Knowledge, version: tuple[int, int] | None) -> Refuse | None:
    newer = downgrades(k.spec.persistent, k.nodes.values(), version)
    if not newer:
        return None
    declared = ".".join(map(str, version or ()))
    return Refuse(
        f"{', '.join(str(node.member) for node in newer[:4])} run Valkey {newer[0].version} and {declared} is "
        "declared: a server of an older line can't read the data of a newer one",
        f'Declare `version: "{line_of(newer[0].version)}"` again; Pods that restart before that won\'t come up.',
    )


def _alone(spec: ReplicationSpec, member: Member) -> Next:
    """The only member: nothing serves while it starts again."""
    if spec.persistent:
        return Replace((member,))
    if spec.accept_data_loss:
        return Replace((member,), loses=True)
    return Refuse(
        f"the Pod is to be replaced, and {member} has the only copy of the data, without a replica and without a "
        "volume: it would be gone",
        "Declare `replicas: 1` first, which takes a copy, or set `allowDataLoss: true` for this `pulumi up`.",
    )


def at_risk(spec: ReplicationSpec, view: ReplicationView, pods: Mapping[Member, PodState]) -> str:
    """Where a Pod of the newest template doesn't come up: which others would not either, should they restart now.

    "" where there are none.
    """
    new_ones_fail = any(pod.exists and not pod.outdated and not pod.runs for pod in pods.values())
    former = [member for member, pod in pods.items() if pod.outdated and pod.runs and not pod.terminating]
    if not new_ones_fail or not former:
        return ""
    primary = decide_primary(Knowledge(spec, view)).primary
    named = [f"{member}{' (primary)' if primary and primary.member == member else ''}" for member in former]
    return (
        "These still run the former template, and won't come up again if they restart before this is mended: "
        f"{', '.join(named)}"
    )


def forecast(spec: ReplicationSpec, view: ReplicationView, pods: Mapping[Member, PodState]) -> tuple[str, ...]:
    """What a roll will do, in its order, and where the role goes in the end; nothing where nothing is to be done."""
    lines: list[str] = []
    idle = sorted(member for member, pod in pods.items() if pod.outdated and not pod.runs)
    if idle:
        lines.append(f"replace at once the Pods that don't run: {', '.join(map(str, idle))}")
    k = Knowledge(replace(spec, primary=None), view)
    primary = decide_primary(k).primary
    outdated = sorted((m for m, pod in pods.items() if pod.outdated and pod.runs), reverse=True)
    now = primary.member if primary else None
    if outdated:
        lines.append(f"replace Pods: {', then '.join(_order(spec, k, outdated, primary))}")
    if spec.primary is not None and now is not None and Member(0, spec.primary) != now and now not in outdated:
        lines.append(f"primary: {now} → {Member(0, spec.primary)}")
    return tuple(lines)


def _order(spec: ReplicationSpec, k: Knowledge, outdated: Sequence[Member], primary: ServerView | None) -> list[str]:
    """The primary hands its role over, to whom it is declared for, and goes last; its own role it gets back."""
    now = primary.member if primary else None
    order = [str(member) for member in outdated if member != now]
    if primary is None or now not in outdated:
        return order
    if len(spec.members) == 1:
        lost = "" if spec.persistent else f", and the {primary.keys:,} keys that it alone has are lost"
        return [f"{now}{lost}"]
    heir = heir_of(k, primary, spec.primary)
    back = ", which takes the role back" if spec.primary == primary.member.ordinal else ""
    return [*order, f"the role moves from {now}{f' to {heir}' if heir else ''}", f"{now}{back}"]
