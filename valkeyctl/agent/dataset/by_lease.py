"""A dataset whose members fail over by a Lease: what its arbiter needs of the other parts of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valkeyctl.agent.primacy.primacy import Primacy
from valkeyctl.dataplane.model import Endpoint, Member, pod_name
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.labels import REPLICA

if TYPE_CHECKING:
    from valkeyctl.agent.dataset.agent import DatasetAgent


def make_primacy(agent: DatasetAgent, duration_s: float) -> Primacy:
    """The arbiter of this agent. Raises OSError where the shared volume can't be used."""
    place = agent.environment

    def endpoint_of(member: Member) -> Endpoint:
        """Servers know each other by name; an agent goes to the address, where it knows that."""
        address = place.address if member == place.member else agent.peers.addresses().get(member, "")
        return Endpoint(member, pod_name(place.instance, member), place.host_of(member), address, place.client_port)

    def declared() -> ReplicationSpec | None:
        state = agent.known.declared
        if state is None:
            return None
        return ReplicationSpec(
            place.instance,
            state.replicas,
            primary=state.primary,
            formed=state.formed,
            persistent=state.persistent,
        )

    def stands_still() -> bool:
        state = agent.known.declared
        return state is not None and (state.automatic_failover_s is None or state.architecture != REPLICA)

    return Primacy(
        place,
        agent.log,
        duration_s=int(duration_s),
        watch=agent.watch,
        held=lambda: agent.gate.held,
        connect=agent.own_server,
        passwords=agent.files.passwords,
        addresses=agent.peers.addresses,
        endpoint_of=endpoint_of,
        declared=declared,
        stands_still=stands_still,
        api=agent.api,
        on_change=agent.watch.poke,
    )
