"""Each rule of the planner by itself: what it does in one view, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane import views
from tests.unit.dataplane.views import S00, S01, S10, S11, S20, S21, SPEC, absent, change, change_peers, formed
from valkeyctl.dataplane import (
    Done,
    Member,
    Phase,
    Role,
    SlotSet,
    Spec,
    Steps,
    Why,
    parse_layout,
    plan,
    plan_moves,
    planned_layout,
)
from valkeyctl.dataplane import report as report_of
from valkeyctl.dataplane.model import Migration
from valkeyctl.dataplane.steps import (
    AssignSlots,
    CloseSlot,
    Detach,
    DropSlots,
    Forget,
    Introduce,
    MigrateSlots,
    MoveKeys,
    Promote,
    Remind,
    Replicate,
    SetEpoch,
    SetNodeTimeout,
)
from valkeyctl.dataplane.view import ReplicaLink

FORMED = replace(SPEC, formed=True)
DOWN = ReplicaLink(up=False, syncing=False, was_up=True)


# --- forming --------------------------------------------------------------------------------------------------------


def test_epochs_and_slots_come_before_anybody_is_introduced() -> None:
    steps = views.actions(SPEC, views.World(SPEC).view())
    assert steps == (
        SetEpoch(S00, 1),
        AssignSlots(S00, SPEC.layout[0]),
        SetEpoch(S10, 2),
        AssignSlots(S10, SPEC.layout[1]),
        SetEpoch(S20, 3),
        AssignSlots(S20, SPEC.layout[2]),
    )


def test_members_without_slots_call_on_primaries_and_each_pair_meets_once() -> None:
    world = views.World(SPEC)
    for step in views.actions(SPEC, world.view()):
        world.take(step)
    steps = [step for step in views.actions(SPEC, world.view()) if isinstance(step, Introduce)]
    assert len({frozenset((step.member, step.to)) for step in steps}) == len(steps) == 15
    mixed = [step for step in steps if step.member.ordinal != step.to.ordinal]
    assert all(step.to.ordinal == 0 for step in mixed)


def test_a_primary_tells_its_slots_to_who_knows_it_without_them() -> None:
    world = formed()
    owner = world.at(S10)
    view = change_peers(world.view(), owner.node_id, [S21], lambda p: replace(p, slots=SlotSet(), config_epoch=0))
    assert views.actions(SPEC, view) == (Remind(S10, S21),)


def test_at_the_goal_there_is_nothing_to_do() -> None:
    view = formed().view()
    assert plan(SPEC, view) == Done()
    found = report_of(SPEC, view)
    assert found.phase is Phase.READY
    assert all(condition.status == "True" and not condition.message for condition in found.conditions)
    assert found.primaries == {"s0": "t-s0-0", "s1": "t-s1-0", "s2": "t-s2-0"}
    assert found.layout == SPEC.layout
    assert found.server_version == "9.1.2"
    assert all(member.in_sync for member in found.members)


# --- members that don't answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("formed_before", [False, True])
def test_an_unheard_member_is_waited_for_before_slots_are_given_away(formed_before: bool) -> None:  # noqa: FBT001
    """It may own them: a while in a new instance, as long as it takes in one that was Ready."""
    spec = replace(SPEC, formed=formed_before)
    fresh = views.World(spec).view()
    consenting = replace(spec, accept_data_loss=True)
    at_first, later = absent(fresh, S21, for_s=1.0), absent(fresh, S21, for_s=60.0)
    assert "s2-1 answers: it may own slots 0-5460" in repr(plan(spec, at_first))
    assert not [step for step in views.actions(spec, at_first) if isinstance(step, AssignSlots)]
    assert (AssignSlots(S00, SPEC.layout[0]) in views.actions(spec, later)) is not formed_before
    assert AssignSlots(S00, SPEC.layout[0]) in views.actions(consenting, later)


def test_nobody_is_attached_to_a_primary_before_it_owns_slots() -> None:
    """Until then a member that has the data may still turn up."""
    world = views.World(SPEC)
    for member in SPEC.members:
        world._meet(world.at(S00), world.at(member))
    world._gossip()
    world.remove(S21)
    view = world.view(for_s=1.0)
    view = change_peers(view, views.World(SPEC).at(S21).node_id, SPEC.members[:5], lambda _: None)
    assert views.actions(SPEC, view) == ()


def test_another_ordinal_is_primary_where_the_first_never_comes() -> None:
    steps = views.actions(SPEC, absent(views.World(SPEC).view(), S00, for_s=60.0))
    assert AssignSlots(S01, SPEC.layout[0]) in steps


@pytest.mark.parametrize("why", [Why.NO_ANSWER, Why.CONNECT_FAILED, Why.LOADING, Why.NOT_UNDERSTOOD, Why.ERROR_REPLY])
def test_an_unreachable_member_is_waited_for_and_neither_forgotten_nor_replaced(why: Why) -> None:
    for member in (S00, S01):
        told = views.waits(SPEC, views.unreachable(formed().view(), member, why))
        assert f"{member}: wait until it answers (t-{member}: {why.value})" in told


@pytest.mark.parametrize("why", [Why.AUTH_FAILED, Why.RIGHT_MISSING])
def test_a_refused_login_or_right_needs_a_person(why: Why) -> None:
    view = views.unreachable(formed().view(), S21, why)
    assert why.value in views.blocked(SPEC, view).reason
    assert views.blocked(SPEC, view).members == (S21,)


def test_a_loading_member_keeps_its_entry_and_a_former_one_of_its_place_goes() -> None:
    world = formed()
    now, former = world.at(S21).node_id, views.stranger(7, host=world.endpoint(world.at(S21)).host, slots=SlotSet())
    view = views.add_peer(world.view(), former, [S00])
    view = views.unreachable(view, S21, Why.LOADING, node_id=now)
    assert views.actions(SPEC, view) == (Forget(S00, former.node_id, "s2-1"),)


def test_a_cut_off_primary_that_the_others_reach_is_waited_for() -> None:
    told = views.waits(SPEC, views.unreachable(formed().view(), S00))
    assert "t-s0-0.headless.test.svc" in told
    assert "the others reach it" in told


# --- lost owners ----------------------------------------------------------------------------------------------------


def test_nobody_is_forgotten_while_a_replica_may_take_over() -> None:
    world = formed()
    gone = world.at(S00).node_id
    world.fresh(S00)
    world._notice_the_dead()
    view = world.view()
    assert not [step for step in views.actions(SPEC, view) if isinstance(step, Forget | AssignSlots)]
    what = plan(SPEC, view)
    assert isinstance(what, Steps)
    assert any("s0-1 takes over from t-s0-0" in line for line in what.describe())
    world.settle()
    forgets = [step for step in views.actions(SPEC, world.view()) if isinstance(step, Forget)]
    assert {step.member for step in forgets} == {S01, S10, S11, S20, S21}
    assert {step.node_id for step in forgets} == {gone}


@pytest.mark.parametrize(("tellers", "told"), [([S01], "s0-1 remembers "), ([S01, S10], "s0-1, s1-0 remember ")])
def test_who_remembers_a_node_that_is_gone_is_told_in_good_english(tellers: list[Member], told: str) -> None:
    gone = views.stranger(5, host="t-s9-0.headless.test.svc", slots=SlotSet(), failed=True, linked=False)
    condition = report_of(SPEC, views.add_peer(formed().view(), gone, tellers)).condition("MembersKnown")
    assert condition.message.startswith(told)


def test_a_lost_owner_is_kept_while_an_absent_replica_may_have_its_data() -> None:
    world = formed()
    world.fresh(S00)
    world._notice_the_dead()
    view = absent(world.view(), S01)
    assert not [step for step in views.actions(SPEC, view) if isinstance(step, Forget | AssignSlots)]
    what = plan(SPEC, view)
    assert isinstance(what, Steps)
    assert any("may have the only copy of the data of t-s0-0" in line for line in what.describe())


def test_a_replica_of_another_shards_lost_owner_is_not_taken_from_it() -> None:
    """By hand s1-1 copies shard 0; then shard 0's members are lost: s1-1 has the only copy."""
    world = formed()
    owner = world.at(S00).node_id
    world.at(S11).primary_id = owner
    world.settle()
    world.fresh(S00)
    world.fresh(S01)
    world._notice_the_dead()
    steps = views.actions(SPEC, world.view())
    assert not [step for step in steps if isinstance(step, Replicate | AssignSlots)]
    assert not [step for step in steps if isinstance(step, Forget) and step.node_id == owner]


def test_a_lost_owner_that_others_still_reach_is_not_replaced() -> None:
    world = formed(keys=False)
    world.at(S01).linked = False
    world.fresh(S00)
    view = change(world.view(), S01, link=replace(DOWN, was_up=False))
    assert not [step for step in views.actions(SPEC, view) if isinstance(step, AssignSlots | Forget)]


def test_asks_for_the_election_that_a_restarted_replica_does_not_ask_for() -> None:
    world = formed()
    world.fresh(S00)
    world._notice_the_dead()
    for step in views.actions(SPEC, world.view()):
        world.take(step)
    restarted = change(world.view(), S01, link=replace(DOWN, was_up=False))
    assert Promote(S01) in views.actions(SPEC, restarted)
    linked_before = change(world.view(), S01, link=DOWN)
    assert Promote(S01) not in views.actions(SPEC, linked_before), "the server does it by itself"
    assert Promote(S01) not in views.actions(SPEC, absent(restarted, S00)), "a better copy may be away"


def test_nobody_is_forgotten_while_an_election_is_due_in_another_shard() -> None:
    world = formed()
    world.fresh(S21)
    world.fresh(S00)
    world._notice_the_dead()
    for step in views.actions(SPEC, world.view()):
        world.take(step)
    what = plan(SPEC, world.view())
    assert isinstance(what, Steps)
    assert any("s0-1 takes over from t-s0-0" in line for line in what.describe())
    assert not [step for step in what.actions if isinstance(step, Forget)]
    world.settle()
    assert [step for step in views.actions(SPEC, world.view()) if isinstance(step, Forget)]


# --- replicas -------------------------------------------------------------------------------------------------------


def test_a_primary_without_slots_that_holds_keys_is_left_to_a_person() -> None:
    view = formed().view()
    node = view.nodes[S01]
    view = change(view, S01, role=Role.PRIMARY, primary_id="", link=None, keys=9)
    assert node.role is Role.REPLICA
    assert "s0-1 is a primary without slots and holds 9 keys; s0-0 owns" in views.blocked(SPEC, view).reason
    assert views.actions(SPEC, change(view, S01, keys=0)) == (Replicate(S01, S00, view.nodes[S00].node_id),)


def test_a_replica_with_keys_never_follows_an_empty_primary() -> None:
    """Its own primary is gone, and what owns the slots now holds nothing."""
    view = formed().view()
    gone = views.stranger(5, host="t-s0-0.headless.test.svc", slots=SlotSet(), failed=True, linked=False)
    view = change(view, S00, keys=0)
    view = change(view, S01, primary_id=gone.node_id, link=DOWN, keys=4)
    view = views.add_peer(view, gone, [S01])
    reason = views.blocked(SPEC, view).reason
    assert "s0-1 holds 4 keys of a primary that is gone; s0-0, which owns the slots, holds none" in reason


@pytest.mark.parametrize(
    ("offsets", "synced"), [((100, 100), True), ((100, 50), True), ((3 << 20, 1 << 20), False), ((50, 100), True)]
)
def test_in_sync_means_that_the_offset_is_caught_up(offsets: tuple[int, int], synced: bool) -> None:  # noqa: FBT001
    view = change(change(formed().view(), S00, offset=offsets[0]), S01, offset=offsets[1])
    assert isinstance(plan(SPEC, view), Done) is synced
    assert report_of(SPEC, view).condition("ReplicasInSync").status == ("True" if synced else "False")


@pytest.mark.parametrize("link", [DOWN, replace(DOWN, up=True, syncing=True)])
def test_a_replica_that_is_not_linked_is_waited_for(link: ReplicaLink) -> None:
    assert "s0-1: wait until it is in sync with s0-0" in views.waits(SPEC, change(formed().view(), S01, link=link))


def test_where_all_members_of_a_shard_replicate_others_one_is_freed() -> None:
    world = formed(replace(SPEC, layout=parse_layout({0: "0-8000", 1: "8001-16383", 2: ""}), explicit=True))
    spec = world.spec
    for member in (S20, S21):
        node = world.at(member)
        node.role, node.primary_id, node.slots = Role.REPLICA, world.at(S00).node_id, SlotSet()
    world.settle()
    assert views.actions(spec, world.view()) == (Detach(S20),)
    assert "in sync" in views.waits(spec, change(change(world.view(), S20, link=DOWN), S21, link=DOWN))


# --- slots ----------------------------------------------------------------------------------------------------------


def test_deleted_slots_go_back_to_whom_the_others_believe_to_own_them() -> None:
    """Also those outside the planned layout: what others remember counts as the shard's."""
    made_as = parse_layout({0: "0-5461", 1: "5462-10922", 2: "10923-16383"})
    world = formed(replace(SPEC, layout=made_as, explicit=True))
    world.at(S00).slots -= SlotSet.span(5000, 5461)
    steps = views.actions(SPEC, world.view())
    assert [step for step in steps if isinstance(step, AssignSlots)] == [
        AssignSlots(S00, SlotSet.span(5000, 5461), raise_epoch=True)
    ]


def test_what_a_primary_wrongly_believes_is_dropped_before_it_is_given_the_slots() -> None:
    declared = replace(SPEC, layout=parse_layout({0: "0-5400", 1: "5401-10921", 2: "10922-16383"}), explicit=True)
    world = formed()
    world.at(S00).slots -= SlotSet.span(5401, 5460)
    steps = views.actions(declared, world.view())
    assert DropSlots(S10, SlotSet.span(5401, 5460)) in steps
    assert not [step for step in steps if isinstance(step, AssignSlots)]


def test_slots_of_living_shards_are_moved_as_declared() -> None:
    declared = replace(SPEC, layout=parse_layout({0: "0-99", 1: "100-10921", 2: "10922-16383"}), explicit=True)
    world = formed()
    to_id = world.at(S10).node_id
    assert views.actions(declared, world.view()) == (MigrateSlots(S00, S10, to_id, SlotSet.span(100, 5460)),)
    unseen = replace(declared, may_move=False)
    assert "5361 slots are with another shard than declared" in views.blocked(unseen, world.view()).reason
    assert report_of(declared, formed().view()).condition("SlotsCovered").reason == "SlotsElsewhere"


def test_of_two_owners_in_a_shard_the_empty_one_gives_way() -> None:
    world = formed()
    world.at(S00).slots -= SlotSet.span(0, 9)
    view = change(world.view(), S01, role=Role.PRIMARY, primary_id="", link=None, slots=SlotSet.span(0, 9), keys=0)
    assert DropSlots(S01, SlotSet.span(0, 9)) in views.actions(SPEC, view)
    both = change(view, S01, keys=1)
    assert DropSlots(S01, SlotSet.span(0, 9)) not in views.actions(SPEC, both)


def test_strangers_that_claim_the_same_slots_are_kept_apart() -> None:
    world = views.World(SPEC)
    for member in (S00, S10):
        world.at(member).slots = SlotSet.span(0, 5460)
        world.at(member).data = frozenset({(0, str(member))})
    what = plan(SPEC, world.view())
    assert "don't know each other, both claim slots 0-5460, and both hold keys" in repr(what)
    world.at(S20).slots, world.at(S20).epoch = SPEC.layout[2], 3
    assert not [step for step in views.actions(SPEC, world.view()) if isinstance(step, Introduce)]
    world.at(S10).data = frozenset()
    assert DropSlots(S10, SlotSet.span(0, 5460)) in views.actions(SPEC, world.view())


def test_who_leaves_and_owns_nothing_is_neither_waited_for_nor_missed() -> None:
    """A scale-out that is taken back before its Pods fitted anywhere."""
    spec = replace(FORMED, leaving=(Member(3, 0), Member(3, 1)))
    view = absent(formed().view(), *spec.leaving)
    assert plan(spec, view) == Done()
    told = report_of(spec, view)
    assert [one.type for one in told.conditions if one.status != "True"] == []


def test_open_slots_are_closed_on_every_node_a_replicas_through_its_primary() -> None:
    world = formed()
    one, other = world.at(S00).node_id, world.at(S10).node_id
    view = change(world.view(), S00, migrating={77: other})
    view = change(view, S11, importing={77: one})
    assert views.actions(SPEC, view) == (CloseSlot(S00, 77),), "the owner first"
    assert views.actions(SPEC, change(view, S00, migrating={})) == (CloseSlot(S10, 77),)
    assert report_of(SPEC, view).condition("NoOpenSlots").reason == "OpenSlots"
    half_moved = change(view, S10, open_slot_keys={77: 2})
    assert [(type(step), step.member) for step in views.actions(SPEC, half_moved)] == [(MoveKeys, S00)]
    elsewhere = change(view, S20, open_slot_keys={77: 2})
    assert "slot 77 is half moved: s0-0 owns it and s2-0 holds keys of it" in views.blocked(SPEC, elsewhere).reason


def test_an_open_slot_whose_other_end_is_away_is_left_open() -> None:
    world = formed()
    view = change(world.view(), S00, migrating={77: world.at(S10).node_id})
    assert not [s for s in views.actions(SPEC, views.unreachable(view, S10)) if isinstance(s, CloseSlot)]


def test_keys_in_other_databases_are_never_taken_for_moved() -> None:
    """Servers count and send the keys of a slot in one database; the slot changes hands in all of them."""
    world = formed()
    other = world.at(S10).node_id
    begun = change(world.view(), S00, migrating={77: other})
    by_name = replace(SPEC, layout=parse_layout({0: "0-99", 1: "100-10921", 2: "10922-16383"}), explicit=True)
    by_keys = replace(by_name, migration=Migration(method="keys"))
    assert [type(step) for step in views.actions(by_keys, world.view())] == [MoveKeys]
    several = change(world.view(), S00, other_databases=True)
    assert "s0-0 holds keys in other databases than 0" in views.blocked(by_keys, several).reason
    assert [type(step) for step in views.actions(by_name, several)] == [MigrateSlots], "servers move them all"
    # What is open: closed where the other end can't hold a key of it, and else left to a person.
    assert views.actions(SPEC, change(begun, S00, other_databases=True)) == (CloseSlot(S00, 77),)
    half_moved = change(change(begun, S00, other_databases=True), S10, open_slot_keys={77: 2})
    assert "s0-0 holds keys in other databases" in views.blocked(SPEC, half_moved).reason
    assert "s1-0 holds keys in other databases" in views.blocked(SPEC, change(begun, S10, other_databases=True)).reason


def test_slots_never_go_to_a_server_that_cant_read_them() -> None:
    """An upgrade that stopped half way: what was upgraded may take, and can't give."""
    declared = replace(SPEC, layout=parse_layout({0: "0-99", 1: "100-10921", 2: "10922-16383"}), explicit=True)
    newer_gives = change(formed().view(), S10, version="8.1.8")
    blocked = views.blocked(declared, newer_gives)
    assert "s0-0 runs Valkey 9.1.2 and s1-0 8.1.8, which can't read keys of a newer server" in blocked.reason
    assert "as they were until" in blocked.remedy
    older_gives = change(formed().view(), S00, version="8.1.8")
    assert [type(step) for step in views.actions(declared, older_gives)] == [MoveKeys]


def test_a_slot_that_was_left_open_doesnt_make_all_others_go_key_by_key() -> None:
    declared = replace(SPEC, layout=parse_layout({0: "0-99", 1: "100-10921", 2: "10922-16383"}), explicit=True)
    world = formed()
    begun = change(world.view(), S00, migrating={177: world.at(S10).node_id})
    [step] = views.actions(declared, begun)
    assert isinstance(step, MoveKeys)
    assert step.slots == step.begun == SlotSet.span(177, 177)
    by_keys = replace(declared, migration=Migration(method="keys"))
    [step] = views.actions(by_keys, begun)
    assert isinstance(step, MoveKeys)
    assert len(step.slots) > 1


def test_the_same_piece_is_asked_for_again_while_clients_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is counted by its step."""
    monkeypatch.setattr(plan_moves, "MOST_KEYS_AT_ONCE", 1000)
    monkeypatch.setattr(plan_moves, "MOST_OPEN_KEYS", 100)
    declared = replace(SPEC, layout=parse_layout({0: "0-99", 1: "100-10921", 2: "10922-16383"}), explicit=True)
    view = formed().view()
    for spec in (declared, replace(declared, migration=Migration(method="keys"))):
        pieces = {views.actions(spec, change(view, S00, keys=40_000 + written)) for written in (0, 7, 300, 1000)}
        assert len(pieces) == 1


# --- addresses and foreign nodes ------------------------------------------------------------------------------------


def test_a_member_with_a_new_address_is_introduced_again_at_that_address() -> None:
    world = formed()
    world.at(S10).address = "10.0.7.7"
    steps = views.actions(SPEC, world.view())
    assert {frozenset((step.member, step.to)) for step in steps} == {
        frozenset((S10, member)) for member in SPEC.members if member != S10
    }
    assert all(isinstance(step, Introduce) for step in steps)


def test_a_broken_link_to_the_right_address_is_left_to_the_server() -> None:
    world = formed()
    view = change_peers(world.view(), world.at(S10).node_id, [S21], lambda p: replace(p, linked=False))
    assert "s2-1: wait until it knows s1-0" in views.waits(SPEC, view)


def test_an_introduction_under_way_is_not_begun_again() -> None:
    world = formed()
    world.at(S10).address = "10.0.7.7"
    temporary = views.stranger(3, handshake=True, host="", slots=SlotSet())
    under_way = replace(temporary, address="10.0.7.7", port=6379)
    view = views.add_peer(world.view(), under_way, [m for m in SPEC.members if m != S10])
    assert "it knows" in views.waits(SPEC, view)


FOREIGN = [
    views.stranger(1),
    views.stranger(2, slots=SlotSet()),
    views.stranger(3, failed=True),
    views.stranger(4, host="t-s0-0.headless.other.svc"),
    views.stranger(5, host=""),
]


@pytest.mark.parametrize("peer", FOREIGN)
def test_nothing_is_done_beside_somebody_elses_node(peer: object) -> None:
    view = views.add_peer(formed().view(), peer, [S20])  # type: ignore[arg-type]
    view = change(view, S01, role=Role.PRIMARY, primary_id="", link=None, keys=0)  # there would be something to do
    what = views.blocked(SPEC, view)
    assert "s2-0 is in one cluster with" in what.reason
    assert "belongs to somebody else" in what.reason
    assert what.members == (S20,)


def test_two_members_with_one_id_are_left_to_a_person() -> None:
    world = formed()
    view = change(world.view(), S21, node_id=world.at(S11).node_id)
    assert "s1-1 and s2-1 are one node to the cluster" in views.blocked(SPEC, view).reason


def test_a_dead_entry_that_owns_nothing_is_forgotten_whoever_it_was() -> None:
    for host in ("", "u-s0-0.headless.test.svc", "t-s2-1.headless.test.svc", "t-s9-0.headless.test.svc"):
        peer = views.stranger(8, host=host, failed=True, linked=False, slots=SlotSet())
        steps = views.actions(SPEC, views.add_peer(formed().view(), peer, [S00, S21]))
        assert [(step.member, type(step)) for step in steps] == [(S00, Forget), (S21, Forget)]


def test_a_node_that_has_not_told_its_name_yet_is_waited_for() -> None:
    peer = views.stranger(8, host="", slots=SlotSet())
    assert "hears the name of 10.9.9.8:6379" in views.waits(SPEC, views.add_peer(formed().view(), peer, [S00]))
    nobody = replace(peer, suspect=True)
    steps = views.actions(SPEC, views.add_peer(formed().view(), nobody, [S00]))
    assert [type(step) for step in steps] == [Forget]


def test_slots_on_a_member_that_is_not_declared_any_more_are_left_there() -> None:
    world = formed(Spec("t", 4, 0, planned_layout(4)))
    fewer = Spec("t", 3, 0, planned_layout(3))
    view = world.view()
    view = views.View({m: o for m, o in view.outcomes.items() if m.shard < 3})
    what = views.blocked(fewer, view)
    assert "t-s3-0" in what.reason
    assert "isn't declared" in what.reason


# --- the node timeout -----------------------------------------------------------------------------------------------


TIMED = replace(SPEC, node_timeout_ms=15000)


def test_primaries_that_only_wait_for_the_timeout_get_a_short_one_for_a_moment() -> None:
    view = views.change_all(formed().view(), node_timeout_ms=15000)
    assert plan(TIMED, view) == Done()
    waiting = change(change(view, S00, state_ok=False), S01, state_ok=False)
    assert views.actions(TIMED, waiting) == (SetNodeTimeout(S00, 500),)
    short = change(waiting, S00, node_timeout_ms=500)
    assert "s0-0: wait until it calls the cluster's state ok" in views.waits(TIMED, short)
    served = change(view, S00, node_timeout_ms=500)
    assert views.actions(TIMED, served) == (SetNodeTimeout(S00, 15000),)


def test_a_short_timeout_is_put_back_as_soon_as_anything_else_is_the_matter() -> None:
    view = views.change_all(formed().view(), node_timeout_ms=15000, state_ok=False)
    view = change(view, S00, node_timeout_ms=500)
    assert SetNodeTimeout(S00, 15000) in views.actions(TIMED, absent(view, S21))
    assert SetNodeTimeout(S00, 15000) in views.actions(TIMED, change(view, S21, link=DOWN))


def test_the_timeout_is_left_alone_where_nobody_said_what_it_is_to_be() -> None:
    view = views.change_all(formed().view(), state_ok=False)
    assert "calls the cluster's state ok" in views.waits(SPEC, view)
