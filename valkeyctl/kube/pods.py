"""What Kubernetes says is wrong with an instance's Pods, in the words of its conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from valkeyctl.dataplane import Condition, Member, Status
from valkeyctl.kube.access import Object, path_of
from valkeyctl.kube.directory import Directory, server_runs
from valkeyctl.kube.errors import ApiForbidden
from valkeyctl.kube.labels import workload_name
from valkeyctl.kube.named_directory import NamedDirectory

#: Waiting reasons that no waiting heals: somebody has to correct the image, the Secret or the configuration.
STUCK_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "CrashLoopBackOff",
        "RunContainerError",
        "FailedCreate",
    }
)


@dataclass(frozen=True)
class PodFacts:
    """One member as Kubernetes sees it.

    `phase` is the Pod's, "Absent" where there is no Pod. `reason` is one word, "" when nothing is wrong; `message` one
    line. `outdated`: its template is older than its StatefulSet's. `started`: all its containers run; `server_runs`:
    the server's does. `uid` tells it from another Pod of the same name.
    """

    member: Member
    pod: str
    phase: str
    node: str = ""
    scheduled: bool = False
    started: bool = False
    ready: bool = False
    outdated: bool = False
    terminating: bool = False
    reason: str = ""
    message: str = ""
    restarts: int = 0
    uid: str = ""
    server_runs: bool = False

    @property
    def stuck(self) -> bool:
        """Whether waiting alone will not help."""
        return self.reason in STUCK_REASONS


def pod_facts(directory: Directory | NamedDirectory, members: Iterable[Member]) -> list[PodFacts]:
    """The facts of the given members, in their order. Errors: those of the API."""
    pods = {directory.member_of(pod): pod for pod in directory.pods()}
    workloads = {str(w["metadata"]["name"]): w for w in directory.workloads()}
    refused: dict[str, str] = {}
    facts: list[PodFacts] = []
    for member in members:
        name = workload_name(directory.instance, member.shard)
        pod = pods.get(member)
        if pod is not None:
            facts.append(facts_of(member, pod, workloads.get(name)))
            continue
        if name not in workloads:
            facts.append(_absent(directory, member, "NoStatefulSet", f"StatefulSet {name} does not exist"))
            continue
        if name not in refused:
            refused[name] = _creation_error(directory, name)
        facts.append(_absent(directory, member, "FailedCreate" if refused[name] else "", refused[name]))
    return facts


def facts_of(member: Member, pod: Object, workload: Object | None) -> PodFacts:
    """The facts that one Pod tells. Pure."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or []}
    containers = list(status.get("containerStatuses") or [])
    reason, message = _trouble(status, conditions, [*(status.get("initContainerStatuses") or []), *containers])
    return PodFacts(
        member=member,
        pod=str(metadata["name"]),
        phase=str(status.get("phase") or "Unknown"),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        scheduled=bool((pod.get("spec") or {}).get("nodeName")),
        started=bool(containers) and all("running" in (c.get("state") or {}) for c in containers),
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        outdated=_outdated(metadata, workload),
        terminating=bool(metadata.get("deletionTimestamp")),
        reason="Terminating" if metadata.get("deletionTimestamp") else reason,
        message=message,
        restarts=max((int(c.get("restartCount") or 0) for c in containers), default=0),
        uid=str(metadata.get("uid") or ""),
        server_runs=server_runs(status),
    )


def pod_conditions(facts: Sequence[PodFacts]) -> tuple[Condition, ...]:
    """PodsScheduled, PodsStarted and PodsOutdated. Pure; each names the Pods and what Kubernetes says of them."""
    unscheduled = [f for f in facts if not f.scheduled]
    unstarted = [f for f in facts if f.scheduled and not (f.started and not f.terminating)]
    outdated = [f.pod for f in facts if f.outdated]
    return (
        _condition("PodsScheduled", unscheduled, "PodUnschedulable"),
        _condition("PodsStarted", unstarted, "ContainersNotRunning"),
        Condition(
            "PodsOutdated",
            Status.TRUE if outdated else Status.FALSE,
            "RevisionBehind" if outdated else "AllCurrent",
            f"still run the former template: {', '.join(outdated)}" if outdated else "",
        ),
    )


def trouble(facts: Sequence[PodFacts]) -> list[str]:
    """One line for each Pod that something is wrong with."""
    return [f"{f.pod}: {f.reason}{f' ({f.message})' if f.message else ''}" for f in facts if f.reason]


def _condition(kind: str, failing: Sequence[PodFacts], fallback: str) -> Condition:
    if not failing:
        return Condition(kind, Status.TRUE, "AllPods")
    lines = trouble(failing) or [f.pod for f in failing]
    first = next((f.reason for f in failing if f.reason), fallback)
    return Condition(kind, Status.FALSE, first, "; ".join(lines[:6]) + ("; …" if len(lines) > 6 else ""))


def _absent(directory: Directory | NamedDirectory, member: Member, reason: str, message: str) -> PodFacts:
    return PodFacts(member, f"{directory.instance}-{member}", "Absent", reason=reason, message=message)


def _creation_error(directory: Directory | NamedDirectory, workload: str) -> str:
    """Why the StatefulSet's controller cannot create Pods: only its events tell (quota, Pod Security, a webhook).

    "" also for who may not read events, as agents.
    """
    path = path_of("v1", "events", directory.namespace)
    query = {"fieldSelector": f"involvedObject.kind=StatefulSet,involvedObject.name={workload},reason=FailedCreate"}
    try:
        events = sorted(directory.api.items(path, query), key=lambda e: str(e.get("lastTimestamp") or ""))
    except ApiForbidden:
        return ""
    return _line(events[-1].get("message")) if events else ""


def _outdated(metadata: Object, workload: Object | None) -> bool:
    revision = (metadata.get("labels") or {}).get("controller-revision-hash")
    status: Any = (workload or {}).get("status") or {}
    newest = status.get("updateRevision")
    return bool(revision and newest and revision != newest)


def _trouble(status: Object, conditions: dict[Any, Any], containers: Sequence[Object]) -> tuple[str, str]:
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        reason = str(scheduled.get("reason") or "Unschedulable")
        return "PodUnschedulable" if reason == "Unschedulable" else reason, _line(scheduled.get("message"))
    for container in containers:
        state = container.get("state") or {}
        last = (container.get("lastState") or {}).get("terminated")
        waiting = state.get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            message = _line(waiting.get("message"))
            return str(waiting["reason"]), f"{message}; {_ended(last)}" if last else message
        ended = state.get("terminated")
        if ended and int(ended.get("exitCode") or 0) != 0:
            return str(ended.get("reason") or "Error"), _ended(ended)
    if status.get("phase") == "Failed":
        return str(status.get("reason") or "Failed"), _line(status.get("message"))
    return "", ""


def _ended(terminated: Object) -> str:
    told = _line(terminated.get("message"))
    how = f"exited with {terminated.get('exitCode')} {terminated.get('reason', '')}".rstrip()
    return f"{how}: {told}" if told else how


def _line(text: object) -> str:
    return " ".join(str(text or "").split())[:300]
