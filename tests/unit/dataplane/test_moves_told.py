"""How far moves of slots are, and what slots hold, in words: slots, bytes, and the time left once there is a pace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.views import absent, formed
from valkeyctl.dataplane import Member, Spec, planned_layout, progress, wire
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.progress import MoveClock, told
from valkeyctl.dataplane.slots import EMPTY, SlotSet, moved
from valkeyctl.dataplane.weigh import giving
from valkeyctl.dataplane.weight import MB, Weight, amount

ALL = SlotSet.span(0, 99)


def weight(slots: SlotSet, *, keys: int = 10, size: float = MB, unknown: SlotSet = EMPTY) -> Weight:
    """So many keys and bytes in each of these slots."""
    return Weight(dict.fromkeys(slots, keys), dict.fromkeys(slots, size), unknown)


@pytest.mark.parametrize(
    ("left", "held", "elapsed_s", "line"),
    [
        (ALL, None, 0.0, "0 of 100 slots moved"),
        (ALL, weight(ALL), 9.0, "0 of 100 slots moved, about 0 of 100 MB"),
        (SlotSet.span(25, 99), None, 5.0, "25 of 100 slots moved, about 15 s left"),
        (SlotSet.span(25, 99), weight(ALL), 5.0, "25 of 100 slots moved, about 25 of 100 MB, about 15 s left"),
        # Asked when a quarter had moved already, of which nobody can tell any more.
        (
            SlotSet.span(50, 99),
            weight(SlotSet.span(25, 99)),
            60.0,
            "50 of 100 slots moved, about 50 of 100 MB, about 60 s left",
        ),
        (SlotSet.span(1, 99), weight(ALL, size=1.0), 1.0, "1 of 100 slots moved, about 2 min left"),
        (
            SlotSet.span(50, 99),
            weight(ALL, size=200 * MB),
            7200.0,
            "50 of 100 slots moved, about 10.0 of 20.0 GB, about 2.0 h left",
        ),
        # Keys with one tag are all in one slot: what is left is told by their size, not by their slots.
        (
            SlotSet.span(99, 99),
            Weight({}, {**dict.fromkeys(ALL, 0.0), 0: 10 * MB, 99: 90 * MB}),
            2.0,
            "99 of 100 slots moved, about 10 of 100 MB, about 18 s left",
        ),
    ],
)
def test_tells_slots_bytes_and_the_time_left(left: SlotSet, held: Weight | None, elapsed_s: float, line: str) -> None:
    assert told(ALL, left, held, elapsed_s) == line


@pytest.mark.parametrize(
    ("size", "of", "text"),
    [
        (0, None, "less than 1 MB"),
        (999_999, None, "less than 1 MB"),
        (12.4 * MB, None, "about 12 MB"),
        (9999 * MB, None, "about 9999 MB"),
        (10_500 * MB, None, "about 10.5 GB"),
        (0.2 * MB, 12 * MB, "about 0 of 12 MB"),
        (500 * MB, 20_000 * MB, "about 0.5 of 20.0 GB"),
    ],
)
def test_tells_bytes(size: float, of: float | None, text: str) -> None:
    assert amount(size, of=of) == text


@pytest.mark.parametrize(
    ("held", "line"),
    [
        (weight(ALL, keys=40, size=MB), "they hold 4,000 keys, about 100 MB"),
        (weight(SlotSet.span(3, 3), keys=1, size=70), "they hold 1 key, less than 1 MB"),
        (weight(ALL, keys=0, size=0), "they hold no keys"),
        (
            weight(ALL, unknown=SlotSet.span(100, 101)),
            "100 of them hold 1,000 keys, about 100 MB; the owners of the other 2 don't answer",
        ),
        (Weight(unknown=ALL), "what they hold isn't known: their owners don't answer"),
        (Weight(), ""),
    ],
)
def test_tells_what_slots_hold(held: Weight, line: str) -> None:
    assert held.describe() == line


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by the test."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_line_changes_no_more_than_twice_a_second(clock: list[float]) -> None:
    moves, lines = MoveClock(), list[str]()
    for number in range(64):
        moves.see(SlotSet.span(number, 99), moving=True)
        lines.append(moves.line())
        clock[0] += 1 / 32
    assert len(set(lines)) == 4, "in two seconds"
    assert lines[0] == "0 of 100 slots moved"
    assert lines[-1].startswith("48 of 100 slots moved, about ")
    moves.see(EMPTY, moving=False)
    assert moves.line() == ""


def test_waiting_for_a_shard_that_joins_is_no_measure_of_the_pace(clock: list[float]) -> None:
    moves = MoveClock()
    moves.see(ALL, moving=False)
    assert moves.line() == "", "nothing is moved yet: what is waited for is told"
    clock[0] += 60
    assert not moves.wants_weight
    moves.begin()
    assert moves.line() == "0 of 100 slots moved"
    clock[0] += 1
    moves.see(SlotSet.span(50, 99), moving=True)
    assert moves.line() == "50 of 100 slots moved, about 1 s left"


def test_what_slots_hold_is_asked_once_and_only_where_it_takes_its_time(clock: list[float]) -> None:
    moves = MoveClock()
    moves.see(ALL, moving=True)
    assert not moves.wants_weight
    clock[0] += progress.WEIGH_AFTER_S
    assert moves.wants_weight
    moves.weight = Weight(unknown=ALL)
    assert not moves.wants_weight, "nobody told: it goes on without"
    assert moves.line() == "0 of 100 slots moved"


def test_slots_that_are_seen_again_are_counted_once_and_others_begin_anew(clock: list[float]) -> None:
    moves = MoveClock()
    moves.see(ALL, moving=True)
    moves.see(EMPTY, moving=False)
    moves.see(SlotSet.span(90, 99), moving=True)
    clock[0] += 1
    assert moves.line().startswith("90 of 100 slots moved")
    moves.see(EMPTY, moving=False)
    moves.see(SlotSet.span(200, 209), moving=True)
    assert moves.line() == "0 of 10 slots moved"


# --- who gives what --------------------------------------------------------------------------------------------------

THREE = Spec("t", 3, 1, planned_layout(3), formed=True)


def test_a_scale_out_is_given_before_its_members_are_there() -> None:
    world = formed(THREE)
    four = replace(THREE, shards=4, layout=planned_layout(4, THREE.layout))
    found = giving(Knowledge(four, absent(world.view(), Member(3, 0), Member(3, 1))))
    assert {member: len(slots) for member, slots in found.items()} == {
        Member(0, 0): 1365,
        Member(1, 0): 1365,
        Member(2, 0): 1366,
    }
    assert sum(map(len, found.values())) == len(moved(THREE.layout, four.layout))


def test_a_shard_that_leaves_gives_all() -> None:
    world = formed(THREE)
    two = replace(THREE, shards=2, layout=planned_layout(2, THREE.layout), leaving=(Member(2, 0), Member(2, 1)))
    assert giving(Knowledge(two, world.view())) == {Member(2, 0): THREE.layout[2]}


def test_at_the_goal_nobody_gives() -> None:
    assert giving(Knowledge(THREE, formed(THREE).view())) == {}


def test_a_primary_that_does_not_answer_is_not_told_of() -> None:
    world = formed(THREE)
    four = replace(THREE, shards=4, layout=planned_layout(4, THREE.layout))
    found = giving(Knowledge(four, absent(world.view(), Member(0, 0), Member(3, 0), Member(3, 1))))
    assert set(found) == {Member(1, 0), Member(2, 0)}


# --- what a server says ----------------------------------------------------------------------------------------------


def test_reads_how_large_keys_are() -> None:
    memory = "# Memory\r\nused_memory:3000000\r\nused_memory_dataset:1250000\r\n# Keyspace\r\n"
    keyspace = "db0:keys=400,expires=0,avg_ttl=0\r\ndb3:keys=100,expires=0,avg_ttl=0\r\n"
    assert wire.bytes_per_key(f"{memory}{keyspace}".encode()) == 2000
    assert wire.bytes_per_key(memory.encode()) == 0, "no keys"
    assert wire.bytes_per_key(f"used_memory_dataset:200000\r\n{keyspace}".encode()) == 0, "what an empty server has"
    for nonsense in (b"", b"used_memory_dataset:many\r\ndb0:keys=1", 7, None):
        with pytest.raises((ValueError, LookupError)):
            wire.bytes_per_key(nonsense)
    assert wire.numbers([1, 0]) == [1, 0]
    with pytest.raises(ValueError, match="another kind"):
        wire.numbers([1, b"x"])
