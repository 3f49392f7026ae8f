"""The rules for planned handovers, each by itself: when a role moves, and when it is left where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane import views
from tests.unit.dataplane.views import S00, S01, S10, S11, S20, S21, SPEC, absent, change, change_peers, formed
from valkeyctl.dataplane import Done, Member, Phase, Role, Steps, View, planned_layout
from valkeyctl.dataplane import plan as plan_of
from valkeyctl.dataplane import report as report_of
from valkeyctl.dataplane.model import Spec
from valkeyctl.dataplane.plan_roles import leaving_primaries, plan_retreat, plan_roles
from valkeyctl.dataplane.steps import Forget, HandOver, describe_all
from valkeyctl.dataplane.view import ReplicaLink

WANTED = replace(SPEC, formed=True, primaries={0: 1, 2: 1})
DOWN = ReplicaLink(up=False, syncing=False, was_up=True)


def handovers(spec: Spec, view: View) -> list[HandOver]:
    return [step for step in views.actions(spec, view) if isinstance(step, HandOver)]


def test_a_role_moves_to_where_it_is_declared_one_shard_at_a_time() -> None:
    world = formed()
    assert handovers(WANTED, world.view()) == [HandOver(S01, S00)]
    world.take(HandOver(S01, S00))
    world.settle()
    assert handovers(WANTED, world.view()) == [HandOver(S21, S20)]
    world.take(HandOver(S21, S20))
    world.settle()
    assert plan_of(WANTED, world.view()) == Done()
    world.check()


def test_roles_that_are_there_and_shards_that_are_not_named_are_left_alone() -> None:
    assert plan_of(replace(SPEC, primaries={0: 0, 1: 0}), formed().view()) == Done()


def test_until_it_moves_it_is_not_done_and_says_why() -> None:
    view = change(formed().view(), S01, link=DOWN)
    what = plan_of(WANTED, view)
    assert isinstance(what, Steps)
    assert handovers(WANTED, view) == [HandOver(S21, S20)], "the other shard needn't wait"
    assert "s0-1: wait until it is in sync with s0-0" in what.describe()


@pytest.mark.parametrize("ordinal", [0, 1])
def test_no_role_moves_while_somebody_is_to_be_elected(ordinal: int) -> None:
    world = formed()
    lost = Member(1, 0)
    view = absent(change_peers(world.view(), world.at(lost).node_id, [S00, S01, S11, S20, S21], _failed), lost)
    assert handovers(replace(WANTED, primaries={0: ordinal, 2: 1}), view) == []


def _failed(peer: views.Peer) -> views.Peer:
    return replace(peer, failed=True, linked=False)


def test_no_role_moves_to_whom_the_voters_do_not_know() -> None:
    world = formed()
    view = change_peers(world.view(), world.at(S01).node_id, [S00, S10, S20], lambda p: replace(p, linked=False))
    assert HandOver(S01, S00) not in handovers(WANTED, view)


@pytest.mark.parametrize("member", [S00, S01])
def test_no_role_moves_while_a_slot_of_its_shard_is_open(member: Member) -> None:
    world = formed()
    view = change(world.view(), member, importing={5: world.at(S10).node_id})
    assert handovers(WANTED, view) == []


def test_nothing_else_is_done_in_the_same_round() -> None:
    world = formed()
    world.at(S11).role, world.at(S11).primary_id, world.at(S11).data = Role.PRIMARY, "", frozenset()
    view = world.view()
    assert views.actions(WANTED, view)
    assert handovers(WANTED, view) == []


def test_members_that_do_not_exist_cannot_be_named() -> None:
    with pytest.raises(ValueError, match="no member s0-2"):
        replace(SPEC, primaries={0: 2})
    with pytest.raises(ValueError, match="no member s3-0"):
        replace(SPEC, primaries={3: 0})


def test_a_role_elsewhere_is_no_fault_where_nobody_declares_it() -> None:
    world = formed()
    world.take(HandOver(S01, S00))
    world.settle()
    assert report_of(replace(SPEC, formed=True), world.view()).phase is Phase.READY


def test_many_handovers_are_told_in_one_line() -> None:
    steps = [HandOver(Member(shard, 1), Member(shard, 0)) for shard in range(6)]
    assert describe_all(steps) == ("take the primaries' roles over at s0-1, s1-1, s2-1, s3-1, s4-1, s5-1",)


# --- roles alone -----------------------------------------------------------------------------------------------------


def test_roles_alone_do_not_ask_whether_the_former_primary_follows() -> None:
    world = formed()
    world.take(HandOver(S01, S00))
    world.settle()
    view = change(world.view(), S00, link=DOWN)
    assert plan_roles(replace(SPEC, primaries={0: 1}), view) == Done()
    assert isinstance(plan_of(replace(SPEC, primaries={0: 1}), view), Steps)


def test_roles_alone_wait_for_a_shard_without_a_primary() -> None:
    view = absent(formed().view(), S00)
    assert isinstance(plan_roles(replace(SPEC, primaries={0: 1}), view), Steps)


# --- members that go -------------------------------------------------------------------------------------------------

WIDE = Spec("t", 3, 2, planned_layout(3), formed=True)


def test_primaries_among_those_that_go_hand_over_to_the_best_that_stays() -> None:
    assert plan_retreat(WIDE, formed(WIDE).view(), keep=2) == Done()
    world = formed(replace(WIDE, primaries={1: 2}))
    view = world.view()
    assert [node.member for node in leaving_primaries(WIDE, view, keep=2)] == [Member(1, 2)]
    ahead = change(view, Member(1, 1), offset=100)
    ahead = change(ahead, Member(1, 2), offset=100)
    assert plan_retreat(WIDE, ahead, keep=2) == Steps((HandOver(Member(1, 1), Member(1, 2)),))


def test_none_goes_while_none_that_stays_is_in_sync_or_the_primary_is_unknown() -> None:
    world = formed(replace(WIDE, primaries={1: 2}))
    behind = change(change(world.view(), Member(1, 0), link=DOWN), Member(1, 1), link=DOWN)
    what = plan_retreat(WIDE, behind, keep=2)
    assert isinstance(what, Steps)
    assert not what.actions
    what = plan_retreat(WIDE, absent(world.view(), Member(1, 2)), keep=2)
    assert isinstance(what, Steps)
    assert not what.actions


def test_members_that_were_taken_out_are_waited_for_and_then_forgotten() -> None:
    world = formed(WIDE)
    view = world.view()
    narrow = replace(SPEC, formed=True)
    left = View({member: outcome for member, outcome in view.outcomes.items() if member.ordinal < 2})
    told = views.waits(narrow, left)
    assert "which isn't declared any more, has gone" in told
    for shard in range(3):
        gone = world.at(Member(shard, 2)).node_id
        left = change_peers(left, gone, list(left.nodes), _failed)
    assert {type(step) for step in views.actions(narrow, left)} == {Forget}
