"""What slots hold, as real servers tell it, before they are moved and while they are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import (
    COMMANDS_NEEDED,
    Credentials,
    Member,
    SlotSet,
    Spec,
    plan_moves,
    planned_layout,
    progress,
)
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.slots import union
from valkeyctl.dataplane.weigh import giving, weigh
from valkeyctl.dataplane.weight import MB, Weight

THREE = Spec("t", 3, 0, planned_layout(3), formed=True, node_timeout_ms=NODE_TIMEOUT_MS)
FOUR = replace(THREE, shards=4, layout=planned_layout(4, THREE.layout))
VALUE = b"x" * 10_000
#: What an allocator and a hash table add to values of that size, more or less.
LEAST, MOST = 0.9, 1.3


def fill(fleet: Fleet, shard: int, slots: SlotSet, count: int) -> None:
    """So many keys of these slots, spread over them."""
    first, last = slots.ranges[0]
    with fleet.client(Member(shard, 0)) as client, client.pipeline(transaction=False) as pipe:
        for number in range(count):
            slot = first + number * 37 % (last - first + 1)
            pipe.set(f"{scenes.key_in(SlotSet.span(slot, slot), 0)}:{number}", VALUE)
        pipe.execute()


def weighed(fleet: Fleet, spec: Spec, timeout_s: float = 2.0) -> Weight:
    k = Knowledge(spec, scenes.look(fleet, spec))
    with Links(fleet.dialer, timeout_s=timeout_s, max_parallel=8) as links:
        return weigh(links, giving(k), fleet.directory())


def assert_about(size: float, count: int) -> None:
    assert LEAST * count * len(VALUE) < size < MOST * count * len(VALUE)


def test_keys_are_counted_and_bytes_are_about_right(line: str) -> None:
    with Fleet(THREE, line) as fleet:
        scenes.run_fresh(fleet)
        for shard, moves in ((0, 100), (1, 200), (2, 300)):
            fill(fleet, shard, THREE.layout[shard] & FOUR.layout[3], moves)
            fill(fleet, shard, THREE.layout[shard] - FOUR.layout[3], 200)
        found = weighed(fleet, FOUR)
        assert set(found.sizes) == set(FOUR.layout[3])
        assert sum(found.keys.values()) == 600
        assert_about(sum(found.sizes.values()), 600)
        for shard, moves in ((0, 100), (1, 200), (2, 300)):
            slots = THREE.layout[shard] & FOUR.layout[3]
            assert sum(found.keys[slot] for slot in slots) == moves
            assert_about(found.size_of(slots), moves)
        assert not found.unknown


def test_of_shards_that_leave_all_is_counted_and_who_is_silent_or_says_no_is_unknown(line: str) -> None:
    two = replace(THREE, shards=1, layout=planned_layout(1), leaving=(Member(1, 0), Member(2, 0)))
    with Fleet(THREE, line) as fleet:
        scenes.run_fresh(fleet)
        fill(fleet, 1, THREE.layout[1], 150)
        found = weighed(fleet, two)
        assert sum(found.keys.values()) == fleet.ask(Member(1, 0), "DBSIZE") == 150
        assert set(found.sizes) == set(union(THREE.layout[1:])), "one without keys counts too"
        assert found.size_of(THREE.layout[2]) == 0
        assert_about(sum(found.sizes.values()), 150)

        k = Knowledge(two, scenes.look(fleet, two))
        fleet.servers[Member(2, 0)].freeze()
        with Links(fleet.dialer, timeout_s=0.5, max_parallel=8) as links:
            found = weigh(links, giving(k), fleet.directory())
        fleet.servers[Member(2, 0)].thaw()
        assert found.unknown == THREE.layout[2]
        assert sum(found.keys.values()) == 150

        names = [name for name in COMMANDS_NEEDED if name != "cluster|countkeysinslot"]
        for member in THREE.members:
            fleet.ask(member, "ACL", "SETUSER", "op", "on", ">secret", "allkeys", "-@all", *(f"+{n}" for n in names))
        fleet.login = Credentials("op", "secret")
        with Links(fleet.dialer, timeout_s=2, max_parallel=8) as links:
            found = weigh(links, giving(k), fleet.directory())
        assert found.unknown == union(THREE.layout[1:])
        assert found.keys == {}


def test_progress_tells_slots_and_bytes_and_the_time_left(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In small pieces, each of which is told."""
    monkeypatch.setattr(plan_moves, "MOST_KEYS_AT_ONCE", 50)
    monkeypatch.setattr(plan_moves, "MOST_OPEN", 256)
    monkeypatch.setattr(progress, "WEIGH_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "TOLD_EVERY_S", 0.0)
    with Fleet(THREE, line) as fleet:
        scenes.run_fresh(fleet)
        for shard in range(3):
            fill(fleet, shard, THREE.layout[shard] & FOUR.layout[3], 400)
            fill(fleet, shard, THREE.layout[shard] - FOUR.layout[3], 400)
        fleet.start(Member(3, 0))
        told = scenes.Told()
        scenes.assert_ready(fleet, scenes.run(fleet, FOUR, told=told), FOUR)
    pattern = r"(\d+) of (\d+) slots moved, about (\d+) of (\d+) MB(, about \d+ (?:s|min) left)?; 4 of 4 members answer"
    lines = [found for now in told.lines if (found := re.fullmatch(pattern, now.text))]
    assert len(lines) > 3
    assert {int(found[2]) for found in lines} == {4096}
    for told_mb in {int(found[4]) for found in lines}:
        assert_about(told_mb * MB, 1200)
    for column in (1, 3):
        numbers = [int(found[column]) for found in lines]
        assert numbers == sorted(numbers)
        assert numbers[-1] > numbers[0]
    assert all(found[5] for found in lines if int(found[1]) and int(found[3])), "there is a pace"
    assert not any(found[5] for found in lines if not int(found[1])), "there is none yet"
