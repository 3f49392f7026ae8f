"""A roll's planner: what it replaces in which state, in a table, and what holds whatever the state is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.views import absent, change, formed, unreachable
from tests.unit.lifecycle.rolling_world import Scene, scene, spec_of
from valkeyctl.dataplane import Member, Steps, View, plan, planned_layout
from valkeyctl.lifecycle.forecast import forecast
from valkeyctl.lifecycle.rolling import (
    Await,
    Finished,
    MoveRoles,
    Next,
    PodState,
    Refuse,
    Replace,
    Terms,
    at_risk,
    plan_roll,
)

S00, S01, S10, S11, S20, S21 = spec_of(3, 1).members


def following(made: Scene, view: View | None = None, **changes: object) -> Next:
    """The next step; `changes` are facts of Pods by their name, as in `s0_1={"runs": False}`."""
    pods = dict(made.pods)
    for name, facts in changes.items():
        member = Member(*(int(part) for part in name.removeprefix("s").split("_")))
        pods[member] = replace(pods[member], **facts)  # type: ignore[arg-type]
    return plan_roll(made.spec, view or made.world.view(), pods, made.terms)


# --- the order -------------------------------------------------------------------------------------------------------


def test_nothing_outdated_is_nothing_to_do() -> None:
    assert following(scene(spec_of(3, 1), outdated=False)) == Finished()


def test_shard_by_shard_replicas_then_the_role_then_the_former_primary() -> None:
    made = scene(spec_of(3, 1))
    assert made.roll() == [
        *(Replace((S01,)), MoveRoles({0: 1}), Replace((S00,))),
        *(Replace((S11,)), MoveRoles({1: 1}), Replace((S10,))),
        *(Replace((S21,)), MoveRoles({2: 1}), Replace((S20,))),
    ]


def test_several_replicas_go_one_after_the_other() -> None:
    made = scene(spec_of(3, 2))
    first = made.roll()[:4]
    assert first == [Replace((Member(0, 2),)), Replace((Member(0, 1),)), MoveRoles({0: 1}), Replace((Member(0, 0),))]


def test_the_live_primary_is_asked_for_and_not_taken_from_the_ordinal() -> None:
    made = scene(spec_of(3, 1))
    made.take(MoveRoles({0: 1}))
    assert following(made) == Replace((S00,))


def test_a_shard_that_was_begun_comes_first() -> None:
    made = scene(spec_of(3, 1))
    assert following(made, s2_1={"outdated": False}) == MoveRoles({2: 1})


def test_roles_that_are_declared_are_moved_to_where_they_are_to_be_in_the_end() -> None:
    made = scene(spec_of(3, 2, primaries={0: 2}))
    pods = {m: replace(pod, outdated=m.ordinal == 0) for m, pod in made.pods.items()}
    assert plan_roll(made.spec, made.world.view(), pods, made.terms) == MoveRoles({0: 2})


def test_as_many_shards_at_a_time_as_declared() -> None:
    made = scene(spec_of(5, 1), parallel=2)
    assert following(made) == Replace((Member(0, 1), Member(1, 1)))
    steps = made.roll()
    assert steps[:3] == [
        Replace((Member(0, 1), Member(1, 1))),
        MoveRoles({0: 1, 1: 1}),
        Replace((Member(0, 0), Member(1, 0))),
    ]
    assert len(steps) == 9


# --- what doesn't run ------------------------------------------------------------------------------------------------


def test_outdated_pods_that_do_not_run_go_first_and_all_at_once() -> None:
    made = scene(spec_of(3, 1))
    view = absent(made.world.view(), S01, S10)
    stopped = {"runs": False}
    assert following(made, view, s0_1=stopped, s1_0=stopped) == Replace((S01, S10), idle=True)


def test_a_pod_of_the_newest_template_that_does_not_run_stops_the_roll() -> None:
    made = scene(spec_of(3, 1))
    step = following(made, absent(made.world.view(), S01), s0_1={"runs": False, "outdated": False})
    assert isinstance(step, Await)
    assert "s0-1" in step.why


@pytest.mark.parametrize("facts", [{"terminating": True}, {"exists": False}])
def test_a_pod_on_its_way_is_waited_for(facts: dict[str, bool]) -> None:
    made = scene(spec_of(3, 1))
    assert isinstance(following(made, absent(made.world.view(), S21), s2_1=facts), Await)


def test_an_outdated_server_that_does_not_answer_is_replaced_where_others_serve_its_shard() -> None:
    made = scene(spec_of(3, 1))
    assert following(made, unreachable(made.world.view(), S11)) == Replace((S11,))


def test_of_many_that_do_not_answer_no_more_go_at_a_time_than_is_declared() -> None:
    """A node that is slow for a moment has good copies of several shards."""
    made = scene(spec_of(3, 2))
    s12, s22 = Member(1, 2), Member(2, 2)
    view = unreachable(unreachable(unreachable(made.world.view(), S11), s12), s22)
    assert following(made, view) == Replace((s12,))
    made.terms = Terms(parallel_shards=2)
    assert following(made, view) == Replace((s12, s22))
    away = {"terminating": True}
    assert isinstance(following(made, view, s1_2=away, s2_2=away), Await), "the first are back before the next go"


def test_a_primary_that_does_not_answer_is_left_to_the_election() -> None:
    made = scene(spec_of(3, 1))
    assert isinstance(following(made, unreachable(made.world.view(), S10)), Await)


def test_a_replica_that_lags_is_replaced_itself_and_holds_the_others_up() -> None:
    made = scene(spec_of(3, 1))
    view = made.world.view()
    link = view.nodes[S21].link
    assert link is not None
    behind = change(view, S21, link=replace(link, up=False))
    assert following(made, behind) == Replace((S21,))
    assert isinstance(following(made, behind, s2_1={"outdated": False}), Await)


def test_shards_that_leave_are_emptied_first_and_are_no_part_of_the_roll() -> None:
    """Fewer shards and another image in one `up`: whatever the data plane still does with who leaves is waited for."""
    before = spec_of(6, 1)
    world = formed(before)
    world.become(replace(spec_of(3, 1), layout=planned_layout(3, before.layout)))
    pods = {member: PodState(member, outdated=True) for member in world.spec.members}
    waited: set[int] = set()
    while isinstance(what := plan(world.spec, world.view()), Steps):
        step = plan_roll(world.spec, world.view(), pods, Terms())
        assert isinstance(step, Await)
        waited |= {action.member.shard for action in what.actions}
        for action in sorted(what.actions, key=lambda action: action.member.shard)[:2]:
            world.take(action)
        world.settle()
    assert waited > {3, 4, 5}
    assert plan_roll(world.spec, world.view(), pods, Terms()) == Replace((S01,))


# --- alone -----------------------------------------------------------------------------------------------------------


def test_an_only_copy_needs_consent() -> None:
    step = following(scene(spec_of(3, 0)))
    assert isinstance(step, Refuse)
    assert "s0-0 has the only copy" in step.reason
    assert "allowDataLoss: true" in step.remedy


def test_an_only_copy_that_a_volume_keeps_is_replaced_one_at_a_time() -> None:
    assert following(scene(spec_of(3, 0, persistent=True), parallel=3)) == Replace((S00,))


def test_with_consent_an_only_copy_goes_and_that_is_said() -> None:
    made = scene(spec_of(3, 0, accept_data_loss=True), parallel=3)
    assert following(made) == Replace((S00,), loses=True)
    assert len(made.roll()) == 3


# --- versions --------------------------------------------------------------------------------------------------------


def versions(made: Scene, told: str, *members: Member) -> View:
    view = made.world.view()
    for member in members:
        view = change(view, member, version=told)
    return view


def test_no_older_server_is_given_the_data_of_a_newer_one() -> None:
    made = scene(spec_of(3, 1))
    made.terms = Terms(version=(8, 1))
    step = following(made)
    assert isinstance(step, Refuse)
    assert "run Valkey 9.1.2 and 8.1 is declared" in step.reason


@pytest.mark.parametrize(("persistent", "refused"), [(False, False), (True, True)])
def test_an_upgrade_that_only_reached_a_replica_is_taken_back_unless_its_volume_has_it(
    persistent: bool,  # noqa: FBT001
    refused: bool,  # noqa: FBT001
) -> None:
    made = scene(spec_of(3, 1, persistent=persistent))
    made.terms = Terms(version=(8, 1))
    older = versions(made, "8.1.8", S00, S10, S11, S20, S21)
    assert isinstance(following(made, older), Refuse if refused else Replace)


def test_a_former_primary_that_cannot_follow_the_newer_one_is_replaced() -> None:
    made = scene(spec_of(3, 1))
    made.pods[S01] = PodState(S01)
    made.take(MoveRoles({0: 1}))
    link = made.world.view().nodes[S00].link
    assert link is not None
    view = change(made.world.view(), S00, link=replace(link, up=False))
    assert following(made, view) == Replace((S00,))


# --- what is told ----------------------------------------------------------------------------------------------------


def test_who_would_not_come_up_again_is_named_with_the_last_copies_first() -> None:
    made = scene(spec_of(3, 1))
    pods = {**made.pods, S11: replace(made.pods[S11], outdated=False, runs=False)}
    told = at_risk(made.spec, absent(made.world.view(), S11), pods)
    assert "s1-0 (the only copy of its shard that answers), s0-0 (primary), s2-0 (primary), s0-1, s2-1" in told
    assert at_risk(made.spec, made.world.view(), made.pods) == "", "no new Pod has failed"


def test_a_forecast_names_pods_in_order_and_the_roles_that_move() -> None:
    made = scene(spec_of(3, 2))
    pods = {**made.pods, Member(2, 1): replace(made.pods[Member(2, 1)], runs=False)}
    assert forecast(made.spec, made.world.view(), pods) == (
        "replace at once the Pods that don't run: s2-1",
        "replace Pods of shard 2: s2-2, then the role moves from s2-0, then s2-0",
        "replace Pods of shard 0: s0-2, then s0-1, then the role moves from s0-0, then s0-0",
        "replace Pods of shard 1: s1-2, then s1-1, then the role moves from s1-0, then s1-0",
    )
    begun = {**made.pods, Member(2, 2): PodState(Member(2, 2))}
    assert forecast(made.spec, made.world.view(), begun)[0].startswith("replace Pods of shard 2: s2-1, then the role")
    current = {m: PodState(m) for m in made.spec.members}
    assert forecast(made.spec, made.world.view(), current) == ()
    placed = replace(made.spec, primaries={0: 0, 1: 2})
    assert forecast(placed, made.world.view(), current) == ("s1-2: take the primary's role over from s1-0",)


def test_a_forecast_of_a_roll_tells_where_declared_roles_end_up() -> None:
    made = scene(spec_of(3, 1))
    placed = replace(made.spec, primaries={0: 0, 1: 1, 2: 1})
    pods = {**made.pods, S20: PodState(S20)}
    assert forecast(placed, made.world.view(), pods) == (
        "replace Pods of shard 2: s2-1",
        "replace Pods of shard 0: s0-1, then the role moves from s0-0, then s0-0, which takes the role back",
        "replace Pods of shard 1: s1-1, then the role moves from s1-0 to s1-1, then s1-0",
        "s2-1: take the primary's role over from s2-0",
    )
    alone = scene(spec_of(2, 0, primaries={0: 0}, persistent=True))
    assert forecast(alone.spec, alone.world.view(), alone.pods) == (
        "replace Pods of shard 0: s0-0",
        "replace Pods of shard 1: s1-0",
    )


# --- whatever the state is -------------------------------------------------------------------------------------------

shapes = st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(1, 3))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    shards, replicas, parallel = draw(shapes)
    made = scene(spec_of(shards, replicas, accept_data_loss=replicas == 0), parallel=parallel)
    for shard in range(shards):
        ordinal = draw(st.integers(0, replicas))
        if ordinal:
            made.take(MoveRoles({shard: ordinal}))
    made.moved.clear()
    for member in made.spec.members:
        made.pods[member] = PodState(member, outdated=draw(st.booleans()))
    return made


@given(made=scenes())
@settings(max_examples=30, deadline=None)
def test_it_ends_with_every_outdated_pod_replaced_once_and_no_other(made: Scene) -> None:
    outdated = sorted(member for member, pod in made.pods.items() if pod.outdated)
    made.roll()
    assert sorted(made.replaced) == outdated
    assert made.next() == Finished()
    assert len(made.moved) <= made.spec.shards, "a role moves once a shard at most"


@given(made=scenes(), data=st.data())
@settings(max_examples=30, deadline=None)
def test_stopped_anywhere_and_disturbed_it_goes_on(made: Scene, data: st.DataObject) -> None:
    """Between two steps a Pod may be lost, roles may move, and a new template may come."""
    for _ in range(60):
        step = made.next()
        if isinstance(step, Finished):
            break
        made.take(step)
        fault = data.draw(st.sampled_from(["", "", "", "lost", "moved", "template"]))
        members = sorted(made.pods)
        member = data.draw(st.sampled_from(members))
        # With fewer shards nobody would elect a lost primary's heir.
        if fault == "lost" and made.spec.replicas and (made.spec.shards >= 3 or not made.world.at(member).slots):
            made.world.fresh(member)
            made.pods[member] = PodState(member)
            made.world.settle()
            made.heal()
        elif fault == "moved" and made.spec.replicas and not made.world.at(member).slots:
            made.take(MoveRoles({member.shard: member.ordinal}))
        elif fault == "template":
            made.pods = {m: replace(pod, outdated=True) for m, pod in made.pods.items()}
    made.roll()
    made.world.check()
    assert made.next() == Finished()


@given(made=scenes(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_wrong_nothing_that_serves_goes(made: Scene, data: st.DataObject) -> None:
    """Any members silent, any Pods away, any links down: what is replaced runs not, or isn't needed."""
    view = made.world.view()
    for member in made.spec.members:
        how = data.draw(st.sampled_from(["", "", "", "absent", "silent", "stopped", "going", "unlinked"]))
        if how in ("absent", "stopped", "going"):
            view = absent(view, member)
            facts = {"absent": {"exists": False}, "stopped": {"runs": False}, "going": {"terminating": True}}[how]
            made.pods[member] = replace(made.pods[member], **facts)
        elif how == "silent":
            view = unreachable(view, member)
        elif how == "unlinked" and (link := view.nodes[member].link):
            view = change(view, member, link=replace(link, up=False))
    step = plan_roll(made.spec, view, made.pods, made.terms)
    if isinstance(step, Replace):
        for member in step.members:
            pod, node = made.pods[member], view.nodes.get(member)
            assert pod.outdated
            assert pod.exists
            if pod.runs and made.spec.replicas:
                assert node is None or not node.slots, "it doesn't serve"
                owners = [m for m, other in view.nodes.items() if m.shard == member.shard and other.slots]
                assert owners, "somebody else does"
