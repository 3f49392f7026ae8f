"""What the roll of one dataset does next: each rule in one view, and whole rolls that are stopped and planned anew."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.replication.test_plan_rules import change, formed, gone, silent
from tests.unit.dataplane.replication.world import World
from valkeyctl.dataplane import Member, Role
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.steps import HandOver
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Round
from valkeyctl.lifecycle.datasets.rolling import GiveRole, Next, at_risk, forecast, plan_roll
from valkeyctl.lifecycle.roll_steps import Await, Finished, PodState, Refuse, Replace

SPEC = ReplicationSpec("t", 2, formed=True)
A, B, C = SPEC.members


def pods(*outdated: Member, spec: ReplicationSpec = SPEC, **more: PodState) -> dict[Member, PodState]:
    found = {member: PodState(member, outdated=member in outdated) for member in spec.members}
    return {**found, **{state.member: state for state in more.values()}}


def decide(view: ReplicationView, states: dict[Member, PodState], spec: ReplicationSpec = SPEC) -> Next:
    return plan_roll(spec, view, states, (9, 1))


def test_where_nothing_is_outdated_it_is_finished() -> None:
    assert decide(formed().view(), pods()) == Finished()


def test_the_replicas_go_first_from_the_highest_ordinal_down() -> None:
    assert decide(formed().view(), pods(A, B, C)) == Replace((C,))
    assert decide(formed().view(), pods(A, B)) == Replace((B,))


def test_then_the_role_moves_and_the_former_primary_goes_last() -> None:
    world = formed()
    assert decide(world.view(), pods(A)) == GiveRole(B)
    world.take(HandOver(A, B, world.address(B)))
    world.settle()
    world.here[C].upstream = B
    world.settle()
    assert decide(world.view(), pods(A)) == Replace((A,))


def test_the_role_goes_to_who_is_to_have_it_in_the_end() -> None:
    assert decide(formed().view(), pods(A), replace(SPEC, primary=2)) == GiveRole(C)
    # Who has it, and is to have it, gives it away for as long as it is replaced.
    assert decide(formed().view(), pods(A), replace(SPEC, primary=0)) == GiveRole(B)


def test_what_does_not_run_goes_at_once() -> None:
    broken = PodState(A, outdated=True, runs=False)
    assert decide(gone(formed().view(), A), pods(B, a=broken)) == Replace((A,), idle=True)


@pytest.mark.parametrize(
    "state", [PodState(B, exists=False), PodState(B, terminating=True), PodState(B, runs=False)], ids=str
)
def test_nobody_goes_while_another_is_away(state: PodState) -> None:
    assert isinstance(decide(formed().view(), pods(A, C, b=state)), Await)


def test_nobody_goes_while_a_replica_of_the_newest_template_is_not_in_sync() -> None:
    view = change(formed().view(), B, link=None, role=Role.REPLICA)
    assert isinstance(decide(view, pods(A, C)), Await)


def test_an_outdated_replica_that_does_not_answer_is_replaced() -> None:
    assert decide(silent(formed().view(), B), pods(A, B)) == Replace((B,))


def test_nobody_goes_while_the_primary_does_not_answer() -> None:
    assert isinstance(decide(silent(formed().view(), A), pods(A, B, C)), Await)


def test_the_only_copy_is_kept() -> None:
    alone = ReplicationSpec("t", 0, formed=True)
    view = formed(alone).view()
    outdated = {A: PodState(A, outdated=True)}
    assert isinstance(plan_roll(alone, view, outdated), Refuse)
    assert plan_roll(replace(alone, persistent=True), view, outdated) == Replace((A,))
    assert plan_roll(replace(alone, accept_data_loss=True), view, outdated) == Replace((A,), loses=True)


def test_an_older_line_is_refused() -> None:
    refused = plan_roll(SPEC, formed().view(), pods(A, B, C), (8, 1))
    assert isinstance(refused, Refuse)
    assert "run Valkey 9.1.2 and 8.1 is declared" in refused.reason


def test_who_would_not_come_up_again_is_named() -> None:
    new = PodState(C, runs=False)
    told = at_risk(SPEC, gone(formed().view(), C), pods(A, B, c=new))
    assert told.endswith("before this is mended: s0-0 (primary), s0-1")
    assert at_risk(SPEC, formed().view(), pods(A, B)) == ""


def test_a_preview_says_what_will_be_done_in_its_order() -> None:
    view = formed().view()
    assert forecast(SPEC, view, pods()) == ()
    assert forecast(SPEC, view, pods(A, B, C)) == (
        "replace Pods: s0-2, then s0-1, then the role moves from s0-0 to s0-1, then s0-0",
    )
    assert forecast(replace(SPEC, primary=2), view, pods()) == ("primary: s0-0 → s0-2",)
    assert forecast(replace(SPEC, primary=0), view, pods(A)) == (
        "replace Pods: the role moves from s0-0 to s0-1, then s0-0, which takes the role back",
    )
    alone = ReplicationSpec("t", 0, formed=True, persistent=True)
    assert forecast(alone, formed(alone).view(), {A: PodState(A, outdated=True)}) == ("replace Pods: s0-0",)
    loses = replace(alone, persistent=False, accept_data_loss=True)
    assert forecast(loses, formed(alone).view(), {A: PodState(A, outdated=True)}) == (
        "replace Pods: s0-0, and the 3 keys that it alone has are lost",
    )
    assert forecast(SPEC, gone(view, C), pods(c=PodState(C, outdated=True, runs=False))) == (
        "replace at once the Pods that don't run: s0-2",
    )


# --- whole rolls ------------------------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A dataset all of whose Pods are of a former template, at its goal otherwise."""

    spec: ReplicationSpec
    world: World
    pods: dict[Member, PodState]
    replaced: list[Member] = field(default_factory=list[Member])

    def heal(self) -> None:
        """What the data plane's converge does: until its plan has nothing more to do."""
        for _ in range(20):
            what = plan(replace(self.spec, primary=None), self.world.view())
            if not isinstance(what, Round) or not what.actions:
                break
            for step in what.actions:
                self.world.take(step)
            self.world.settle()

    def take(self, step: Next) -> None:
        """Carry a step out, as Kubernetes and the servers would, and judge it."""
        written = {entry for server in self.world.all for entry in server.log}
        if isinstance(step, Replace):
            (member,) = step.members
            assert self.world.here[member].role is Role.REPLICA, "a primary is replaced before it handed over"
            self.replaced.append(member)
            self.pods[member] = PodState(member)
            self.world.remove(member)
            self.world.fresh(member, Role.REPLICA)
        elif isinstance(step, GiveRole):
            (now,) = self.world.primaries
            self.world.take(HandOver(now.member, step.to, self.world.address(step.to)))
        self.world.settle()
        self.heal()
        (primary,) = self.world.primaries
        assert written == set(primary.log), "what was written is there"
        self.world.write(primary.member)
        self.world.settle()


@given(replicas=st.integers(1, 5), first=st.integers(0, 5), wish=st.none() | st.integers(0, 5), stop=st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_a_roll_ends_with_every_pod_new_once_and_nothing_lost(
    replicas: int, first: int, wish: int | None, stop: int
) -> None:
    spec = ReplicationSpec("t", replicas, formed=True, primary=None if wish is None else min(wish, replicas))
    world = formed(replace(spec, primary=None))
    if 0 < first <= replicas:
        heir = Member(0, first)
        world.take(HandOver(A, heir, world.address(heir)))
        world.settle()
    scene = Scene(spec, world, {member: PodState(member, outdated=True) for member in spec.members})
    scene.heal()
    for number in range(40):
        if number == stop:
            # Begun anew by another run, which knows nothing of the one before.
            scene = Scene(spec, world, dict(scene.pods), scene.replaced)
        step = plan_roll(spec, world.view(), scene.pods, (9, 1))
        if isinstance(step, Finished):
            break
        scene.take(step)
    assert sorted(scene.replaced) == list(spec.members)
