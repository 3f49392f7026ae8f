"""When nothing is left to elect with, or nothing to elect: what a person declared, and what nobody may decide alone."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.dataplane import views
from tests.unit.dataplane.views import S00, S01, S10, S11, S20, S21, SPEC, absent, change, change_peers, formed
from valkeyctl.dataplane import Absent, Member, View
from valkeyctl.dataplane.steps import AssignSlots, Promote, TakeOver

# --- without a majority ---------------------------------------------------------------------------------------------

TAKEOVER = replace(SPEC, formed=True, takeover_after_s=30.0)


def cut_off(*members: Member, for_s: float = 60.0) -> View:
    """A formed cluster in which these members' Pods are gone, as the others see it."""
    world = formed()
    for member in members:
        world.nodes[world.here.pop(member)].alive = False
    world._notice_the_dead()
    return world.view(for_s=for_s)


def test_nobody_takes_over_without_a_vote_unless_that_was_declared() -> None:
    told = views.waits(SPEC, cut_off(S00, S10, for_s=1e6))
    assert "a majority of the primaries comes back and elects s0-1 in the place of t-s0-0" in told
    assert "as declared" not in told
    assert "declare `takeover: {afterSeconds: …}`" in told


def test_the_best_copies_take_over_once_the_majority_has_been_silent_for_long_enough() -> None:
    assert views.actions(TAKEOVER, cut_off(S00, S10)) == (TakeOver(S01), TakeOver(S11))
    told = views.waits(TAKEOVER, cut_off(S00, S10, for_s=29.0))
    assert "after 30 s it takes over without one, as declared" in told


def test_where_the_majority_answers_nobody_takes_over_without_its_vote() -> None:
    told = views.waits(TAKEOVER, cut_off(S00, for_s=29.0))
    assert "s0-1 takes over from t-s0-0" in told
    assert views.actions(TAKEOVER, cut_off(S00)) == (Promote(S01),), "the server may call its copy too old to ask"
    assert views.actions(SPEC, cut_off(S00)) == ()


def test_voters_that_came_back_empty_are_gone_and_not_waited_for() -> None:
    world = formed()
    for member in (S00, S10):
        world.fresh(member)
    world._notice_the_dead()
    view = world.view(for_s=0.0)
    assert TakeOver(S01) in views.actions(TAKEOVER, view)
    assert TakeOver(S11) in views.actions(TAKEOVER, view)
    for step in views.actions(SPEC, view):
        world.take(step)
    reason = views.blocked(replace(SPEC, formed=True), world.view())
    assert "2 of 3 primaries are gone for good" in reason.reason
    assert "takeover: {afterSeconds: " in reason.remedy


def test_one_voter_that_was_silent_only_now_holds_it_up() -> None:
    view = cut_off(S00, S10)
    view = View({**view.outcomes, S10: Absent(S10, 5.0)})
    assert views.actions(TAKEOVER, view) == ()


def test_a_member_that_may_have_a_better_copy_is_waited_for() -> None:
    spec = replace(TAKEOVER, replicas=2)
    world = formed(spec)
    for member in (S00, S10, Member(0, 2)):
        world.nodes[world.here.pop(member)].alive = False
    world._notice_the_dead()
    view = world.view()
    assert views.actions(spec, view) == (TakeOver(S01), TakeOver(S11))
    late = View({**view.outcomes, Member(0, 2): Absent(Member(0, 2), 5.0)})
    assert views.actions(spec, late) == (TakeOver(S11),)


def test_the_best_copy_has_the_highest_offset() -> None:
    spec = replace(TAKEOVER, replicas=2)
    world = formed(spec)
    for member in (S00, S10):
        world.nodes[world.here.pop(member)].alive = False
    world._notice_the_dead()
    view = change(change(world.view(), S01, offset=100, keys=9), Member(0, 2), offset=101, keys=1)
    assert TakeOver(Member(0, 2)) in views.actions(spec, view)
    assert TakeOver(S01) not in views.actions(spec, view)


def test_a_lost_primary_that_somebody_still_hears_is_not_taken_over_from() -> None:
    view = cut_off(S00, S10)
    gone = next(node_id for node_id, peer in view.nodes[S20].peers.items() if peer.host.startswith("t-s0-0"))
    view = change_peers(view, gone, [S21], lambda p: replace(p, failed=False, suspect=False, linked=True))
    assert not [step for step in views.actions(TAKEOVER, view) if isinstance(step, TakeOver)]


# --- everything gone ------------------------------------------------------------------------------------------------


def test_without_volumes_it_is_formed_anew_when_all_pods_are_gone() -> None:
    spec = replace(SPEC, formed=True)
    assert len([s for s in views.actions(spec, views.World(spec).view()) if isinstance(s, AssignSlots)]) == 3


def test_on_volumes_that_all_came_back_empty_it_is_formed_anew_with_consent_only() -> None:
    spec = replace(SPEC, formed=True, persistent=True)
    world = views.World(spec)
    while steps := views.actions(spec, world.view()):
        assert not [step for step in steps if isinstance(step, AssignSlots)]
        for step in steps:
            world.take(step)
        world.settle()
    what = views.blocked(spec, world.view())
    assert "every disk came back empty" in what.reason
    assert "allowDataLoss" in what.remedy
    consented = replace(spec, accept_data_loss=True)
    assert len([s for s in views.actions(consented, world.view()) if isinstance(s, AssignSlots)]) == 3
    first = replace(spec, formed=False)
    assert len([s for s in views.actions(first, views.World(first).view()) if isinstance(s, AssignSlots)]) == 3


def test_on_volumes_a_member_that_has_not_answered_may_still_have_its_disk() -> None:
    spec = replace(SPEC, formed=True, persistent=True)
    world = views.World(spec)
    for step in views.actions(spec, world.view()):
        world.take(step)
    world.settle()
    told = views.waits(spec, absent(world.view(), S21))
    assert "s2-1: wait until it answers: every other member's disk came back empty" in told
