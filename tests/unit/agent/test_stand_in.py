"""When a replica stands in for its primary, and how: each rule by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.agent.guard_cases import node_id
from tests.unit.agent.tales import LAYOUT, P0, P1, P2, R0, R0B, live, log, primary, promoted, replica, snapshot, told
from valkeyctl.agent.guard import RULES
from valkeyctl.agent.stand_in import How, Promote, Stay, stand_in
from valkeyctl.agent.tale import Data, Kind, Owner, Server, Tale
from valkeyctl.dataplane.slots import SlotSet
from valkeyctl.dataplane.view import Role

NOTHING = Data()
VOTERS = (primary(live(), P1, server=Server.UP), primary(live(), P2, server=Server.UP))
ME = replica(live())
DOWN = primary(NOTHING)


def verdict(me: Tale, *others: Tale, down_s: float = 0.0, forced_s: float | None = None) -> Promote | Stay:
    return stand_in(me, told(*others), down_s, forced_s=forced_s)


def how(found: Promote | Stay) -> How | None:
    return found.how if isinstance(found, Promote) else None


def why(found: Promote | Stay) -> str:
    assert isinstance(found, Stay), found
    return found.why


@pytest.mark.parametrize("left", [NOTHING, snapshot(400), log()], ids=str)
def test_it_stands_in_at_once_by_an_election(left: Data) -> None:
    assert how(verdict(ME, primary(left), *VOTERS)) is How.FORCE


@pytest.mark.parametrize(
    ("primary_tale", "reason"),
    [
        (primary(live(), server=Server.UP), "server is up"),
        (primary(snapshot(), server=Server.LOADING), "server is loading"),
        (replace(DOWN, held=False), "may start at any moment"),
        (primary(log(full=True)), "as much on its disk (full log)"),
        (primary(snapshot(970)), "as much on its disk (snapshot)"),
        (replace(DOWN, role=Role.REPLICA, primary_id=node_id(R0B)), "given up its slots"),
    ],
)
def test_without_the_primary_s_word_nothing_is_done(primary_tale: Tale, reason: str) -> None:
    assert reason in why(verdict(ME, primary_tale, *VOTERS, down_s=1e6, forced_s=1e6))


def test_a_silent_primary_is_never_taken_over() -> None:
    assert "hasn't told" in why(verdict(ME, *VOTERS, down_s=1e6, forced_s=1e6))


@pytest.mark.parametrize(
    ("me", "reason"),
    [
        (replica(NOTHING), "never had a whole copy"),
        (replace(ME, server=Server.LOADING), "no replica that serves"),
        (promoted(ME), "no replica that serves"),
        (replace(ME, primary_id=""), "owns no slots"),
        (replace(ME, owners=ME.owners[1:]), "owns no slots"),
    ],
)
def test_who_can_not_stand_in(me: Tale, reason: str) -> None:
    assert reason in why(verdict(me, DOWN, *VOTERS, down_s=1e6, forced_s=1e6))


def test_it_waits_for_the_votes_and_then_takes_over() -> None:
    assert how(verdict(ME, DOWN, *VOTERS)) is How.FORCE
    assert "awaits the votes" in why(verdict(ME, DOWN, *VOTERS, forced_s=RULES.force_s - 0.1))
    assert how(verdict(ME, DOWN, *VOTERS, forced_s=RULES.force_s)) is How.TAKEOVER


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (VOTERS, How.FORCE),
        (VOTERS[:1], How.FORCE),
        ((), How.FORCE),
        ((VOTERS[0], replace(VOTERS[1], server=Server.DOWN)), How.TAKEOVER),
        ((replace(VOTERS[1], server=Server.DOWN),), How.TAKEOVER),
        ((VOTERS[0], replace(VOTERS[1], server=Server.LOADING)), How.FORCE),
        ((VOTERS[0], Tale(P2, server=Server.UP, node_id="x" * 40)), How.TAKEOVER),
    ],
)
def test_no_election_is_tried_where_most_primaries_are_known_to_be_down(
    others: tuple[Tale, ...], expected: How
) -> None:
    assert how(verdict(ME, DOWN, *others)) is expected


def test_nobody_stands_in_where_another_owns_the_slots_by_now() -> None:
    heir = promoted(replica(live(), R0B))
    assert "another owner" in why(verdict(ME, DOWN, heir, *VOTERS, down_s=1e6, forced_s=1e6))


@pytest.mark.parametrize(
    "others",
    [
        (replace(DOWN, slots=LAYOUT[0] | SlotSet.span(6000, 6000)), *VOTERS),
        (replace(DOWN, config_epoch=8), *VOTERS),
        (DOWN, replace(VOTERS[0], slots=LAYOUT[1] | SlotSet.span(0, 0), config_epoch=8), VOTERS[1]),
    ],
    ids=["more slots", "newer epoch", "slots moved"],
)
def test_with_an_old_picture_of_the_slots_only_votes_count(others: tuple[Tale, ...]) -> None:
    dead = tuple(replace(tale, server=Server.DOWN) for tale in others)
    assert how(verdict(ME, *dead)) is How.FORCE
    assert "mustn't take over" in why(verdict(ME, *others, forced_s=RULES.force_s))
    assert how(verdict(ME, *others, forced_s=RULES.again_s)) is How.FORCE


def test_a_primary_that_came_back_as_another_node_is_stood_in_for_whatever_that_is() -> None:
    for server in Server:
        assert how(verdict(ME, Tale(P0, server=server, node_id="x" * 40), *VOTERS)) is How.FORCE
    assert how(verdict(replica(snapshot(1), synced=None), Tale(P0), *VOTERS)) is How.FORCE


BOTH = (R0, R0B)


def pair(first: Tale, second: Tale) -> tuple[Promote | Stay, Promote | Stay]:
    """What two replicas of one primary decide, each hearing the other."""
    left = primary(NOTHING, replicas=BOTH)
    return verdict(first, second, left, *VOTERS), verdict(second, first, left, *VOTERS)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (replica(live(970), replicas=BOTH), replica(live(970), R0B, replicas=BOTH)),
        (replica(live(971), replicas=BOTH), replica(live(970), R0B, replicas=BOTH)),
        (replica(live(970), replicas=BOTH), replica(live(5000), R0B, synced=False, replicas=BOTH)),
        (replica(live(970), replicas=BOTH), replica(log(), R0B, replicas=BOTH)),
        (replica(snapshot(5), synced=None, replicas=BOTH), replica(NOTHING, R0B, replicas=BOTH)),
    ],
    ids=["equal", "higher offset", "in sync", "living", "never in sync"],
)
def test_of_several_replicas_the_best_stands_in_and_only_that(first: Tale, second: Tale) -> None:
    if second.data.offset == 5000:
        # A place in another stream says nothing about this one.
        second = replace(second, data=replace(second.data, replication_id="x" * 40))
    here, there = pair(first, second)
    assert how(here) is How.FORCE
    assert how(there) is None


def test_a_better_copy_whose_server_is_down_is_waited_for() -> None:
    me = replica(snapshot(500), synced=None, replicas=BOTH)
    left = primary(NOTHING, replicas=BOTH)
    better = replica(snapshot(501), R0B, synced=None, server=Server.DOWN, replicas=BOTH)
    assert "s0-2 comes before it" in why(verdict(me, left, better, *VOTERS, down_s=RULES.stuck_s - 0.1))
    late = verdict(me, left, better, *VOTERS, down_s=RULES.stuck_s)
    assert isinstance(late, Promote)
    assert late.warning
    assert "s0-2" in late.why


def test_a_better_copy_that_is_not_ahead_of_the_primary_is_no_rival() -> None:
    # The lagging copy has a place, the log has none; but only the log is newer than the primary's snapshot.
    left = primary(snapshot(800), replicas=BOTH)
    lagging = replica(live(700), R0B, synced=False, replicas=BOTH)
    assert how(verdict(replica(log(1000.0), synced=None, replicas=BOTH), left, lagging, *VOTERS)) is How.FORCE


@pytest.mark.parametrize(("synced", "silence_s"), [(True, RULES.silent_s), (False, RULES.absent_s)])
def test_a_silent_replica_is_waited_for_as_long_as_it_may_have_more(*, synced: bool, silence_s: float) -> None:
    me = replica(live(), synced=synced, replicas=BOTH)
    left = primary(NOTHING, replicas=BOTH)
    assert why(verdict(me, left, *VOTERS, down_s=silence_s - 0.1)) == "not heard yet: s0-2"
    late = verdict(me, left, *VOTERS, down_s=silence_s)
    assert isinstance(late, Promote)
    assert late.warning


def test_a_replica_that_follows_another_is_no_rival() -> None:
    stranger = replace(replica(live(9999), R0B), primary_id=node_id(P1))
    assert how(verdict(ME, DOWN, stranger, *VOTERS)) is How.FORCE


def test_old_owners_told_by_old_tables_stop_nothing() -> None:
    old = replace(VOTERS[0], owners=(Owner("x" * 40, None, 0, LAYOUT[0]),))
    assert how(verdict(ME, DOWN, old, VOTERS[1], forced_s=RULES.force_s)) is How.TAKEOVER


def test_lines_for_the_log() -> None:
    assert str(verdict(ME, DOWN, *VOTERS)).startswith("it stands in for its primary (FORCE): ")
    assert str(verdict(ME)).startswith("it doesn't stand in for its primary: ")


@pytest.mark.parametrize(
    ("data", "server"),
    [(Data(Kind.UNKNOWN), Server.LOADING), (live(5000), Server.LOADING), (live(5000), Server.DOWN)],
    ids=["never told", "busy", "frozen"],
)
@pytest.mark.parametrize(("synced", "silence_s"), [(True, RULES.silent_s), (False, RULES.absent_s)])
def test_a_replica_whose_server_does_not_answer_is_waited_for_like_a_silent_one(
    data: Data, server: Server, silence_s: float, *, synced: bool
) -> None:
    """It may have more in its memory, and it can't be had now; nothing of that is on its disk."""
    me = replica(live(), synced=synced, replicas=BOTH)
    left = primary(NOTHING, replicas=BOTH)
    busy = replica(data, R0B, server=server, replicas=BOTH)
    assert why(verdict(me, left, busy, *VOTERS, down_s=silence_s - 0.1)) == "not heard yet: s0-2"
    late = verdict(me, left, busy, *VOTERS, down_s=silence_s)
    assert isinstance(late, Promote)
    assert late.warning


def test_nobody_stands_in_with_data_of_which_nothing_is_known() -> None:
    assert "isn't known what data it has" in why(verdict(replica(Data(Kind.UNKNOWN)), DOWN, *VOTERS))
