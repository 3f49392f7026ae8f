"""What an observation means: the phase and the conditions of an instance, for outputs, Events and status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.model import Member, Spec, pod_name
from valkeyctl.dataplane.plan import Blocked, Done, Plan, Steps, plan
from valkeyctl.dataplane.plan_introduce import agrees, knows
from valkeyctl.dataplane.plan_replicas import in_sync
from valkeyctl.dataplane.shards import Shard, decide_shards
from valkeyctl.dataplane.slots import Layout, union
from valkeyctl.dataplane.view import Absent, NodeView, Role, View


class Phase(StrEnum):
    """Where an instance stands, in one word."""

    INITIALIZING = "Initializing"
    REBALANCING = "Rebalancing"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    PAUSED = "Paused"
    UNREACHABLE = "Unreachable"


class Status(StrEnum):
    """The status of a condition, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Condition:
    """One aspect of the state. `reason` is one word in CamelCase, `message` a sentence for a person ("" when True)."""

    type: str
    status: Status
    reason: str
    message: str = ""


@dataclass(frozen=True)
class MemberReport:
    """One member: `state` is "primary", "replica" or why it isn't known; the rest is empty where it isn't known."""

    member: Member
    pod: str
    state: str
    node_id: str = ""
    slots: str = ""
    keys: int = 0
    in_sync: bool = False
    version: str = ""


@dataclass(frozen=True)
class Report:
    """What an observation means.

    `primaries` names each shard's primary ("s0" → Pod), shards without a live one left out. `layout` gives the slots
    that each shard's members own now. `server_version` is "" when nobody answered, and "8.1.8, 9.1.2" when they differ.
    """

    phase: Phase
    conditions: tuple[Condition, ...]
    primaries: Mapping[str, str]
    layout: Layout
    server_version: str
    members: tuple[MemberReport, ...]

    def condition(self, kind: str) -> Condition:
        """The condition of a type. Raises KeyError for an unknown one."""
        return {condition.type: condition for condition in self.conditions}[kind]


def report(spec: Spec, view: View) -> Report:
    """What the observation means. Pure; the phase is Ready exactly when `plan` says Done."""
    k = Knowledge(spec, view)
    shards = decide_shards(k)
    what = plan(spec, view)
    owners = {shard.index: shard.primary for shard in shards if shard.primary and shard.primary.member in k.owned}
    conditions = (
        _ready(what),
        _members_present(k),
        _members_known(k),
        _slots_covered(k, shards),
        _no_open_slots(k),
        _replicas_in_sync(k, shards),
        _serving(k),
    )
    return Report(
        phase=_phase(k, what),
        conditions=conditions,
        primaries={f"s{index}": primary.endpoint.pod for index, primary in owners.items()},
        layout=_layout(k),
        server_version=", ".join(sorted({node.version for node in view.nodes.values()})),
        members=tuple(_member(k, shards, member) for member in spec.members),
    )


def _layout(k: Knowledge) -> Layout:
    """What each shard owns; of those that are leaving, as long as they own something."""
    shards = max((k.spec.shards, *(member.shard + 1 for member in k.owned)))
    return tuple(union(v for m, v in k.owned.items() if m.shard == shard) for shard in range(shards))


def _phase(k: Knowledge, what: Plan) -> Phase:
    if not k.nodes:
        return Phase.UNREACHABLE
    if isinstance(what, Done):
        return Phase.READY
    covered = len(union(k.owned.values())) == len(union(k.spec.layout))
    serving = covered and all(node.state_ok for node in k.nodes.values())
    if serving and isinstance(what, Steps) and what.to_move:
        return Phase.REBALANCING
    if serving and (k.spec.formed or isinstance(what, Blocked)):
        return Phase.DEGRADED
    if isinstance(what, Blocked) or (k.spec.formed and not covered):
        return Phase.FAILED
    return Phase.DEGRADED if k.spec.formed else Phase.INITIALIZING


def _ready(what: Plan) -> Condition:
    if isinstance(what, Done):
        return Condition("Ready", Status.TRUE, "AsDeclared")
    if isinstance(what, Blocked):
        return Condition("Ready", Status.FALSE, "Blocked", f"{what.reason}. {what.remedy}".rstrip(". ") + ".")
    blocked = f"{what.blocked.reason}. {what.blocked.remedy}".rstrip(". ") + ". " if what.blocked else ""
    return Condition("Ready", Status.FALSE, "Converging", blocked + few(what.describe()))


def _members_present(k: Knowledge) -> Condition:
    missing = k.awaited
    if not missing:
        return Condition("MembersPresent", Status.TRUE, "AllAnswer")
    absent = [str(member) for member, outcome in missing.items() if isinstance(outcome, Absent)]
    silent = {member: outcome for member, outcome in missing.items() if not isinstance(outcome, Absent)}
    parts = [f"no running Pod: {', '.join(absent)}"] if absent else []
    parts += [outcome.detail for outcome in silent.values()]
    whys = {"".join(word.capitalize() for word in outcome.why.split()) for outcome in silent.values()}
    reason = "PodAbsent" if absent else whys.pop() if len(whys) == 1 else "NoAnswer"
    return Condition("MembersPresent", Status.FALSE, reason, few(parts))


def _members_known(k: Knowledge) -> Condition:
    nodes = list(k.nodes.values())
    strangers = [f"{a.member} doesn't know {b.member}" for a in nodes for b in nodes if a is not b and not knows(a, b)]
    gone = [
        f"{', '.join(map(str, sorted(g.told_by)))} {'remembers' if len(g.told_by) == 1 else 'remember'} {g}"
        for g in k.ghosts
    ]
    if strangers or gone:
        reason = "NotAllKnown" if strangers else "StaleEntries"
        return Condition("MembersKnown", Status.FALSE, reason, few([*strangers, *gone]))
    return _unless_missing(k, "MembersKnown", "AllKnown")


def _slots_covered(k: Knowledge, shards: Sequence[Shard]) -> Condition:
    owned = [union(v for m, v in k.owned.items() if m.shard == shard) for shard in range(k.spec.shards)]
    target = k.target[: k.spec.shards]
    lacking = {shard: wanted - owned[shard] for shard, wanted in enumerate(target) if wanted - owned[shard]}
    if lacking:
        nobody = union(lacking.values()) - union(k.owned.values())
        reason = "SlotsWithoutOwner" if nobody else "SlotsElsewhere"
        told = [f"shard {shard} lacks slots {slots}" for shard, slots in lacking.items()]
        status = Status.UNKNOWN if nobody and k.awaited else Status.FALSE
        return Condition("SlotsCovered", status, reason, few(told))
    primaries = [shard.primary for shard in shards if shard.primary is not None]
    differs = [
        f"{node.member} sees the slots of {primary.member} otherwise"
        for node in k.nodes.values()
        for primary in primaries
        if not agrees(k, node, primary)
    ]
    if differs:
        return Condition("SlotsCovered", Status.FALSE, "NotAgreed", few(differs))
    return Condition("SlotsCovered", Status.TRUE, "AsPlanned")


def _no_open_slots(k: Knowledge) -> Condition:
    open_slots = [
        f"{node.member} has slot {slot} open"
        for node in k.nodes.values()
        for slot in sorted({*node.migrating, *node.importing})
    ]
    if open_slots:
        return Condition("NoOpenSlots", Status.FALSE, "OpenSlots", few(open_slots))
    return _unless_missing(k, "NoOpenSlots", "AllStable")


def _replicas_in_sync(k: Knowledge, shards: Sequence[Shard]) -> Condition:
    behind = [
        f"{node.member} is not in sync with {shard.primary.member if shard.primary else 'a primary'}"
        for shard in shards
        for node in shard.nodes
        if node is not shard.primary and not (shard.primary and in_sync(node, shard.primary))
    ]
    if behind:
        return Condition("ReplicasInSync", Status.FALSE, "NotInSync", few(behind))
    return _unless_missing(k, "ReplicasInSync", "AllInSync")


def _serving(k: Knowledge) -> Condition:
    failing = [f"{node.member} calls the cluster's state failed" for node in k.nodes.values() if not node.state_ok]
    if failing:
        return Condition("Serving", Status.FALSE, "ClusterDown", few(failing))
    return _unless_missing(k, "Serving", "ClusterOk")


def _unless_missing(k: Knowledge, kind: str, reason: str) -> Condition:
    """True of all members; of those that didn't answer it isn't known."""
    if not k.awaited:
        return Condition(kind, Status.TRUE, reason)
    names = ", ".join(str(member) for member in k.awaited)
    return Condition(kind, Status.UNKNOWN, "MembersMissing", f"not known of {names}")


def _member(k: Knowledge, shards: Sequence[Shard], member: Member) -> MemberReport:
    outcome = k.view.outcomes[member]
    if isinstance(outcome, Absent):
        return MemberReport(member, pod_name(k.spec.instance, member), "absent")
    if not isinstance(outcome, NodeView):
        return MemberReport(member, outcome.endpoint.pod, outcome.why.value, node_id=outcome.node_id)
    primary = shards[member.shard].primary
    return MemberReport(
        member,
        outcome.endpoint.pod,
        outcome.role.value,
        node_id=outcome.node_id,
        slots=str(k.owned.get(member, "")),
        keys=outcome.keys,
        in_sync=outcome.role is Role.PRIMARY or (primary is not None and in_sync(outcome, primary)),
        version=outcome.version,
    )


def few(texts: Iterable[str]) -> str:
    """The first few, and how many more there are: a status is read by people, and kept small."""
    told = list(texts)
    more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
    return "; ".join(told[:5]) + more
