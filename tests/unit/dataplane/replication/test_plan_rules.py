"""Each rule of the planner by itself: what it does in one view, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.replication.world import PORT, World
from valkeyctl.dataplane import Absent, Blocked, Done, Member, Phase, Role, Unreachable, Why
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.replication.history import Lineage
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.replication.steps import (
    AbortHandOver,
    Action,
    Announce,
    Demote,
    HandOver,
    Promote,
    Replicate,
)
from valkeyctl.dataplane.replication.view import Handover, History, Outcome, ReplicationView
from valkeyctl.dataplane.rounds import Round
from valkeyctl.dataplane.view import ReplicaLink

SPEC = ReplicationSpec("t", 2, formed=True)
A, B, C = SPEC.members
DOWN = ReplicaLink(up=False, syncing=False, was_up=True)
NEVER = ReplicaLink(up=False, syncing=False, was_up=False)


def formed(spec: ReplicationSpec = SPEC, writes: int = 3) -> World:
    """A world at its goal, with A as the primary and something written."""
    world = World(replace(spec, formed=False, primary=None))
    for _ in range(3):
        what = plan(world.spec, world.view())
        if isinstance(what, Round):
            for step in what.actions:
                world.take(step)
        world.settle()
    for _ in range(writes):
        world.write(A)
    world.settle()
    world.spec = spec
    return world


def change(view: ReplicationView, member: Member, **facts: object) -> ReplicationView:
    """The same view with some facts of one member changed."""
    return instead(view, member, replace(view.nodes[member], **facts))  # type: ignore[arg-type]


def instead(view: ReplicationView, member: Member, outcome: Outcome) -> ReplicationView:
    """The same view with another outcome for one member."""
    return ReplicationView(view.instance, {**view.outcomes, member: outcome})


def gone(view: ReplicationView, member: Member, for_s: float = 60.0) -> ReplicationView:
    """The same view without a member's Pod, and with the links to it down."""
    for other, node in view.nodes.items():
        if view.member_at(node.upstream) == member:
            view = change(view, other, link=DOWN, cut_off_s=int(for_s))
    return instead(view, member, Absent(member, for_s))


def silent(view: ReplicationView, member: Member, why: Why = Why.NO_ANSWER, for_s: float = 60.0) -> ReplicationView:
    """The same view with a member that doesn't answer, and links to it as they were."""
    return instead(view, member, Unreachable(view.nodes[member].endpoint, why, f"{member}: {why}", for_s=for_s))


def actions(view: ReplicationView, spec: ReplicationSpec = SPEC) -> tuple[Action, ...]:
    """What the planner does."""
    what = plan(spec, view)
    assert isinstance(what, Round), what
    return what.actions


def waits(view: ReplicationView, spec: ReplicationSpec = SPEC) -> str:
    """What the planner waits for, where it does nothing."""
    what = plan(spec, view)
    assert isinstance(what, Round), what
    assert not what.actions
    return "; ".join(what.describe())


def blocked(view: ReplicationView, spec: ReplicationSpec = SPEC) -> Blocked:
    """Why a person is needed."""
    what = plan(spec, view)
    assert isinstance(what, Blocked), what
    return what


def name(member: Member) -> Address:
    return Address(f"t-{member}.headless.test.svc", PORT)


# --- a failover ------------------------------------------------------------------------------------------------------


def test_the_goal_needs_nothing() -> None:
    view = formed().view()
    assert plan(SPEC, view) == Done()
    found = report(SPEC, view)
    assert (found.phase, found.primary, found.server_version) == (Phase.READY, "t-s0-0", "9.1.2")
    assert [(each.state, each.in_sync) for each in found.members] == [
        ("primary", True),
        ("replica", True),
        ("replica", True),
    ]


def test_the_replica_with_most_of_the_stream_becomes_the_primary() -> None:
    view = gone(formed().view(), A)
    history = view.nodes[B].history
    behind = change(view, B, history=replace(history, offset=history.offset - 1), keys=999)
    assert actions(behind) == (Promote(C),)


def test_the_former_primary_is_given_a_while_to_come_back() -> None:
    assert "it answers, or stays away" in waits(gone(formed().view(), A, for_s=1.0))
    assert actions(gone(formed().view(), A, for_s=1.0), replace(SPEC, patience_s=0.0)) == (Promote(B),)


def test_a_replica_that_did_not_answer_is_given_a_while_too() -> None:
    view = silent(gone(formed().view(), A), C, for_s=1.0)
    assert "s0-2: wait until it answers, or stays away" in waits(view)
    assert actions(silent(gone(formed().view(), A), C)) == (Promote(B),)


def test_nobody_is_promoted_while_others_reach_who_does_not_answer_us() -> None:
    assert "others reach it, so it may be the primary" in waits(silent(formed().view(), A))


@pytest.mark.parametrize("why", [Why.AUTH_FAILED, Why.RIGHT_MISSING])
def test_nobody_is_promoted_beside_a_server_that_does_not_let_us_in(why: Why) -> None:
    view = silent(formed().view(), A, why)
    for member in (B, C):
        view = change(view, member, link=DOWN, cut_off_s=60)
    assert "one that doesn't may be it" in blocked(view).reason


def test_an_empty_replica_is_not_promoted_while_another_has_data() -> None:
    view = gone(formed().view(), A)
    empty = History("e" * 40, 0)
    assert actions(change(view, B, keys=0, history=empty, link=NEVER, cut_off_s=None)) == (Promote(C),)


def test_a_stream_of_deletions_is_newer_than_the_keys_that_it_deleted() -> None:
    """All sessions expired over night; the replica that was cut off yesterday still has them."""
    view = gone(formed().view(), A)
    old = replace(view.nodes[C].history, offset=view.nodes[C].history.offset - 10)
    assert actions(change(change(view, B, keys=0), C, history=old, keys=50)) == (Promote(B),)


def test_disks_of_unknown_age_wait_for_those_that_may_be_newer() -> None:
    persistent = replace(SPEC, persistent=True)
    view = gone(formed().view(), A, for_s=9999.0)
    for member in (B, C):
        view = change(view, member, link=NEVER, cut_off_s=None)
    assert "its data may be newer than what is there" in waits(view, persistent)
    assert actions(view, replace(persistent, accept_data_loss=True)) == (Promote(B),)
    # Without volumes a Pod that is gone has taken its data along.
    assert actions(view) == (Promote(B),)


@pytest.mark.parametrize(("cut_off_s", "promoted"), [(5, B), (11, B), (40, A)])
def test_a_log_comes_before_a_replica_that_was_cut_off_before_its_end(cut_off_s: int, promoted: Member) -> None:
    """The former primary started again 5 s ago, with its log, and knows no place in the stream any more."""
    view = formed().view()
    for member in (B, C):
        view = change(view, member, link=DOWN, cut_off_s=cut_off_s)
    back = {"role": Role.REPLICA, "upstream": name(B), "link": NEVER, "has_log": True, "uptime_s": 5, "keys": 3}
    view = change(view, A, history=History("f" * 40, 0), established=False, replicas=(), **back)
    assert actions(view, replace(SPEC, last_primary=0)) == (Promote(promoted),)


def test_of_two_histories_that_parted_the_recorded_or_else_the_newer_one_goes_on() -> None:
    view = gone(formed().view(), A)
    end = view.nodes[B].history.offset
    old = view.nodes[B].history.replication_id
    view = change(view, B, history=History("d" * 40, end + 5, old, end), link=NEVER, cut_off_s=None)
    view = change(view, C, history=History(old, end + 100), link=DOWN)
    assert actions(view) == (Promote(B),)
    assert actions(view, replace(SPEC, last_primary=2)) == (Promote(C),)


def test_of_data_with_nothing_in_common_a_person_has_to_choose() -> None:
    view = formed().view()
    for member, other in ((A, "a"), (B, "b"), (C, "c")):
        view = change(view, member, role=Role.REPLICA, upstream=name(member), link=DOWN, cut_off_s=60)
        view = change(view, member, history=History(other * 40, 500), established=False)
    error = blocked(view)
    assert "nothing tells whose data is newest: s0-0 (3 keys), s0-1 (3 keys), s0-2 (3 keys)" in error.reason
    more = change(view, C, keys=4)
    assert actions(more, replace(SPEC, accept_data_loss=True)) == (Promote(C),)


def test_a_dataset_that_replicates_somebody_else_is_not_cut_loose() -> None:
    world = formed()
    theirs = Address("old.example.com", PORT)
    link = ReplicaLink(up=True, syncing=False, was_up=True)
    view = change(world.view(), A, role=Role.REPLICA, upstream=theirs, link=link, established=False)
    error = blocked(view)
    assert "s0-0, which has the most data, replicates old.example.com:6379" in error.reason


def test_where_sentinels_decide_nobody_is_promoted_and_no_role_is_handed_over() -> None:
    elsewhere = replace(SPEC, decided_elsewhere=True, primary=2)
    assert "it is decided who the primary is" in waits(gone(formed().view(), A), elsewhere)
    assert "it can take the primary's role over" in waits(formed().view(), elsewhere)
    # A new dataset has nobody yet to decide it.
    blank = World(SPEC)
    for server in blank.all:
        server.role = Role.REPLICA
    assert Promote(C) in actions(blank.view(), replace(elsewhere, formed=False))


# --- several primaries -----------------------------------------------------------------------------------------------


def stray(world: World, member: Member) -> None:
    """By hand: a replica is made a primary."""
    server = world.here[member]
    world.cut_off(server)
    server.role, server.upstream, server.history = Role.PRIMARY, None, world._shifted(server.history)


def test_a_stray_is_attached_again_and_what_it_took_is_told() -> None:
    world = formed()
    stray(world, B)
    assert actions(world.view()) == (Demote(B, A, name(A)),)
    assert "DROPPED" not in actions(world.view())[0].describe()
    world.write(B)
    (step,) = actions(world.view())
    assert "THE 10 BYTES OF WRITES THAT IT TOOK BY ITSELF since they parted ARE DROPPED" in step.describe()


def test_the_recorded_primary_stays_even_if_others_follow_the_stray() -> None:
    world = formed()
    stray(world, B)
    world.here[C].upstream = B
    world.settle()
    world.write(A)
    world.write(B)
    view = world.view()
    assert actions(view) == (Demote(A, B, name(B)),)
    assert actions(view, replace(SPEC, last_primary=0)) == (Demote(B, A, name(A)), Replicate(C, A, name(A)))
    found = report(SPEC, view)
    assert found.condition("OnePrimary").message == "s0-0, s0-1 are primaries; s0-1 stays"


def test_without_a_record_or_a_follower_a_person_decides_unless_one_has_it_all() -> None:
    spec = replace(SPEC, replicas=1)
    world = formed(spec)
    stray(world, B)
    world.write(B)
    assert actions(world.view(), spec) == (Demote(A, B, name(B)),), "B has all that A has"
    world.write(A)
    world.here[A].log += (7, 8)
    error = blocked(world.view(), spec)
    assert "s0-0 and s0-1 are primaries" in error.reason
    assert actions(world.view(), replace(spec, accept_data_loss=True)) == (Demote(B, A, name(A)),)
    decided = replace(spec, decided_elsewhere=True)
    assert "it is decided who of s0-0 and s0-1 is the primary" in waits(world.view(), decided)
    assert actions(world.view(), replace(decided, last_primary=1)) == (Demote(A, B, name(B)),)


def test_a_primary_that_came_back_from_an_old_disk_steps_back_before_another_is_promoted() -> None:
    """It took nothing since; whoever has more goes on (report F4). At no time are there two."""
    world = formed()
    server = world.here[A]
    old = History(server.history.replication_id, server.history.offset - 10)
    world.remove(A)
    server = world.fresh(A)
    server.log, server.announces = world.here[B].log[:2], True
    server.history = History("9" * 40, old.offset, old.replication_id, old.offset)
    spec = replace(SPEC, last_primary=0)
    assert actions(world.view(), spec) == (Demote(A, B, name(B)),)
    world.take(actions(world.view(), spec)[0])
    assert actions(world.view(), spec) == (Promote(B),)


def test_other_data_on_a_second_primary_is_left_to_a_person() -> None:
    world = formed()
    other = world.fresh(B)
    other.announces, other.log = True, (1, 2)
    spec = replace(SPEC, last_primary=0)
    error = blocked(world.view(), spec)
    assert "s0-1 is a second primary and holds 2 keys that have nothing in common" in error.reason
    assert actions(world.view(), replace(spec, accept_data_loss=True)) == (Demote(B, A, name(A)),)


def test_nobody_is_taken_from_a_primary_that_only_we_cannot_reach() -> None:
    world = formed()
    stray(world, B)
    view = silent(world.view(), A)
    assert "others follow it, so it may be the primary" in waits(view)
    assert Replicate(C, B, name(B)) in actions(view, replace(SPEC, last_primary=1))


# --- replicas and members --------------------------------------------------------------------------------------------


def test_replicas_are_pointed_to_the_primary_by_its_name() -> None:
    view = formed().view()
    for upstream in (name(B), Address("10.0.0.1", PORT), Address("elsewhere.example.com", PORT)):
        assert actions(change(view, C, upstream=upstream)) == (Replicate(C, A, name(A)),)


def test_servers_announce_their_names_first() -> None:
    view = change(formed().view(), B, announces="10.0.0.2")
    assert actions(view) == (Announce(B),)


def test_keys_are_not_copied_away_by_an_empty_primary() -> None:
    world = World(replace(SPEC, formed=False))
    for member in (B, C):
        world.here[member].role = Role.REPLICA
    world.here[B].log, world.here[A].followed = (1, 2), True
    view = world.view()
    for member in world.spec.members:
        view = change(view, member, announces=f"t-{member}.headless.test.svc")
    what = plan(SPEC, view)
    assert isinstance(what, Round)
    assert what.actions == (Replicate(C, A, name(A)),)
    assert what.blocked is not None
    assert "s0-1 holds 2 keys, and s0-0, the primary, is empty and never had them" in what.blocked.reason


def test_a_replica_that_is_behind_is_waited_for() -> None:
    view = formed().view()
    history = view.nodes[B].history
    ahead = change(view, A, history=replace(history, offset=history.offset + (2 << 20)))
    assert "it is in sync with s0-0" in waits(ahead)
    assert report(SPEC, ahead).condition("ReplicasInSync").reason == "NotInSync"


def test_a_server_of_another_kind_or_a_twin_is_refused_before_anything_else() -> None:
    view = change(formed().view(), B, upstream=name(C))
    assert "s0-2 runs in cluster mode" in blocked(change(view, C, cluster_mode=True)).reason
    assert "one and the same server" in blocked(change(view, C, run_id=view.nodes[B].run_id)).reason


# --- handovers -------------------------------------------------------------------------------------------------------


def test_the_role_goes_to_who_is_wished_for_as_the_primary_lists_it() -> None:
    spec = replace(SPEC, primary=2)
    assert actions(formed().view(), spec) == (HandOver(A, C, name(C)),)


@pytest.mark.parametrize("facts", [{"link": DOWN}, {"link": ReplicaLink(up=True, syncing=True, was_up=True)}])
def test_the_role_goes_to_nobody_who_is_not_in_sync(facts: dict[str, object]) -> None:
    view = change(formed().view(), C, **facts)
    assert "it can take the primary's role over" not in waits(view)
    assert "it is in sync" in waits(view, replace(SPEC, primary=2))


def test_a_leaving_primary_hands_over_first_and_leaving_members_are_left_alone() -> None:
    world = formed()
    spec = replace(SPEC, replicas=0, leaving=(B, C))
    assert plan(spec, world.view()) == Done()
    away = ReplicationSpec("t", 1, formed=True)
    kept = ReplicationView("t", {**world.view().outcomes})
    assert plan(replace(away, leaving=(C,)), kept) == Done()
    world.take(HandOver(A, C, name(C)))
    world.settle()
    assert Replicate(B, C, name(C)) in actions(world.view(), replace(away, leaving=(C,)))
    world.here[B].upstream = C
    world.settle()
    assert actions(world.view(), replace(away, leaving=(C,))) == (HandOver(C, A, name(A)),)
    found = report(replace(away, leaving=(C,)), world.view())
    assert found.condition("OnePrimary").reason == "PrimaryLeaves"


def test_while_a_handover_is_under_way_nothing_else_is_done() -> None:
    spec = replace(SPEC, primary=1)
    stuck = change(formed().view(), A, handover=Handover.WAITING)
    stuck = change(stuck, C, upstream=name(B))
    assert actions(stuck, spec) == (AbortHandOver(A),)
    assert "its handover ends" in waits(stuck, replace(spec, decided_elsewhere=True))


def test_a_primary_that_stepped_back_takes_its_role_again_only_if_the_other_has_not_taken_it() -> None:
    view = change(formed().view(), A, role=Role.REPLICA, upstream=name(B), link=DOWN, handover=Handover.RUNNING)
    assert actions(view) == (AbortHandOver(A),)
    taken = change(view, B, role=Role.PRIMARY, upstream=None, link=None)
    assert "its handover ends" in waits(taken)
    assert "its handover ends" in waits(silent(view, B, for_s=1.0))
    assert actions(silent(view, B)) == (AbortHandOver(A),)
    assert actions(gone(view, B)) == (AbortHandOver(A),)


# --- streams ---------------------------------------------------------------------------------------------------------


def test_streams_are_chained_over_what_others_remember() -> None:
    """c was begun from b at 200, b from a at 100; who has c has only been told of b."""
    newest, between, oldest = History("c", 250, "b", 200), History("b", 210, "a", 100), History("a", 120)
    lineage = Lineage([newest, between, oldest])
    assert lineage.contains(newest, History("a", 100))
    assert not lineage.contains(newest, oldest)
    assert lineage.own_bytes(oldest, newest) == 20
    assert lineage.own_bytes(newest, oldest) == 150
    assert lineage.continues(newest, oldest)
    assert not lineage.continues(oldest, newest)
    assert lineage.own_bytes(newest, History("x", 5)) is None
    assert lineage.exceeds(newest, History("b", 200))
    same = History("n", 210, "b", 210)
    both = Lineage([same, between])
    assert both.contains(same, between)
    assert both.contains(between, same)
    assert not both.exceeds(same, between)


def test_a_spec_that_makes_no_sense_is_refused() -> None:
    for wrong in ({"replicas": 6}, {"replicas": 1, "primary": 2}, {"replicas": 1, "leaving": (B,)}):
        with pytest.raises(ValueError, match=r"can't be leaving|there is no member|replicas must be"):
            ReplicationSpec("t", **wrong)  # type: ignore[arg-type]
