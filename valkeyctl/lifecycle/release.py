"""Whether a shard's StatefulSet may go. The decision is pure; what it rests on is gathered around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from valkeyctl.dataplane import Member, NodeView, Role, SlotSet, Spec, View, observe, planned_layout
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.slots import union
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
    """What is known of a shard: its members that answered, and those that exist and did not.

    `replaced`: members of other shards own every slot, as they say themselves, and know of none that is this shard's.
    `paused`: none is to run.
    """

    answered: Mapping[Member, NodeView]
    silent: tuple[Member, ...] = ()
    exists: bool = True
    replaced: bool = False
    paused: bool = False


def decides_status(status: InstanceStatus | None) -> bool:
    """Whether the status alone lets the shard go: the instance is being destroyed, or no `up` of it ever ended. Pure.

    Then Pulumi doesn't know the topology, whose deletion would say that the instance goes.
    """
    return status is None or status.destroying or not status.finished


def objection(shard: int, facts: ShardFacts) -> str:
    """Why the shard must stay; "" where it may go. Pure.

    A shard holds data exactly as long as it owns slots: its replicas hold copies of nothing else. Whoever is silent may
    own some, unless others own them all: then a Pod that never started, or doesn't any more, keeps nobody from going.
    """
    if not facts.exists:
        return ""
    owning = {member: node.slots for member, node in facts.answered.items() if node.slots}
    if owning:
        told = ", ".join(f"{member} owns {len(slots)} slots" for member, slots in owning.items())
        return f"shard s{shard} still holds data: {told}"
    if facts.paused:
        return f"shard s{shard} may still hold data: the instance is paused, and what is on its volumes can't be asked"
    if facts.silent and not facts.replaced:
        names = ", ".join(str(member) for member in facts.silent)
        return f"shard s{shard} may still hold data: {names} did not answer"
    return ""


def require_release(place: Place, shard: int, credentials: Mapping[str, str | None] | None) -> None:
    """Returns where the shard may go. Errors: ShardStillNeeded; those of the API."""
    api = api_of(place)
    status = read_status(api, place.namespace, place.instance)
    if decides_status(status):
        return
    directory = Directory(api, place.namespace, place.instance, _port(status))
    asked_for = {str(one["metadata"]["name"]): int(one["spec"].get("replicas") or 0) for one in directory.workloads()}
    name = workload_name(place.instance, shard)
    facts = ShardFacts({}, exists=name in asked_for)
    if facts.exists:
        pods = [member for member in map(directory.member_of, directory.pods()) if member is not None]
        mine = {member for member in pods if member.shard == shard}
        # Also where nobody's Pod is there: what its volumes hold isn't known then.
        mine |= {Member(shard, ordinal) for ordinal in range(max(asked_for[name], 0 if mine else 1))}
        known = read_credentials(api, place.namespace, credentials, instance=place.instance)
        dialer = dialer_for(place.transport, api, place.namespace, known)
        endpoints = directory()
        spec = _spec(place.instance, [*pods, *mine])
        found = {member: endpoint for member, endpoint in endpoints.items() if member.shard == shard}
        facts = facts_of(shard, mine, observe(spec, found, dialer))
        if facts.silent:
            facts = facts_of(shard, mine, observe(spec, endpoints, dialer))
        facts = replace(facts, paused=bool(status and status.declared and status.declared.paused))
    told = objection(shard, facts)
    if told:
        raise ShardStillNeeded(
            told,
            where=f"{place.namespace}/{workload_name(place.instance, shard)}",
            remedy="Run `pulumi up` until the cluster is Ready and this shard is empty. To give the whole instance up "
            f"with its data: kubectl -n {place.namespace} patch configmap {status_name(place.instance)} --type merge "
            """-p '{"data":{"destroying":"true"}}' and run it again.""",
        )


def facts_of(shard: int, mine: Collection[Member], view: View) -> ShardFacts:
    """What an observation tells of a shard with these members. Pure."""
    answered = {member: node for member, node in view.nodes.items() if member.shard == shard}
    silent = tuple(member for member in sorted(mine) if member not in answered)
    return ShardFacts(answered, silent, replaced=_own_all(shard, view))


def _own_all(shard: int, view: View) -> bool:
    """Whether the other shards' members own every slot, and none believes one to be a member's of this shard, nor of
    somebody whose name it hasn't heard.
    """
    others = [node for member, node in view.nodes.items() if member.shard != shard]
    ids = {node.node_id for node in others}
    owned = union(node.slots for node in others if node.role is Role.PRIMARY)
    elsewhere = (peer for node in others for peer in node.peers.values() if peer.slots and peer.node_id not in ids)
    return owned == SlotSet.all() and not any(elsewhere)


def _spec(instance: str, members: Collection[Member]) -> Spec:
    """Just these members, whoever they are: nothing is planned with it."""
    return Spec(instance, 1, 0, planned_layout(1), leaving=tuple(sorted({*members} - {Member(0, 0)})))


def _port(status: InstanceStatus | None) -> int:
    return status.declared.port if status and status.declared else 6379
