"""Everything that can be told of an instance with nothing but a kubeconfig: for `valkeyctl status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat

from valkeyctl.dataplane import (
    Condition,
    Done,
    Layout,
    Member,
    NodeView,
    Phase,
    Role,
    Spec,
    Status,
    Steps,
    View,
    observe,
    parse_layout,
    plan,
    planned_layout,
    report,
)
from valkeyctl.dataplane.errors import InvalidSlots, ValkeyctlError
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.errors import ApiForbidden, KubeError
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.labels import (
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    NAME_LABEL,
    OWNER_ANNOTATION,
    SHARD_LABEL,
    status_name,
)
from valkeyctl.kube.nodes import read_nodes, zones_of
from valkeyctl.kube.paused import paused_condition, running_pods
from valkeyctl.kube.pods import PodFacts, on_lost_nodes, pod_facts
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import Declared, InstanceStatus, parse_status
from valkeyctl.kube.trouble import advice, pod_conditions, trouble

CLUSTER = "cluster"
_AT_ONCE = 4
NO_POD = "wait until it has a running Pod"


@dataclass(frozen=True)
class MemberOverview:
    """One Pod and its server. `lag` is how many bytes of its primary's stream a replica lacks; None where unknown."""

    pod: str
    role: str
    slots: str = ""
    lag: int | None = None
    keys: int | None = None
    node: str = ""
    zone: str = ""
    version: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Overview:
    """One instance. `todo`: what an `up` would do first, or why it could do nothing. `busy`: who works on it now.
    `advice`: what a person can do about Pods that are amiss. `failure_of`: whose `failure` is, "" where unknown.

    `architecture`: cluster, failover or replica. `owner`: `<organization>/<project>/<stack>/<instance>`; "" where
    nobody says so.
    """

    namespace: str
    instance: str
    phase: str
    conditions: Sequence[Condition] = ()
    members: Sequence[MemberOverview] = ()
    advice: Sequence[str] = ()
    todo: Sequence[str] = ()
    failure: str = ""
    failure_of: str = ""
    busy: str = ""
    problem: str = ""
    server_version: str = ""
    architecture: str = CLUSTER
    owner: str = ""


@dataclass(frozen=True)
class Found:
    """An instance that was found: by its status ConfigMap, by its StatefulSets, or by both."""

    namespace: str
    instance: str
    status: InstanceStatus | None
    declared: Declared
    architecture: str = CLUSTER
    owner: str = ""

    def is_of(self, stack: str) -> bool:
        """Whether it is the stack's: `prod`, `<project>/prod` or `<organization>/<project>/prod`."""
        parts = self.owner.split("/")[:-1]
        wanted = stack.split("/")
        return parts[-len(wanted) :] == wanted


def find_instances(api: Api, namespace: str | None, instance: str | None) -> list[Found]:
    """The instances in a namespace; with None in all, or in the context's own where not all may be listed."""
    try:
        return _find(api, namespace, instance)
    except ApiForbidden:
        if namespace is not None:
            raise
        return _find(api, api.target.default_namespace, instance)


def overview(api: Api, found: Found, transport: str) -> Overview:
    """Looks at one instance. What cannot be seen is said in the result; only a broken kubeconfig raises."""
    seen = _cluster(api, found, transport) if found.architecture == CLUSTER else _as_told(api, found)
    return replace(seen, architecture=found.architecture, owner=found.owner)


def _as_told(api: Api, found: Found) -> Overview:
    """An instance of a kind that this version can't ask: what its status says, and that nobody looked."""
    status = found.status
    return Overview(
        found.namespace,
        found.instance,
        status.phase if status and status.phase else "Unknown",
        status.conditions if status else (),
        failure=status.failure if status else "",
        failure_of=status.failure_of if status else "",
        busy=_busy(api, found),
        problem=f"this valkeyctl can't look at the architecture {found.architecture}; use the version that made it",
        server_version=status.server_version if status else "",
    )


def _cluster(api: Api, found: Found, transport: str) -> Overview:
    declared, status = found.declared, found.status
    directory = Directory(api, found.namespace, found.instance, declared.port)
    busy = _busy(api, found)
    if declared.paused:
        return _resting(found, directory, busy)
    try:
        spec = Spec(
            found.instance,
            declared.shards,
            declared.replicas,
            _layout(declared),
            formed=bool(status and status.formed),
        )
        facts = pod_facts(directory, spec.members)
        credentials = read_credentials(
            api, found.namespace, declared.credentials, "status ConfigMap", instance=found.instance
        )
        view = observe(spec, directory(), dialer_for(transport, api, found.namespace, credentials))
    except ValkeyctlError as error:
        return Overview(
            found.namespace,
            found.instance,
            "Unreachable",
            status.conditions if status else (),
            failure=status.failure if status else "",
            failure_of=status.failure_of if status else "",
            busy=busy,
            problem=str(error),
        )
    nodes = _nodes(api, facts)
    facts = on_lost_nodes(facts, nodes)
    told, next_ = report(spec, view), plan(spec, view)
    todo = advice(facts)
    failure = status.failure if status and not isinstance(next_, Done) else ""
    return Overview(
        found.namespace,
        found.instance,
        str(told.phase),
        (*told.conditions, *pod_conditions(facts)),
        _members(spec, view, facts, zones_of(nodes)),
        todo,
        # Where a person has to act, nothing comes of waiting.
        tuple(line for line in _todo(next_) if not (todo and line.endswith(NO_POD))),
        # What the conditions say of the Pods needn't be said twice.
        failure.replace(f". Pods: {'; '.join(trouble(facts))}", ""),
        status.failure_of if status and failure else "",
        busy,
        server_version=told.server_version,
    )


def _resting(found: Found, directory: Directory, busy: str) -> Overview:
    """An instance that is declared to be paused: nobody is asked, and no Pod is missed."""
    status = found.status or InstanceStatus("")
    try:
        running, problem = running_pods(directory), ""
    except ValkeyctlError as error:
        running, problem = (), str(error)
    phase = Phase.UNREACHABLE if problem else Phase.DEGRADED if running else Phase.PAUSED
    return Overview(
        found.namespace,
        found.instance,
        str(phase),
        status.conditions if problem else (paused_condition(running),),
        todo=(f"stop {len(running)} Pod{'s' if len(running) > 1 else ''}, as `paused` declares",) if running else (),
        failure=status.failure if running or problem else "",
        failure_of=status.failure_of if running or problem else "",
        busy=busy,
        problem=problem,
        server_version=status.server_version,
    )


def overviews(api: Api, found: Sequence[Found], transport: str) -> list[Overview]:
    """Several instances, a few at once."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(overview, repeat(api), found, repeat(transport)))


def wrong(conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions that say that something is not as it should be."""
    bad_when_true = {"PodsOutdated"}
    return [
        condition
        for condition in conditions
        if condition.status is Status.UNKNOWN or (condition.status is Status.TRUE) == (condition.type in bad_when_true)
    ]


def _find(api: Api, namespace: str | None, instance: str | None) -> list[Found]:
    selector = f"{NAME_LABEL}=valkey,{INSTANCE_LABEL}" + (f"={instance}" if instance else "")
    maps = api.items(path_of("v1", "configmaps", namespace), {"labelSelector": selector})
    sets = api.items(path_of("apps/v1", "statefulsets", namespace), {"labelSelector": f"{selector},{SHARD_LABEL}"})
    statuses = {_key(item): parse_status(item) for item in maps if _is_status(item)}
    # A StatefulSet knows best what it is part of; an instance that has none yet says it in its status.
    described = {_key(item): item["metadata"] for item in (*filter(_is_status, maps), *sets)}
    shards: dict[tuple[str, str], list[Object]] = {}
    for item in sets:
        shards.setdefault(_key(item), []).append(item)
    return [
        Found(
            *key,
            statuses.get(key),
            _declared(statuses.get(key), shards.get(key, [])),
            architecture=str(described[key]["labels"].get(COMPONENT_LABEL) or CLUSTER),
            owner=str((described[key].get("annotations") or {}).get(OWNER_ANNOTATION) or ""),
        )
        for key in sorted({*statuses, *shards})
    ]


def _key(item: Object) -> tuple[str, str]:
    return str(item["metadata"]["namespace"]), str(item["metadata"]["labels"][INSTANCE_LABEL])


def _is_status(item: Object) -> bool:
    return bool(item["metadata"]["name"] == status_name(_key(item)[1]))


def _declared(status: InstanceStatus | None, workloads: Sequence[Object]) -> Declared:
    if status is not None and status.declared is not None:
        return status.declared
    replicas = max((int((w.get("spec") or {}).get("replicas") or 1) for w in workloads), default=1) - 1
    return Declared(max(len(workloads), 1), replicas)


def _layout(declared: Declared) -> Layout:
    with suppress(InvalidSlots, ValueError):
        layout = parse_layout({int(key.removeprefix("s")): slots for key, slots in declared.layout.items()})
        if len(layout) == declared.shards:
            return layout
    return planned_layout(declared.shards)


def _busy(api: Api, found: Found) -> str:
    path = path_of("coordination.k8s.io/v1", "leases", found.namespace, found.instance)
    with suppress(KubeError):
        spec = (api.find(path) or {}).get("spec") or {}
        return str(spec.get("holderIdentity") or "")
    return ""


def _nodes(api: Api, facts: Sequence[PodFacts]) -> Sequence[Object]:
    """The nodes that have Pods of the instance; none for who may not read them."""
    with suppress(KubeError):
        return read_nodes(api, (fact.node for fact in facts if fact.node))
    return []


def _members(spec: Spec, view: View, facts: Sequence[PodFacts], zones: Mapping[str, str]) -> tuple[MemberOverview, ...]:
    by_member = {fact.member: fact for fact in facts}
    offsets = {node.node_id: node.offset for node in view.nodes.values()}
    return tuple(_member(member, view, by_member[member], zones, offsets) for member in spec.members)


def _member(
    member: Member, view: View, fact: PodFacts, zones: Mapping[str, str], offsets: Mapping[str, int]
) -> MemberOverview:
    outcome = view.outcomes.get(member)
    zone = zones.get(fact.node, "")
    if not isinstance(outcome, NodeView):
        # One word for each: the conditions say more, and once for all that share it.
        problem = fact.reason or str(getattr(outcome, "detail", "")) or f"Pod is {fact.phase}"
        role = "absent" if fact.phase == "Absent" else "unreachable"
        return MemberOverview(fact.pod, role, node=fact.node, zone=zone, problem=problem)
    replica = outcome.role is Role.REPLICA
    ahead = offsets.get(outcome.primary_id) if replica else None
    problems = [*([fact.reason] if fact.reason else []), *(["old Pod template"] if fact.outdated else [])]
    if replica and outcome.link is not None and not outcome.link.up:
        problems.append("copies everything" if outcome.link.syncing else "its link is down")
    return MemberOverview(
        fact.pod,
        str(outcome.role),
        str(outcome.slots) if outcome.slots else "",
        None if ahead is None else max(ahead - outcome.offset, 0),
        outcome.keys,
        version=outcome.version,
        node=fact.node,
        zone=zone,
        problem="; ".join(problems),
    )


def _todo(next_: object) -> tuple[str, ...]:
    if isinstance(next_, Done):
        return ()
    if isinstance(next_, Steps):
        return next_.describe()
    return (f"{getattr(next_, 'reason', '')}. {getattr(next_, 'remedy', '')}".strip(),)
