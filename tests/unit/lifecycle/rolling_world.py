"""A pure cluster with Pods around its servers: what a roll does to both, and what must not happen on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.unit.dataplane.views import formed
from tests.unit.dataplane.world import Unsafe, World
from valkeyctl.dataplane import Member, Spec, Steps, plan, planned_layout
from valkeyctl.dataplane.plan_roles import plan_roles
from valkeyctl.lifecycle.rolling import Finished, MoveRoles, Next, PodState, Replace, Terms, plan_roll

MOST_STEPS = 200


def spec_of(shards: int, replicas: int, **facts: object) -> Spec:
    return replace(Spec("t", shards, replicas, planned_layout(shards), formed=True), **facts)  # type: ignore[arg-type]


@dataclass
class Scene:
    """An instance all of whose Pods are of a former template, at its goal otherwise."""

    spec: Spec
    world: World
    pods: dict[Member, PodState]
    terms: Terms = field(default_factory=Terms)
    replaced: list[Member] = field(default_factory=list[Member])
    moved: list[Member] = field(default_factory=list[Member])

    def next(self) -> Next:
        return plan_roll(self.spec, self.world.view(), self.pods, self.terms)

    def heal(self) -> None:
        """What the data plane's converge does: until its plan has nothing more to do."""
        for _ in range(MOST_STEPS):
            what = plan(replace(self.spec, primaries={}), self.world.view())
            if not isinstance(what, Steps) or not what.actions:
                break
            for step in what.actions:
                self.world.take(step)
            self.world.settle()
        self.world.settle()

    def take(self, step: Next) -> None:
        """Carry a step out, as the cluster would, and judge it."""
        if isinstance(step, Replace):
            self.judge(step)
            for member in step.members:
                self.replaced.append(member)
                self.pods[member] = PodState(member)
                self.world.fresh(member)
            self.world.settle()
            if not step.loses:
                self.world.check()
        elif isinstance(step, MoveRoles):
            wanted = replace(self.spec, primaries=step.primaries)
            while isinstance(what := plan_roles(wanted, self.world.view()), Steps) and what.actions:
                for action in what.actions:
                    self.world.take(action)
                self.world.settle()
            for shard, ordinal in step.primaries.items():
                assert self.world.primary_of(shard) == Member(shard, ordinal)
                self.moved.append(Member(shard, ordinal))
        self.heal()

    def judge(self, step: Replace) -> None:
        """Never what serves, never a last copy, never two of the majority, never more shards than allowed."""
        running = [member for member in step.members if self.pods[member].runs]
        shards = {member.shard for member in running}
        if len(shards) != len(running) or len(shards) > self.terms.parallel_shards:
            raise Unsafe(f"{len(running)} running Pods of {len(shards)} shards at once")
        owners = [member for member in running if self.world.at(member).slots]
        if owners and self.spec.replicas:
            raise Unsafe("a primary is replaced before it handed over")
        if len(owners) > 1:
            raise Unsafe("two of the majority")
        if owners and not (self.spec.persistent or self.spec.accept_data_loss):
            raise Unsafe("a last copy")

    def roll(self) -> list[Next]:
        """Roll to the end; the steps."""
        taken: list[Next] = []
        while not isinstance(step := self.next(), Finished):
            taken.append(step)
            assert len(taken) < MOST_STEPS, taken[-3:]
            self.take(step)
        return taken


def scene(spec: Spec, *, parallel: int = 1, outdated: bool = True) -> Scene:
    world = formed(replace(spec, primaries={}, persistent=False))
    pods = {member: PodState(member, outdated=outdated) for member in spec.members}
    return Scene(spec, world, pods, Terms(parallel))
