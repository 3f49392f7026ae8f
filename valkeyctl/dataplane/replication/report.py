"""What an observation of one dataset means: its phase and conditions, for outputs, Events and status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from valkeyctl.dataplane.model import Member, pod_name
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView, ServerView
from valkeyctl.dataplane.report import Condition, MemberReport, Phase, Status
from valkeyctl.dataplane.rounds import Blocked, Done, Plan
from valkeyctl.dataplane.view import Absent, Role


@dataclass(frozen=True)
class ReplicationReport:
    """What an observation means.

    `primary` names the primary's Pod, "" where none answers or where it can't be told which of several it is.
    `server_version` is "" when nobody answered, and "8.1.8, 9.1.2" when they differ.
    """

    phase: Phase
    conditions: tuple[Condition, ...]
    primary: str
    server_version: str
    members: tuple[MemberReport, ...]

    def condition(self, kind: str) -> Condition:
        """The condition of a type. Raises KeyError for an unknown one."""
        return {condition.type: condition for condition in self.conditions}[kind]


def report(spec: ReplicationSpec, view: ReplicationView) -> ReplicationReport:
    """What the observation means. Pure; the phase is Ready exactly when `plan` says Done.

    That is: every declared member answers, one of them is the primary, and each other one follows it under its name,
    with its link up and in sync.
    """
    k = Knowledge(spec, view)
    what = plan(spec, view)
    primary = decide_primary(k).primary
    return ReplicationReport(
        phase=_phase(k, what, primary),
        conditions=(_ready(what), _members_present(k), _one_primary(k, primary), _replicas_in_sync(k, primary)),
        primary=primary.endpoint.pod if primary else "",
        server_version=", ".join(sorted({node.version for node in view.nodes.values()})),
        members=tuple(_member(k, member, primary) for member in spec.members),
    )


def _phase(k: Knowledge, what: Plan[Action], primary: ServerView | None) -> Phase:
    if not k.nodes:
        return Phase.UNREACHABLE
    if isinstance(what, Done):
        return Phase.READY
    blocked = isinstance(what, Blocked)
    if primary is not None and (k.spec.formed or blocked):
        return Phase.DEGRADED
    return Phase.FAILED if k.spec.formed or blocked else Phase.INITIALIZING


def _ready(what: Plan[Action]) -> Condition:
    if isinstance(what, Done):
        return Condition("Ready", Status.TRUE, "AsDeclared")
    if isinstance(what, Blocked):
        return Condition("Ready", Status.FALSE, "Blocked", _sentence(what))
    blocked = f"{_sentence(what.blocked)} " if what.blocked else ""
    return Condition("Ready", Status.FALSE, "Converging", blocked + _few(what.describe()))


def _sentence(blocked: Blocked) -> str:
    return f"{blocked.reason}. {blocked.remedy}".rstrip(". ") + "."


def _members_present(k: Knowledge) -> Condition:
    missing = {member: outcome for member, outcome in k.view.missing.items() if member in k.spec.members}
    if not missing:
        return Condition("MembersPresent", Status.TRUE, "AllAnswer")
    absent = [str(member) for member, outcome in missing.items() if isinstance(outcome, Absent)]
    silent = [outcome for outcome in missing.values() if not isinstance(outcome, Absent)]
    parts = [f"no running Pod: {', '.join(absent)}"] if absent else []
    parts += [outcome.detail for outcome in silent]
    whys = {"".join(word.capitalize() for word in outcome.why.split()) for outcome in silent}
    reason = "PodAbsent" if absent else whys.pop() if len(whys) == 1 else "NoAnswer"
    return Condition("MembersPresent", Status.FALSE, reason, _few(parts))


def _one_primary(k: Knowledge, primary: ServerView | None) -> Condition:
    names = [str(node.member) for node in k.claimants]
    if len(names) > 1:
        stays = f"; {primary.member} stays" if primary else ""
        return Condition("OnePrimary", Status.FALSE, "SeveralPrimaries", f"{', '.join(names)} are primaries{stays}")
    if primary is None:
        status = Status.UNKNOWN if k.view.missing else Status.FALSE
        told = f"{names[0]} is a primary without the data" if names else "no member that answers is the primary"
        return Condition("OnePrimary", status, "NoPrimary", told)
    if primary.member not in k.spec.members:
        return Condition("OnePrimary", Status.FALSE, "PrimaryLeaves", f"{primary.member} isn't declared any more")
    return Condition("OnePrimary", Status.TRUE, "AsDecided")


def _replicas_in_sync(k: Knowledge, primary: ServerView | None) -> Condition:
    behind = [
        f"{member} is not in sync with {primary.member if primary else 'a primary'}"
        for member, node in k.nodes.items()
        if node is not primary and member in k.spec.members and not (primary and k.in_sync(node, primary))
    ]
    if behind:
        return Condition("ReplicasInSync", Status.FALSE, "NotInSync", _few(behind))
    missing = [str(member) for member in k.view.missing if member in k.spec.members]
    if missing:
        told = f"not known of {', '.join(missing)}"
        return Condition("ReplicasInSync", Status.UNKNOWN, "MembersMissing", told)
    return Condition("ReplicasInSync", Status.TRUE, "AllInSync")


def _member(k: Knowledge, member: Member, primary: ServerView | None) -> MemberReport:
    outcome = k.view.outcomes[member]
    if isinstance(outcome, Absent):
        return MemberReport(member, pod_name(k.spec.instance, member), "absent")
    if not isinstance(outcome, ServerView):
        return MemberReport(member, outcome.endpoint.pod, outcome.why.value)
    in_sync = outcome is primary or (primary is not None and k.in_sync(outcome, primary))
    return MemberReport(
        member,
        outcome.endpoint.pod,
        Role(outcome.role).value,
        keys=outcome.keys,
        in_sync=in_sync,
        version=outcome.version,
    )


def _few(texts: Iterable[str]) -> str:
    """The first few, and how many more there are: a status is read by people, and kept small."""
    told = list(texts)
    more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
    return "; ".join(told[:5]) + more
