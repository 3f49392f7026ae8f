"""What a roll will do, told before it is done: which Pods in which order, and which roles move. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from valkeyctl.dataplane import Member, Spec, View
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan_handover import owner_of
from valkeyctl.dataplane.shards import Shard, decide_shards
from valkeyctl.dataplane.steps import HandOver
from valkeyctl.kube.pods import PodFacts
from valkeyctl.lifecycle.rolling import PodState, is_begun

_MOST_LINES = 8


def states(facts: Sequence[PodFacts], *, all_outdated: bool = False) -> Mapping[Member, PodState]:
    """What a roll goes by, of the facts of Pods. `all_outdated`: as it will be when the template has changed."""
    return {
        fact.member: PodState(
            fact.member,
            exists=fact.phase != "Absent",
            outdated=fact.outdated or (all_outdated and fact.phase != "Absent"),
            runs=fact.server_runs,
            terminating=fact.terminating,
        )
        for fact in facts
    }


def forecast(spec: Spec, view: View, pods: Mapping[Member, PodState]) -> tuple[str, ...]:
    """A line for each shard with Pods to replace, in the order in which a roll gets to them, and for each role that
    moves to where it is declared in the end.
    """
    k = Knowledge(spec, view)
    lines: list[str] = []
    idle = [str(m) for m, pod in pods.items() if pod.outdated and not pod.runs]
    if idle:
        lines.append(f"replace at once the Pods that don't run: {', '.join(idle)}")
    shards = decide_shards(k)
    # Those that don't run have been replaced by then.
    outdated_of = {
        shard.index: [m for m, pod in pods.items() if m.shard == shard.index and pod.outdated and pod.runs]
        for shard in shards
    }
    for shard in sorted(shards, key=lambda shard: not is_begun(spec, outdated_of[shard.index])):
        outdated = outdated_of[shard.index]
        if outdated:
            owner = owner_of(k, shard)
            lines.append(f"replace Pods of shard {shard.index}: {_order(spec, outdated, owner and owner.member)}")
    lines += _moves(spec, k, shards, pods)
    told = lines[:_MOST_LINES]
    return (*told, *([f"and {len(lines) - len(told)} more of the kind"] if len(lines) > len(told) else []))


def _moves(spec: Spec, k: Knowledge, shards: Sequence[Shard], pods: Mapping[Member, PodState]) -> Iterator[str]:
    """The roles that are elsewhere than declared, and that no roll moves."""
    for shard in shards:
        owner, ordinal = owner_of(k, shard), spec.primaries.get(shard.index)
        if owner is None or ordinal is None or owner.member.ordinal == ordinal:
            continue
        pod = pods.get(owner.member)
        if pod is None or not pod.outdated:
            yield HandOver(Member(shard.index, ordinal), owner.member).describe()


def _order(spec: Spec, outdated: Sequence[Member], primary: Member | None) -> str:
    replicas = sorted((member for member in outdated if member != primary), reverse=True)
    last = _last(spec, primary) if primary is not None and primary in outdated else []
    return ", then ".join([*map(str, replicas), *last])


def _last(spec: Spec, primary: Member) -> list[str]:
    """The primary hands its role over, to whom it is declared for, and goes last; its own role it gets back."""
    if len(spec.shard_members(primary.shard)) == 1:
        return [str(primary)]
    wanted = spec.primaries.get(primary.shard)
    if wanted == primary.ordinal:
        return [f"the role moves from {primary}", f"{primary}, which takes the role back"]
    to = f" to {Member(primary.shard, wanted)}" if wanted is not None else ""
    return [f"the role moves from {primary}{to}", str(primary)]
