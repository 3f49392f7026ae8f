"""The table at the end of a measurement: minimum / median / maximum of us and of the peer, and the bars."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One thing that was measured, run by run; `peer` has the values of the same runs, where there is a peer.

    The bars: `most`, what our median may be at most (with `worst` our largest value), and `times`, by how much our
    value divides the peer's at least, in the median of the runs.
    """

    name: str
    unit: str
    ours: Sequence[float]
    peer: Sequence[float] = ()
    most: float | None = None
    worst: bool = False
    times: float | None = None

    @property
    def ratio(self) -> float | None:
        """The peer's value divided by ours, in the median of the runs; None where there is nothing to divide."""
        pairs = list(zip(self.peer, self.ours, strict=True)) if self.peer else []
        if not pairs or not all(ours for _, ours in pairs):
            return None
        return statistics.median(peer / ours for peer, ours in pairs)

    @property
    def bar(self) -> str:
        """The bars in words; "" without any."""
        told = [f"≤ {self.most:g} {self.unit}".rstrip()] if self.most is not None else []
        told += [f"≥ {self.times:.3g} times"] if self.times is not None else []
        return ", ".join(told)

    @property
    def missed(self) -> bool:
        """Whether a bar is missed."""
        value = max(self.ours) if self.worst else statistics.median(self.ours)
        slow = self.times is not None and (self.ratio is None or self.ratio < self.times)
        return slow or (self.most is not None and value > self.most)


def show(rows: Sequence[Row]) -> bool:
    """Print the table; returns whether any bar is missed."""
    width = max(len(row.name) for row in rows) + 2
    print(f"{'':<{width}}{'ours':>26}{'peer':>26}{'peer / ours':>13}  bar")
    for row in rows:
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        judged = f"{row.bar}: missed" if row.missed else row.bar
        columns = f"{spread(row.ours, row.unit):>26}{spread(row.peer, row.unit):>26}{ratio:>13}"
        print(f"{row.name:<{width}}{columns}  {judged}".rstrip())
    return any(row.missed for row in rows)


def spread(values: Sequence[float], unit: str) -> str:
    """Minimum / median / maximum; "" of nothing."""
    if not values:
        return ""
    digits = 0 if all(value == int(value) for value in values) else 2 if max(values) < 10 else 1
    shown = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{' / '.join(shown)} {unit}".rstrip()
