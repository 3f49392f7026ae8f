"""Makes the parts of a dataset's agent that need the API server, out of what `agent.leader` and `agent.turns` have.

Light itself, but what it makes is heavy when it runs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from valkeyctl.agent.dataset.clients import Clients
from valkeyctl.agent.dataset.judge import judge
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.judge import Judgement
from valkeyctl.agent.leader import Leader
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.turns import Duty, Held, Turn, Turns
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared_dataset import DeclaredDataset, read_declared_dataset
from valkeyctl.kube.labels import FAILOVER, REPLICA

if TYPE_CHECKING:
    from valkeyctl.agent.dataset.agent import DatasetAgent


def make_clients(agent: DatasetAgent, runtime: Runtime) -> Clients:
    """What leads clients to the right members."""
    return Clients(runtime, agent.known, agent.peers, agent.api, lambda: agent.decider.primary, by_up=agent.is_by_up)


def make_leader(agent: DatasetAgent, runtime: Runtime) -> Leader:
    """What heals."""

    def judged(environment: Environment, state: ServerState, declared: Collection[Member]) -> Judgement:
        return judge(
            environment,
            state,
            declared or agent.known.members,
            member_at=agent.known.member_at,
            primary=agent.decider.primary,
            seen=agent.troubles,
        )

    def read(api: Api, namespace: str, instance: str) -> DeclaredDataset | None:
        state = read_declared_dataset(api, namespace, instance)
        agent.known.learn(state)
        return state

    def attend(held: Held[DeclaredDataset]) -> Turn:
        from valkeyctl.agent.dataset.heal import Way, heal  # noqa: PLC0415 - heavy, see there

        way = Way(
            primary=lambda: agent.decider.primary,
            decided_elsewhere=lambda: agent.decided_elsewhere,
            hands_off=environment_fences(runtime.environment),
            learn=agent.known.learn,
            besides=agent.watchers if runtime.environment.architecture == FAILOVER else None,
        )
        return heal(held, way)

    def turns(runtime: Runtime, api: Api) -> Turns[Any]:
        return Turns(runtime, api, Duty(read, attend))

    return Leader(runtime, api=agent.api, judge=judged, turns=turns)


def environment_fences(environment: Environment) -> bool:
    """Whether the agents change roles by a Lease of their own."""
    return environment.architecture == REPLICA and environment.automatic_failover_s is not None
