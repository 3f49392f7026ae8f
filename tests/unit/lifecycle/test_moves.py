"""What a preview says of slots that will move: how many, of which shards, and what they hold where that is known."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.runtime import rpc

from valkeyctl.dataplane import SlotSet, describe_layout, planned_layout
from valkeyctl.dataplane.weight import MB, Weight
from valkeyctl.lifecycle.moves import planned_moves, told_moves, told_strays

THREE = planned_layout(3)
FOUR = planned_layout(4, THREE)
OUT = "move 4096 slots: s0 5461 => 4096, s1 5461 => 4096, s2 5462 => 4096, s3 0 => 4096"


def props(*layout: SlotSet) -> dict[str, Any]:
    return {"layout": describe_layout(layout)}


def held(slots: SlotSet, **more: Any) -> Weight:
    return Weight(dict.fromkeys(slots, 2), dict.fromkeys(slots, 0.1 * MB), **more)


def test_a_scale_out_is_told_with_what_moves() -> None:
    moving = planned_moves(props(*THREE), props(*FOUR))
    assert moving == FOUR[3]
    assert told_moves(props(*THREE), props(*FOUR), held(moving)) == f"{OUT}; they hold 8,192 keys, about 410 MB"


def test_a_scale_in_is_told_with_what_the_leaving_shard_holds() -> None:
    moving = planned_moves(props(*FOUR), props(*THREE))
    assert moving == FOUR[3]
    assert told_moves(props(*FOUR), props(*THREE), held(moving)) == (
        "move 4096 slots: s0 4096 => 5461, s1 4096 => 5461, s2 4096 => 5462, s3 4096 => 0; "
        "they hold 8,192 keys, about 410 MB"
    )


def test_what_cannot_be_asked_is_told_as_unknown() -> None:
    before, after = props(*THREE), props(*FOUR)
    assert told_moves(before, after) == f"{OUT}; what they hold can't be asked now"
    assert told_moves(before, after, Weight(unknown=FOUR[3])) == (
        f"{OUT}; what they hold isn't known: their owners don't answer"
    )
    silent = THREE[1] & FOUR[3]
    assert told_moves(before, after, held(FOUR[3] - silent, unknown=silent)) == (
        f"{OUT}; 2731 of them hold 5,462 keys, about 273 MB; the owners of the other 1365 don't answer"
    )


def test_what_an_interrupted_up_has_moved_already_is_told() -> None:
    done = FOUR[3].lowest(1000)
    assert told_moves(props(*THREE), props(*FOUR), held(FOUR[3] - done), done=done) == (
        f"{OUT}; 1000 of them have moved already; they hold 6,192 keys, about 310 MB"
    )


def test_of_many_shards_the_first_are_told() -> None:
    told = told_moves(props(*planned_layout(3)), props(*planned_layout(12, planned_layout(3))), Weight())
    assert told.startswith("move 12286 slots: s0 5461 => 1366, ")
    assert told.endswith("s7 0 => 1365, and 4 more")


def test_one_slot_is_one_slot() -> None:
    slots = {"s0": "0-5461", "s1": "5462-10921", "s2": "10922-16383"}
    assert told_moves(props(*THREE), {"layout": slots}, held(SlotSet.span(5461, 5461))) == (
        "move 1 slot: s0 5461 => 5462, s1 5461 => 5460; they hold 2 keys, less than 1 MB"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [(props(*THREE), props(*THREE)), ({}, props(*THREE)), (props(*THREE), {"layout": rpc.UNKNOWN})],
    ids=["nothing moves", "a new instance", "unknown at preview"],
)
def test_what_moves_nothing_or_is_not_known_is_not_told(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert not planned_moves(before, after)
    assert told_moves(before, after, Weight()) == ""


def test_slots_that_are_elsewhere_than_declared_are_told_too() -> None:
    assert told_strays(held(SlotSet.span(0, 9))) == (
        "move 10 slots that are with another shard than declared; they hold 20 keys, about 1 MB"
    )
    assert told_strays(Weight()) == ""
