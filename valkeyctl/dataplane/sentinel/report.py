"""What an observation of the Sentinels means: conditions for the status of an instance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.report import Condition, Status, few
from valkeyctl.dataplane.rounds import Done
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import SentinelSpec
from valkeyctl.dataplane.sentinel.plan import plan
from valkeyctl.dataplane.sentinel.plan_prune import stale_at
from valkeyctl.dataplane.sentinel.view import SentinelsView
from valkeyctl.dataplane.view import Absent, Unreachable

PRESENT, AGREE, QUORUM = "SentinelsPresent", "SentinelsAgree", "Quorum"


@dataclass(frozen=True)
class SentinelReport:
    """What an observation means. `ready` exactly when `plan` says Done; then all conditions are True.

    `primary` is the member that the Sentinels and the servers call the primary, None while that isn't sure.
    """

    ready: bool
    primary: Member | None
    conditions: tuple[Condition, ...]

    def condition(self, kind: str) -> Condition:
        """The condition of a type. Raises KeyError for an unknown one."""
        return {condition.type: condition for condition in self.conditions}[kind]


def report(spec: SentinelSpec, view: SentinelsView) -> SentinelReport:
    """What the observation means. Pure."""
    k = Knowledge(spec, view)
    return SentinelReport(
        ready=isinstance(plan(spec, view), Done),
        primary=k.live.member if k.live else None,
        conditions=(_present(k), _agree(k), _quorum(k)),
    )


def _present(k: Knowledge) -> Condition:
    outcomes = [k.view.outcomes[member] for member in k.spec.declared]
    absent = [str(outcome.member) for outcome in outcomes if isinstance(outcome, Absent)]
    silent = [outcome.detail for outcome in outcomes if isinstance(outcome, Unreachable)]
    if not absent and not silent:
        return Condition(PRESENT, Status.TRUE, "AllAnswer")
    parts = [f"no running Pod: {', '.join(absent)}"] if absent else []
    return Condition(PRESENT, Status.FALSE, "PodAbsent" if absent else "NoAnswer", few([*parts, *silent]))


def _agree(k: Knowledge) -> Condition:
    if k.failing_over:
        return Condition(AGREE, Status.FALSE, "FailingOver", f"led by {', '.join(map(str, k.failing_over))}")
    if k.live is None:
        return Condition(AGREE, Status.UNKNOWN, "NoPrimary", "it isn't sure which server is the primary")
    reasons: list[tuple[str, Iterable[str]]] = [
        ("OtherPrimary", [f"{m} monitors {k.watching[m].address}, not {k.live.member}" for m in k.astray]),
        ("NotMonitoring", [f"{m} doesn't monitor {k.spec.name}" for m in k.unaware]),
        ("OtherParameters", [f"{m} has other parameters" for m in k.agreeing if not _is_as_declared(k, m)]),
        ("NotAllKnown", [f"{m} doesn't know {', '.join(lacking)}" for m in k.agreeing if (lacking := k.lacks(m))]),
        ("StaleEntries", [f"{m} remembers {', '.join(s)}" for m in k.agreeing if (s := stale_at(k, k.declared[m]))]),
        ("PrimaryDown", [f"{m} doesn't reach {k.live.member}" for m in k.agreeing if not k.watching[m].is_calm]),
        ("StillLearning", [f"{m} has an older configuration" for m in k.agreeing if _is_behind(k, m)]),
    ]
    for reason, told in reasons:
        if texts := list(told):
            return Condition(AGREE, Status.FALSE, reason, few(texts))
    return _unless_missing(k, AGREE, "AllAgree")


def _quorum(k: Knowledge) -> Condition:
    failing = [
        f"{m}: {k.declared[m].quorum_told or 'no quorum'}" for m in k.watching if not k.declared[m].reaches_quorum
    ]
    if failing:
        return Condition(QUORUM, Status.FALSE, "NoQuorum", few(failing))
    if not k.watching:
        return Condition(QUORUM, Status.UNKNOWN, "NotMonitoring", f"no Sentinel that answers monitors {k.spec.name}")
    return Condition(QUORUM, Status.TRUE, "Reachable")


def _is_as_declared(k: Knowledge, member: Member) -> bool:
    monitored = next(told for watching, told in k.watching.items() if watching == member)
    return monitored.parameters == k.spec.parameters and monitored.quorum == k.spec.quorum


def _is_behind(k: Knowledge, member: Member) -> bool:
    return next(told for watching, told in k.watching.items() if watching == member).config_epoch != k.newest_epoch


def _unless_missing(k: Knowledge, kind: str, reason: str) -> Condition:
    """True of all declared Sentinels; of those that didn't answer it isn't known."""
    missing = [str(member) for member in k.spec.declared if member not in k.declared]
    if not missing:
        return Condition(kind, Status.TRUE, reason)
    return Condition(kind, Status.UNKNOWN, "SentinelsMissing", f"not known of {', '.join(missing)}")
