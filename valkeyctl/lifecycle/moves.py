"""What a change of the layout will move, told before it is done: shards, slots, keys, bytes. Pure."""

from __future__ import annotations

from valkeyctl.dataplane import Layout, SlotSet
from valkeyctl.dataplane.slots import EMPTY, moved
from valkeyctl.dataplane.weight import Weight
from valkeyctl.lifecycle.props import Props, is_unknown, layout_of

_MOST_SHARDS = 8


def planned_moves(olds: Props, news: Props) -> SlotSet:
    """The slots that have another shard in the new planned layout; none where one of the layouts isn't known."""
    before, after = _layouts(olds, news)
    return moved(before, after)


def told_moves(olds: Props, news: Props, weight: Weight | None = None, *, done: SlotSet = EMPTY) -> str:
    """A line for a person: the slots that move, of all shards whose number of slots changes, and what they hold.

    `weight` is that of the slots that are left to move; None where nobody could be asked. `done` are those of the
    planned ones that an interrupted `up` has moved. "" where nothing moves.
    """
    before, after = _layouts(olds, news)
    slots = moved(before, after)
    if not slots:
        return ""
    parts: list[str] = []
    for shard in range(max(len(before), len(after))):
        had = before[shard] if shard < len(before) else EMPTY
        gets = after[shard] if shard < len(after) else EMPTY
        if had != gets:
            parts.append(f"s{shard} {len(had)} => {len(gets)}")
    more = f", and {len(parts) - _MOST_SHARDS} more" if len(parts) > _MOST_SHARDS else ""
    line = f"move {_slots(len(slots))}: {', '.join(parts[:_MOST_SHARDS])}{more}"
    if weight is None:
        return f"{line}; what they hold can't be asked now"
    already = f"; {len(done)} of them have moved already" if done else ""
    held = weight.describe()
    return f"{line}{already}" + (f"; {held}" if held else "")


def told_strays(weight: Weight) -> str:
    """A line for slots that are with another shard than declared, nothing having been declared anew; "" for none."""
    count = len(weight.sizes) + len(weight.unknown)
    return f"move {_slots(count)} that are with another shard than declared; {weight.describe()}" if count else ""


def _slots(count: int) -> str:
    return f"{count} {'slot' if count == 1 else 'slots'}"


def _layouts(olds: Props, news: Props) -> tuple[Layout, Layout]:
    if any(not props.get("layout") or is_unknown(props["layout"]) for props in (olds, news)):
        return (), ()
    return layout_of(olds["layout"]), layout_of(news["layout"])
