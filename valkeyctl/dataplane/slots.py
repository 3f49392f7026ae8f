"""Slot arithmetic: sets of hash slots, and which shard owns which of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from valkeyctl.dataplane.errors import InvalidSlots

SLOTS = 16384
_ALL = (1 << SLOTS) - 1


@dataclass(frozen=True)
class SlotSet:
    """An immutable set of hash slots, 0 to 16383. `bits` has bit n set when slot n is in it."""

    bits: int = 0

    @classmethod
    def parse(cls, text: str) -> SlotSet:
        """Read "0-5460,7000": ranges inclusive, separated by commas; "" is the empty set.

        Raises InvalidSlots, saying what is wrong, for anything else: an unknown form, a slot above 16383, a range whose
        end comes before its start, a slot named twice.
        """
        bits = 0
        for part in text.split(",") if text.strip() else []:
            first, dash, last = (p.strip() for p in part.partition("-"))
            if not _is_number(first) or (dash and not _is_number(last)):
                raise InvalidSlots(f"{part.strip()!r} isn't a slot or a range of slots", remedy='Write "0-5460,7000".')
            low, high = int(first), int(last or first)
            if high >= SLOTS or low >= SLOTS:
                raise InvalidSlots(f"{part.strip()!r} goes beyond the last slot, {SLOTS - 1}")
            if high < low:
                raise InvalidSlots(f"{part.strip()!r} ends before it starts")
            new = _range_bits(low, high)
            if bits & new:
                raise InvalidSlots(f"{part.strip()!r} names slots that were named before it")
            bits |= new
        return cls(bits)

    @classmethod
    def span(cls, first: int, last: int) -> SlotSet:
        """The slots `first` to `last`, both included; empty when `last` is before `first`."""
        return cls(_range_bits(first, last)) if last >= first else cls()

    @classmethod
    def of(cls, slots: Iterable[int]) -> SlotSet:
        """The set of the given slot numbers."""
        bits = 0
        for slot in slots:
            bits |= 1 << slot
        return cls(bits)

    @classmethod
    def all(cls) -> SlotSet:
        """Every slot."""
        return cls(_ALL)

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The fewest ranges, ends included, in order."""
        found: list[tuple[int, int]] = []
        rest, base = self.bits, 0
        while rest:
            gap = (rest & -rest).bit_length() - 1
            rest >>= gap
            run = (~rest & (rest + 1)).bit_length() - 1
            found.append((base + gap, base + gap + run - 1))
            rest >>= run
            base += gap + run
        return tuple(found)

    @property
    def bounds(self) -> tuple[int, ...]:
        """First and last slot of each range in turn, as the servers' commands take them."""
        return tuple(bound for span in self.ranges for bound in span)

    def lowest(self, count: int) -> SlotSet:
        """The `count` lowest slots of the set (all of it when it has no more)."""
        taken, left = 0, count
        for first, last in self.ranges:
            if left <= 0:
                break
            size = min(left, last - first + 1)
            taken |= _range_bits(first, first + size - 1)
            left -= size
        return SlotSet(taken)

    def highest(self, count: int) -> SlotSet:
        """The `count` highest slots of the set (all of it when it has no more)."""
        return self - self.lowest(len(self) - count)

    def issubset(self, other: SlotSet) -> bool:
        """Whether every slot of this set is in the other."""
        return not self.bits & ~other.bits

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)

    def __repr__(self) -> str:
        return f"SlotSet({self})"

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __contains__(self, slot: int) -> bool:
        return bool(self.bits >> slot & 1)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __or__(self, other: SlotSet) -> SlotSet:
        return SlotSet(self.bits | other.bits)

    def __and__(self, other: SlotSet) -> SlotSet:
        return SlotSet(self.bits & other.bits)

    def __sub__(self, other: SlotSet) -> SlotSet:
        return SlotSet(self.bits & ~other.bits)


EMPTY = SlotSet()
Layout = tuple[SlotSet, ...]
"""The slots of each shard, by the shard's index."""


def union(sets: Iterable[SlotSet]) -> SlotSet:
    """All slots of all the sets."""
    bits = 0
    for one in sets:
        bits |= one.bits
    return SlotSet(bits)


def uncovered(layout: Layout) -> str:
    """What keeps a layout from covering every slot exactly once; "" when nothing does."""
    seen = EMPTY
    for shard, slots in enumerate(layout):
        if seen & slots:
            return f"shard {shard} names slots that another shard has: {seen & slots}"
        seen |= slots
    missing = SlotSet.all() - seen
    return f"no shard has the slots {missing}" if missing else ""


def parse_layout(declared: Mapping[int, str]) -> Layout:
    """Read `{0: "0-5460", 1: …}` into a layout.

    Raises InvalidSlots when a text isn't a slot set, when the shards aren't 0 to n-1, or when a slot is missing or
    given twice.
    """
    if sorted(declared) != list(range(len(declared))):
        raise InvalidSlots(f"shards are numbered from 0 without a gap, got {', '.join(map(str, sorted(declared)))}")
    layout: list[SlotSet] = []
    for shard in range(len(declared)):
        try:
            layout.append(SlotSet.parse(declared[shard]))
        except InvalidSlots as e:
            raise InvalidSlots(e.what, where=f"shard {shard}", remedy=e.remedy) from e
    problem = uncovered(tuple(layout))
    if problem:
        raise InvalidSlots(problem)
    return tuple(layout)


def describe_layout(layout: Layout) -> dict[str, str]:
    """`{"s0": "0-5460", …}`, for outputs and people."""
    return {f"s{shard}": str(slots) for shard, slots in enumerate(layout)}


def equal_layout(shards: int) -> Layout:
    """One range for each shard, in order, sizes within one of each other: 5461, 5461 and 5462 for three."""
    return tuple(SlotSet.span(s * SLOTS // shards, (s + 1) * SLOTS // shards - 1) for s in range(shards))


def planned_layout(shards: int, previous: Layout | None = None, explicit: Layout | None = None) -> Layout:
    """The layout to aim at.

    As `explicit` declares it, if it does. Otherwise sizes are within one of equal, and the fewest slots change their
    shard as against `previous`, which may have more or fewer shards and may leave slots out (those are given to whoever
    lacks some; slots that a shard of `previous` with an index ≥ `shards` had are moved). Deterministic, and unchanged
    when applied to its own result.
    """
    if explicit is not None:
        return explicit
    if previous is None or not any(previous):
        return equal_layout(shards)
    kept = [previous[s] if s < len(previous) else EMPTY for s in range(shards)]
    quotas = _quotas([len(slots) for slots in kept])
    kept = [slots.lowest(quota) for slots, quota in zip(kept, quotas, strict=True)]
    free = SlotSet.all() - union(kept)
    for shard, quota in enumerate(quotas):
        given = free.lowest(quota - len(kept[shard]))
        kept[shard] |= given
        free -= given
    return tuple(kept)


def moved(before: Layout, after: Layout) -> SlotSet:
    """The slots that have another shard after than before; those that had none before aren't moved."""
    return union(had - (after[shard] if shard < len(after) else EMPTY) for shard, had in enumerate(before) if had.bits)


def slots_moved(before: Layout, after: Layout) -> int:
    """How many slots have another shard after than before."""
    return len(moved(before, after))


def _quotas(sizes: Sequence[int]) -> list[int]:
    """How many slots each shard gets: all within one of equal, and the one more to those that have most already."""
    floor, extra = divmod(SLOTS, len(sizes))
    most_first = sorted(range(len(sizes)), key=lambda s: (-sizes[s], s))
    quotas = [floor] * len(sizes)
    for shard in most_first[:extra]:
        quotas[shard] += 1
    return quotas


def _range_bits(first: int, last: int) -> int:
    return ((1 << (last - first + 1)) - 1) << first


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
