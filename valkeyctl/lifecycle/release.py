"""Whether a shard's StatefulSet may go. The decision is pure; what it rests on is gathered around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Member, NodeView, Spec, View, observe, planned_layout
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.labels import status_name, workload_name
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.status import InstanceStatus, read_status
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of


class ShardStillNeeded(ValkeyctlError):  # noqa: N818 - reads as what happened
    """A shard that owns slots, or of which that cannot be told, must not go."""


@dataclass(frozen=True)
class ShardFacts:
    """What is known of a shard: its members that answered, and those that exist and did not; `paused`: none is to."""

    answered: Mapping[Member, NodeView]
    silent: tuple[Member, ...] = ()
    exists: bool = True
    paused: bool = False


def decides_status(status: InstanceStatus | None) -> bool:
    """Whether the status alone lets the shard go: the instance is being destroyed, or no `up` of it ever ended. Pure.

    Then Pulumi doesn't know the topology, whose deletion would say that the instance goes.
    """
    return status is None or status.destroying or not status.finished


def objection(shard: int, facts: ShardFacts) -> str:
    """Why the shard must stay; "" where it may go. Pure.

    A shard holds data exactly as long as it owns slots: its replicas hold copies of nothing else. Whoever is silent may
    own some.
    """
    if not facts.exists:
        return ""
    owning = {member: node.slots for member, node in facts.answered.items() if node.slots}
    if owning:
        told = ", ".join(f"{member} owns {len(slots)} slots" for member, slots in owning.items())
        return f"shard s{shard} still holds data: {told}"
    if facts.silent:
        names = ", ".join(str(member) for member in facts.silent)
        return f"shard s{shard} may still hold data: {names} did not answer"
    if facts.paused:
        return f"shard s{shard} may still hold data: the instance is paused, and what is on its volumes can't be asked"
    return ""


def require_release(place: Place, shard: int, credentials: Mapping[str, str | None] | None) -> None:
    """Returns where the shard may go. Errors: ShardStillNeeded; those of the API."""
    api = api_of(place)
    status = read_status(api, place.namespace, place.instance)
    if decides_status(status):
        return
    directory = Directory(api, place.namespace, place.instance, _port(status))
    names = {str(workload["metadata"]["name"]) for workload in directory.workloads()}
    facts = ShardFacts({}, exists=workload_name(place.instance, shard) in names)
    if facts.exists:
        pods = [member for member in map(directory.member_of, directory.pods()) if member and member.shard == shard]
        known = read_credentials(api, place.namespace, credentials, instance=place.instance)
        dialer = dialer_for(place.transport, api, place.namespace, known)
        found = {member: endpoint for member, endpoint in directory().items() if member.shard == shard}
        view = observe(_spec(place.instance, shard, pods), found, dialer)
        facts = replace(_facts(shard, pods, view), paused=bool(status and status.declared and status.declared.paused))
    told = objection(shard, facts)
    if told:
        raise ShardStillNeeded(
            told,
            where=f"{place.namespace}/{workload_name(place.instance, shard)}",
            remedy="Run `pulumi up` until the cluster is Ready and this shard is empty. To give the whole instance up "
            f"with its data: kubectl -n {place.namespace} patch configmap {status_name(place.instance)} --type merge "
            """-p '{"data":{"destroying":"true"}}' and run it again.""",
        )


def _spec(instance: str, shard: int, pods: list[Member]) -> Spec:
    shards, replicas = shard + 1, max((member.ordinal for member in pods), default=0)
    return Spec(instance, shards, replicas, planned_layout(shards))


def _facts(shard: int, pods: list[Member], view: View) -> ShardFacts:
    answered = {member: node for member, node in view.nodes.items() if member.shard == shard}
    return ShardFacts(answered, tuple(member for member in sorted(pods) if member not in answered))


def _port(status: InstanceStatus | None) -> int:
    return status.declared.port if status and status.declared else 6379
