"""Slot sets as sets, texts that say what they mean, and layouts that move as little as can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valkeyctl.dataplane import SLOTS, Layout, SlotSet, describe_layout, parse_layout, planned_layout
from valkeyctl.dataplane.errors import InvalidSlots
from valkeyctl.dataplane.slots import equal_layout, uncovered, union

slot_numbers = st.sets(st.integers(0, SLOTS - 1), max_size=60)
ranges = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 900)), max_size=8).map(
    lambda spans: union(SlotSet.span(first, min(SLOTS - 1, first + length)) for first, length in spans)
)


@st.composite
def layouts(draw: st.DrawFn, *, whole: bool = False) -> Layout:
    """A layout of up to 6 shards in which some slots may have no owner, or all have one."""
    shards = draw(st.integers(1, 6))
    cuts = sorted(draw(st.sets(st.integers(1, SLOTS - 1), max_size=12)))
    owners = st.integers(0 if whole else -1, shards - 1)
    layout = [SlotSet()] * shards
    for first, end in zip([0, *cuts], [*cuts, SLOTS], strict=True):
        owner = draw(owners)
        if owner >= 0:
            layout[owner] |= SlotSet.span(first, end - 1)
    return tuple(layout)


@given(slot_numbers, slot_numbers)
def test_behaves_as_a_set(one: set[int], other: set[int]) -> None:
    a, b = SlotSet.of(one), SlotSet.of(other)
    assert set(a | b) == one | other
    assert set(a & b) == one & other
    assert set(a - b) == one - other
    assert len(a) == len(one)
    assert bool(a) == bool(one)
    assert a.issubset(a | b)
    assert a.issubset(b) == (one <= other)
    assert all(slot in a for slot in one)
    assert not any(slot in a for slot in other - one)
    assert (a == b) == (one == other)
    assert list(a) == sorted(one)


@given(ranges)
def test_reads_what_it_writes(slots: SlotSet) -> None:
    assert SlotSet.parse(str(slots)) == slots
    assert union(SlotSet.span(first, last) for first, last in slots.ranges) == slots
    assert all(last + 1 < after for (_, last), (after, _) in zip(slots.ranges, slots.ranges[1:], strict=False))


@given(ranges, st.integers(0, SLOTS))
def test_takes_the_lowest_and_the_highest(slots: SlotSet, count: int) -> None:
    assert list(slots.lowest(count)) == list(slots)[:count]
    assert list(slots.highest(count)) == list(slots)[max(0, len(slots) - count) :]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "'a' isn't a slot or a range of slots"),
        ("1-", "'1-' isn't"),
        ("-1", "'-1' isn't"),
        ("1--2", "'1--2' isn't"),
        ("1,,2", "'' isn't"),
        ("\u0661", "isn't a slot"),
        ("16384", "'16384' goes beyond the last slot, 16383"),
        ("0-99999999999999999999", "goes beyond"),
        ("5-4", "'5-4' ends before it starts"),
        ("0-10,10", "'10' names slots that were named before it"),
    ],
)
def test_says_what_is_wrong_with_a_text(text: str, message: str) -> None:
    with pytest.raises(InvalidSlots, match=message.replace("(", r"\(")):
        SlotSet.parse(text)


def test_reads_spaces_single_slots_and_nothing() -> None:
    assert SlotSet.parse(" 0 - 2 , 5 ") == SlotSet.of([0, 1, 2, 5])
    assert SlotSet.parse("") == SlotSet()
    assert str(SlotSet.all()) == "0-16383"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({0: "0-16383", 2: ""}, "numbered from 0 without a gap, got 0, 2"),
        ({0: "0-9000", 1: "9000-16383"}, "shard 1 names slots that another shard has: 9000"),
        ({0: "0-9000", 1: "9002-16383"}, "no shard has the slots 9001"),
        ({0: "0-16383x"}, "shard 0: '0-16383x' isn't a slot"),
        ({}, "no shard has the slots 0-16383"),
    ],
)
def test_says_what_is_wrong_with_a_layout(declared: dict[int, str], message: str) -> None:
    with pytest.raises(InvalidSlots, match=message):
        parse_layout(declared)


@pytest.mark.parametrize("shards", [1, 2, 3, 5, 7, 64, 127, 128])
def test_splits_a_new_instance_evenly_in_one_range_each(shards: int) -> None:
    layout = planned_layout(shards)
    assert not uncovered(layout)
    assert all(len(slots.ranges) == 1 for slots in layout)
    assert {len(slots) for slots in layout} <= {SLOTS // shards, SLOTS // shards + 1}
    assert layout == equal_layout(shards)


def test_three_shards_are_split_as_announced() -> None:
    assert describe_layout(planned_layout(3)) == {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"}
    assert [len(slots) for slots in planned_layout(3)] == [5461, 5461, 5462]


def fewest_moves(shards: int, previous: Layout) -> int:
    """The least number of owned slots that must change their shard for sizes within one of equal, by trying all ways.

    A shard above its quota gives what is too much; only who gets the larger quotas can be chosen, and trying every
    choice comes down to trying every number of the largest shards.
    """
    sizes = [len(previous[s]) if s < len(previous) else 0 for s in range(shards)]
    leaving = sum(len(slots) for slots in previous[shards:])
    floor, extra = divmod(SLOTS, shards)
    # Moves when nobody has the larger quota, less one for each of `extra` shards that would have to give.
    moves = sum(max(0, size - floor) for size in sizes)
    return leaving + moves - min(extra, sum(1 for size in sizes if size > floor))


@given(st.integers(1, 8), layouts())
def test_moves_the_fewest_slots(shards: int, previous: Layout) -> None:
    planned = planned_layout(shards, previous)
    assert not uncovered(planned)
    assert max(map(len, planned)) - min(map(len, planned)) <= 1
    stay = sum(len(planned[s] & previous[s]) for s in range(min(shards, len(previous))))
    if any(previous):
        assert len(union(previous)) - stay == fewest_moves(shards, previous)
    assert planned_layout(shards, planned) == planned
    assert planned_layout(shards, previous) == planned


@given(layouts(whole=True), layouts())
def test_takes_a_declared_layout_as_it_is(explicit: Layout, previous: Layout) -> None:
    assert planned_layout(len(explicit), previous, explicit) == explicit
