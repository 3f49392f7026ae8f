"""What can be told of one dataset and its Sentinels with nothing but a kubeconfig: for `valkeyctl status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.observe import TIMEOUT_S
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.view import ServerView
from valkeyctl.dataplane.rounds import Blocked, Plan, Round, StepT
from valkeyctl.dataplane.sentinel.knowledge import Knowledge as SentinelKnowledge
from valkeyctl.dataplane.sentinel.model import Sentinel
from valkeyctl.dataplane.sentinel.view import SentinelView
from valkeyctl.dataplane.view import Absent, Role
from valkeyctl.kube.dataset_look import DatasetLook, look_at
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.member_overview import MemberOverview, SentinelOverview
from valkeyctl.kube.pods import PodFacts
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import Declared, InstanceStatus, recorded_primary
from valkeyctl.kube.watched import Members, side_of, watch_of


def look_with_a_kubeconfig(
    directory: Directory, declared: Declared, status: InstanceStatus | None, transport: str
) -> DatasetLook:
    """Asks everybody once, by what the status says is declared. Errors: those of the API; SecretMissing."""
    api, namespace, instance = directory.api, directory.namespace, directory.instance
    known = read_credentials(api, namespace, declared.credentials, "status ConfigMap", instance=instance)
    spec = ReplicationSpec(
        instance, declared.replicas, formed=bool(status and status.formed), persistent=declared.persistent
    )
    watch = watch_of(declared.sentinel, namespace)
    members = Members(namespace, instance, declared.replicas, declared.port)
    return look_at(
        spec,
        directory,
        dialer_for(transport, api, namespace, known),
        timeout_s=TIMEOUT_S,
        side=None if watch is None else side_of(watch, members, api, transport, known),
        by_lease=declared.automatic_failover_s is not None,
        recorded=recorded_primary(status),
    )


def servers_of(seen: DatasetLook, facts: Sequence[PodFacts], zones: Mapping[str, str]) -> tuple[MemberOverview, ...]:
    """The members, by ordinal. Pure."""
    k = Knowledge(seen.spec, seen.view)
    primary = decide_primary(k).primary
    by_member = {fact.member: fact for fact in facts}
    return tuple(_server(k, member, primary, by_member[member], zones) for member in seen.spec.members)


def _server(
    k: Knowledge, member: Member, primary: ServerView | None, fact: PodFacts, zones: Mapping[str, str]
) -> MemberOverview:
    outcome, zone = k.view.outcomes.get(member), zones.get(fact.node, "")
    if not isinstance(outcome, ServerView):
        # One word for each: the conditions say more, and once for all that share it.
        problem = fact.reason or str(getattr(outcome, "detail", "")) or f"Pod is {fact.phase}"
        role = "absent" if fact.phase == "Absent" else "unreachable"
        return MemberOverview(fact.pod, role, node=fact.node, zone=zone, problem=problem)
    replica = outcome.role is Role.REPLICA
    follows = primary if replica and primary and k.upstream_of.get(member) == primary.member else None
    return MemberOverview(
        fact.pod,
        str(outcome.role),
        lag=None if follows is None else max(follows.history.offset - outcome.history.offset, 0),
        keys=outcome.keys,
        version=outcome.version,
        node=fact.node,
        zone=zone,
        problem="; ".join(_problems(k, outcome, primary, fact)),
    )


def _problems(k: Knowledge, node: ServerView, primary: ServerView | None, fact: PodFacts) -> list[str]:
    problems = [*([fact.reason] if fact.reason else []), *(["old Pod template"] if fact.outdated else [])]
    if node.role is Role.PRIMARY and primary is not None and node is not primary:
        problems.append(f"a second primary beside {primary.member}")
    if node.role is Role.REPLICA:
        if primary is not None and k.upstream_of.get(node.member) != primary.member:
            problems.append(f"follows {node.upstream}")
        if node.link is not None and not node.link.up:
            problems.append("copies everything" if node.link.syncing else "its link is down")
    return problems


def sentinels_of(seen: DatasetLook) -> tuple[SentinelOverview, ...]:
    """The declared Sentinels, by ordinal; none where none watch the dataset. Pure."""
    if seen.side is None or seen.watchers is None:
        return ()
    k = SentinelKnowledge(seen.side.spec, seen.watchers)
    name = seen.side.watch.set_name
    return tuple(_sentinel(k, one, f"{name}-{one.ordinal}" if name else "") for one in seen.side.spec.declared)


def _sentinel(k: SentinelKnowledge, one: Sentinel, pod: str) -> SentinelOverview:
    outcome = k.view.outcomes.get(one)
    if not isinstance(outcome, SentinelView):
        detail = str(getattr(outcome, "detail", ""))
        known = "" if outcome is None or isinstance(outcome, Absent) else outcome.endpoint.pod
        return SentinelOverview(pod or known or str(one), problem=detail or "no running Pod")
    monitored = outcome.monitored
    watched = k.member_at(monitored.address) if monitored else None
    problems = [
        *([] if monitored else ["doesn't monitor it"]),
        *(["calls the primary down"] if monitored and monitored.down else []),
        *(["fails over"] if monitored and monitored.failing_over else []),
        *([f"no quorum: {outcome.quorum_told}"] if monitored and not outcome.reaches_quorum else []),
        *(["doesn't act (TILT)"] if outcome.in_tilt else []),
    ]
    return SentinelOverview(
        pod or outcome.endpoint.pod,
        str(watched or (monitored.address if monitored else "")),
        len(outcome.others),
        outcome.version,
        "; ".join(problems),
    )


def lines_of(planned: Plan[StepT]) -> tuple[str, ...]:
    """What a plan says is to be done, for people; nothing where all is right. Pure."""
    if isinstance(planned, Blocked):
        return (f"{planned.reason}. {planned.remedy}".strip(),)
    return planned.describe() if isinstance(planned, Round) else ()
