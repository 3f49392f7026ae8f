"""What slots hold, in keys and bytes, and how that is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from valkeyctl.dataplane.slots import EMPTY, SlotSet

MB = 1_000_000
GB_FROM_MB = 10_000
"""From so many MB on, sizes are told in GB."""


@dataclass(frozen=True)
class Weight:
    """What slots hold: `keys`, and about how many bytes (`sizes`), by slot. `unknown` are slots that nobody told of."""

    keys: Mapping[int, int] = field(default_factory=dict[int, int])
    sizes: Mapping[int, float] = field(default_factory=dict[int, float])
    unknown: SlotSet = EMPTY

    def size_of(self, slots: SlotSet) -> float:
        """About how many bytes these slots hold; one that isn't known counts like the mean of the others."""
        mean = sum(self.sizes.values()) / len(self.sizes) if self.sizes else 0.0
        return sum(self.sizes.get(slot, mean) for slot in slots)

    def describe(self) -> str:
        """For a person, after a line that names the slots."""
        if not self.sizes:
            return "what they hold isn't known: their owners don't answer" if self.unknown else ""
        keys = sum(self.keys.values())
        size = amount(sum(self.sizes.values()))
        held = f"{keys:,} {'key' if keys == 1 else 'keys'}, {size}" if keys else "no keys"
        if not self.unknown:
            return f"they hold {held}"
        return f"{len(self.sizes)} of them hold {held}; the owners of the other {len(self.unknown)} don't answer"


def amount(size: float, *, of: float | None = None) -> str:
    """Bytes for people: "less than 1 MB", "about 12 MB", "about 15.0 GB"; with `of`, "about 3 of 12 MB"."""
    whole = (size if of is None else of) / MB
    if whole < 1:
        return "less than 1 MB"
    in_gb = whole >= GB_FROM_MB
    unit, factor, digits = ("GB", MB * 1000, 1) if in_gb else ("MB", MB, 0)
    parts = [f"{one / factor:.{digits}f}" for one in ((size,) if of is None else (size, of))]
    return f"about {' of '.join(parts)} {unit}"
