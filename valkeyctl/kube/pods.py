"""What Kubernetes says of an instance's Pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from valkeyctl.dataplane import Member
from valkeyctl.kube.access import Object, path_of, terminating
from valkeyctl.kube.directory import Directory, server_runs
from valkeyctl.kube.errors import ApiForbidden
from valkeyctl.kube.labels import ZONE_LABEL, workload_name
from valkeyctl.kube.named_directory import NamedDirectory

NO_WORKLOAD = "NoStatefulSet"
#: Waiting reasons that no waiting heals: somebody has to correct the image, the Secret or the configuration.
STUCK_REASONS = frozenset(
    {
        NO_WORKLOAD,
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

#: No node says anything of the Pod any more: what its status tells is what was true before.
NODE_LOST = "NodeNotReady"
#: The StatefulSet asks for fewer Pods than are declared: somebody has scaled it.
SCALED_DOWN = "ScaledDown"
_LINE = 300


@dataclass(frozen=True)
class PodFacts:
    """One member as Kubernetes sees it.

    `phase` is the Pod's, "Absent" where there is no Pod. `reason` is one word, "" when nothing is wrong; `message` one
    line. `outdated`: its template is older than its StatefulSet's. `started`: all its containers run; `server_runs`:
    the server's does. `uid` tells it from another Pod of the same name. `zone`: its node's, where the Pod tells it.
    """

    member: Member
    pod: str
    phase: str
    node: str = ""
    zone: str = ""
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
    container: str = ""
    image: str = ""

    @property
    def stuck(self) -> bool:
        """Whether waiting alone will not help."""
        return self.reason in STUCK_REASONS


def pod_facts(directory: Directory | NamedDirectory, members: Iterable[Member]) -> list[PodFacts]:
    """The facts of the given members, in their order. Errors: those of the API."""
    pods = {directory.member_of(pod): pod for pod in directory.pods()}
    workloads = {str(w["metadata"]["name"]): w for w in directory.workloads()}
    refused: dict[str, str] = {}
    members = list(members)
    facts: list[PodFacts] = []
    for member in members:
        name = workload_name(directory.instance, member.shard)
        pod = pods.get(member)
        if pod is not None:
            facts.append(facts_of(member, pod, workloads.get(name)))
            continue
        if name not in workloads:
            facts.append(_absent(directory, member, NO_WORKLOAD, f"StatefulSet {name} does not exist"))
            continue
        if asked := _scaled_down(workloads[name], member, members):
            facts.append(_absent(directory, member, SCALED_DOWN, asked))
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
    found = _trouble(status, conditions, [*(status.get("initContainerStatuses") or []), *containers])
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    reason, message = found.reason, found.message
    if terminating(pod):
        reason = "Terminating"
    if _is_lost(pod, conditions):
        reason, message = NODE_LOST, f"node {node} doesn't answer"
    return PodFacts(
        member=member,
        pod=str(metadata["name"]),
        phase=str(status.get("phase") or "Unknown"),
        node=node,
        zone=str((metadata.get("labels") or {}).get(ZONE_LABEL) or ""),
        scheduled=bool(node),
        started=bool(containers) and all("running" in (c.get("state") or {}) for c in containers),
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        outdated=_outdated(metadata, workload),
        terminating=terminating(pod),
        reason=reason,
        message=message,
        restarts=max((int(c.get("restartCount") or 0) for c in containers), default=0),
        uid=str(metadata.get("uid") or ""),
        server_runs=server_runs(status),
        container=found.container,
        image=_image_of(pod, found.container),
    )


def on_lost_nodes(facts: Iterable[PodFacts], nodes: Iterable[Object]) -> list[PodFacts]:
    """The facts, with those nodes' word for it that aren't ready: only then is it known why. Pure."""
    lost = dict(_lost_nodes(nodes))
    return [
        replace(fact, reason=NODE_LOST, message=lost[fact.node], container="", image="") if fact.node in lost else fact
        for fact in facts
    ]


def _lost_nodes(nodes: Iterable[Object]) -> Iterable[tuple[str, str]]:
    for node in nodes:
        conditions = (node.get("status") or {}).get("conditions") or []
        ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Ready"), {})
        # A node that says nothing of it is no lost one.
        if ready and ready.get("status") != "True":
            name, since = str(node["metadata"]["name"]), ready.get("lastTransitionTime")
            told = _line(ready.get("message")).rstrip(".")
            yield (
                name,
                f"node {name} is NotReady" + (f" since {since}" if since else "") + (f": {told}" if told else ""),
            )


def _is_lost(pod: Object, conditions: Mapping[Any, Any]) -> bool:
    """Whether the Pod's node has fallen silent, as far as the Pod tells.

    Kubernetes then takes `Ready` from its Pods and leaves all else as it was. A kubelet never says that the containers
    are ready and the Pod isn't, but for readiness gates.
    """
    if (pod.get("spec") or {}).get("readinessGates"):
        return False
    ready, containers = (conditions.get(kind) or {} for kind in ("Ready", "ContainersReady"))
    return ready.get("status") == "False" and containers.get("status") == "True"


def _scaled_down(workload: Object, member: Member, declared: Sequence[Member]) -> str:
    asked = (workload.get("spec") or {}).get("replicas")
    if asked is None or member.ordinal < int(asked):
        return ""
    wanted = sum(one.shard == member.shard for one in declared)
    pods = "1 Pod" if int(asked) == 1 else f"{asked} Pods"
    return f"StatefulSet {workload['metadata']['name']} asks for {pods} instead of {wanted}"


def _image_of(pod: Object, container: str) -> str:
    spec = pod.get("spec") or {}
    every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return next((str(one.get("image") or "") for one in every if one.get("name") == container), "")


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


@dataclass(frozen=True)
class _Trouble:
    reason: str = ""
    message: str = ""
    container: str = ""


def _trouble(status: Object, conditions: Mapping[Any, Any], containers: Sequence[Object]) -> _Trouble:
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        reason = str(scheduled.get("reason") or "Unschedulable")
        return _Trouble("PodUnschedulable" if reason == "Unschedulable" else reason, _line(scheduled.get("message")))
    for container in containers:
        state, name = container.get("state") or {}, str(container.get("name") or "")
        last = (container.get("lastState") or {}).get("terminated")
        waiting = state.get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            message = _line(waiting.get("message"))
            return _Trouble(str(waiting["reason"]), f"{message}; {_ended(last)}" if last else message, name)
        ended = state.get("terminated")
        if ended and int(ended.get("exitCode") or 0) != 0:
            return _Trouble(str(ended.get("reason") or "Error"), _ended(ended), name)
    if status.get("phase") == "Failed":
        return _Trouble(str(status.get("reason") or "Failed"), _line(status.get("message")))
    return _Trouble()


def _ended(terminated: Object) -> str:
    told = _line(terminated.get("message"))
    how = f"exited with {terminated.get('exitCode')} {terminated.get('reason', '')}".rstrip()
    return f"{how}: {told}" if told else how


def _line(text: object) -> str:
    """One line, and where it is a long one, whole words of it."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= _LINE else line[:_LINE].rpartition(" ")[0].rstrip(",;: ") + " …"
