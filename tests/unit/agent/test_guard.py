"""When a server may start: each rule by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.agent.guard_cases import node_id
from tests.unit.agent.tales import LAYOUT, P0, P1, P2, R0, R0B, live, log, primary, promoted, replica, snapshot, told
from valkeyctl.agent.guard import RULES, Hold, Rules, Start, decide
from valkeyctl.agent.tale import Data, Follower, Owner, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, SlotSet

NOTHING = Data()
OTHERS = (primary(live(), P1, server=Server.UP), primary(live(), P2, server=Server.UP))


@pytest.mark.parametrize(
    "me",
    [Tale(P0), replica(NOTHING, server=Server.DOWN), replace(primary(NOTHING), slots=EMPTY)],
    ids=["new node", "replica", "no slots"],
)
def test_who_serves_no_slots_starts_at_once(me: Tale) -> None:
    verdict = decide(me, told(replica(live())) if me.member == P0 else {}, 0.0)
    assert isinstance(verdict, Start)
    assert not verdict.warning


@pytest.mark.parametrize("data", [NOTHING, snapshot(400), log()], ids=str)
def test_a_primary_waits_for_its_living_copy_in_sync(data: Data) -> None:
    verdict = decide(primary(data), told(replica(live())), 0.0)
    assert isinstance(verdict, Hold)
    assert "s0-1 (server up) has a copy (live at offset 970)" in str(verdict)


def test_a_primary_with_its_full_log_starts_at_once() -> None:
    verdict = decide(primary(log(full=True)), told(replica(live())), 0.0)
    assert verdict == Start("no other member of its shard has newer data than its own data (full log)")


@pytest.mark.parametrize(
    ("mine", "its", "waits"),
    [
        (snapshot(400), snapshot(401), True),
        (snapshot(400), snapshot(400), False),
        (snapshot(400), snapshot(399), False),
        (snapshot(None), snapshot(0), True),
        (snapshot(None), snapshot(None), False),
        (snapshot(400, place="x" * 40), snapshot(401), True),
        (snapshot(400, place="x" * 40), snapshot(400), False),
        (NOTHING, snapshot(0), True),
        (NOTHING, log(), True),
        (NOTHING, NOTHING, False),
        (log(1000.0), log(1001.5), True),
        (log(1000.0), log(1000.9), False),
        (log(1000.0), snapshot(10**9), False),
        (snapshot(400), log(502.0), True),
        (snapshot(400), log(500.5), False),
        (log(full=True), log(2000.0), False),
    ],
    ids=str,
)
def test_what_is_on_two_disks_is_compared(mine: Data, its: Data, *, waits: bool) -> None:
    verdict = decide(primary(mine), told(replica(its, server=Server.DOWN)), 0.0)
    assert isinstance(verdict, Hold) == waits


def test_a_log_counts_as_newer_only_if_its_server_was_in_sync_to_the_end() -> None:
    later = log(2000.0)
    for synced in (None, False):
        copy = replica(later, server=Server.DOWN, synced=synced)
        assert isinstance(decide(primary(log(1000.0)), told(copy), 0.0), Start)


@pytest.mark.parametrize(("offset", "waits"), [(401, True), (400, False), (70, False)])
def test_a_copy_that_lagged_is_compared_by_its_offset(offset: int, *, waits: bool) -> None:
    copy = replica(live(offset), synced=False)
    assert isinstance(decide(primary(snapshot(400)), told(copy), 0.0), Hold) == waits


def test_a_copy_on_the_last_run_s_stream_is_newer_than_a_snapshot_of_an_earlier_one() -> None:
    mine = snapshot(5000, place="x" * 40)
    assert isinstance(decide(primary(mine), told(replica(live(970))), 0.0), Hold)
    assert isinstance(decide(primary(mine), told(replica(live(970), synced=False)), 0.0), Start)


@pytest.mark.parametrize("kept", [NOTHING, snapshot(), log(), log(full=True)], ids=str)
def test_it_starts_once_another_owns_its_slots_whoever_tells(kept: Data) -> None:
    heir = promoted(replica(live()))
    assert "s0-1 owns its slots by now" in str(decide(primary(kept), told(heir), 0.0))
    hearsay = replace(OTHERS[0], owners=(Owner(heir.node_id, R0, 9, LAYOUT[0]),))
    assert "s0-1 owns its slots by now" in str(decide(primary(kept), told(hearsay), 0.0))


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_owner_of_its_slots_without_a_newer_epoch_is_no_heir(epoch: int) -> None:
    stale = replace(OTHERS[0], owners=(Owner(node_id(R0), R0, epoch, LAYOUT[0]),))
    assert isinstance(decide(primary(NOTHING), told(stale), 0.0), Hold)


def test_an_heir_of_some_slots_leaves_the_others_to_it() -> None:
    taker = replace(OTHERS[0], slots=LAYOUT[1] | SlotSet.span(0, 9), config_epoch=9)
    assert isinstance(decide(primary(NOTHING), told(taker, replica(live())), 0.0), Hold)
    both = told(taker, replace(OTHERS[1], slots=LAYOUT[2] | SlotSet.span(10, 5460), config_epoch=10))
    assert isinstance(decide(primary(NOTHING), both, 0.0), Start)


def test_its_own_newer_epoch_elsewhere_is_no_heir() -> None:
    hearsay = replace(OTHERS[0], owners=(Owner(node_id(P0), P0, 9, LAYOUT[0]),))
    assert isinstance(decide(primary(NOTHING), told(hearsay, replica(live())), 0.0), Hold)


def test_who_does_not_tell_is_waited_for_and_named() -> None:
    me = primary(snapshot(), replicas=(R0, R0B))
    verdict = decide(me, told(replica(NOTHING)), RULES.absent_s - 0.1)
    assert verdict == Hold("not heard yet: s0-2", RULES.absent_s)
    late = decide(me, told(replica(NOTHING)), RULES.absent_s)
    assert isinstance(late, Start)
    assert late.warning
    assert "s0-2" in late.why


def test_declared_members_of_its_shard_are_waited_for_too() -> None:
    me = primary(NOTHING, replicas=())
    assert isinstance(decide(me, {}, 0.0), Start)
    assert decide(me, {}, 0.0, declared=[P0, R0, P1]) == Hold("not heard yet: s0-1", RULES.absent_s)


def test_a_replica_whose_name_nobody_knows_is_waited_for() -> None:
    me = replace(primary(NOTHING), followers=(Follower(node_id(R0), None, node_id(P0)),))
    assert decide(me, {}, 0.0) == Hold("not heard yet: a replica without a name", RULES.absent_s)


def test_a_replica_of_another_is_no_copy() -> None:
    stranger = replace(replica(live()), primary_id=node_id(P1))
    assert isinstance(decide(primary(NOTHING), told(stranger), 0.0), Start)


def test_a_log_need_not_wait_for_the_silent_where_most_primaries_know_of_no_heir() -> None:
    me = primary(log())
    assert isinstance(decide(me, told(*OTHERS), RULES.log_s - 0.1), Hold)
    assert isinstance(decide(me, told(*OTHERS), RULES.log_s), Start)
    down = [replace(other, server=Server.DOWN) for other in OTHERS]
    assert decide(me, told(*down), RULES.log_s) == Hold("not heard yet: s0-1", RULES.absent_s)
    assert isinstance(decide(me, told(OTHERS[0]), RULES.log_s), Hold)
    assert isinstance(decide(primary(snapshot()), told(*OTHERS), RULES.log_s), Hold)


def test_a_log_waits_longer_where_there_was_a_vote_of_which_nobody_knows_the_outcome() -> None:
    """Its replica may have been elected, and have taken writes, before it became silent."""
    voted = replace(OTHERS[0], current_epoch=7)
    assert decide(primary(log()), told(voted, OTHERS[1]), RULES.log_s) == Hold("not heard yet: s0-1", RULES.absent_s)
    winner = replace(OTHERS[1], current_epoch=7, config_epoch=7)
    assert isinstance(decide(primary(log()), told(voted, winner), RULES.log_s), Start), "it was for another shard"
    seen = replace(primary(log()), current_epoch=7)
    assert isinstance(decide(seen, told(voted, OTHERS[1]), RULES.log_s), Start), "it was while this one ran"


@pytest.mark.parametrize(
    ("server", "patience_s"),
    [(Server.DOWN, RULES.stuck_s), (Server.LOADING, RULES.alive_s), (Server.UP, RULES.alive_s)],
)
def test_newer_data_that_is_not_promoted_is_given_up_in_the_end_and_loudly(server: Server, patience_s: float) -> None:
    others = told(replica(snapshot(900), server=server))
    assert decide(primary(snapshot(400)), others, patience_s - 0.1) == Hold(
        f"s0-1 (server {server}) has a copy (snapshot at offset 900), newer than its own data (snapshot at offset 400)",
        patience_s,
    )
    late = decide(primary(snapshot(400)), others, patience_s)
    assert isinstance(late, Start)
    assert late.warning
    assert "wasn't promoted" in late.why


def test_the_longest_wait_is_told_where_several_are_ahead() -> None:
    me = primary(NOTHING, replicas=(R0, R0B))
    others = told(replica(snapshot(), server=Server.DOWN), replica(snapshot(), R0B, server=Server.LOADING))
    verdict = decide(me, others, RULES.stuck_s)
    assert isinstance(verdict, Hold)
    assert verdict.until_s == RULES.alive_s
    assert "s0-1" not in verdict.why


@pytest.mark.parametrize(("timeout_s", "absent_s"), [(0.5, 15.0), (2.0, 15.0), (5.0, 15.0), (15.0, 35.0)])
def test_the_silent_are_waited_for_longer_than_an_election_takes(timeout_s: float, absent_s: float) -> None:
    assert Rules.for_node_timeout(timeout_s).absent_s == absent_s


def test_members_of_other_shards_are_not_waited_for() -> None:
    assert isinstance(decide(primary(NOTHING), told(replica(NOTHING)), 0.0, declared=[Member(1, 1)]), Start)
