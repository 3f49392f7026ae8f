"""How the Lease's duration is shared out: who may do what for how long."""

from __future__ import annotations

from dataclasses import dataclass

KILL_S = 0.5
"""So long before a Lease can be another's the loop in start.sh ends a server that still may take writes."""
SOFT_S = 1.0
"""So long before that the agent itself has its server take no more writes, and keep its data."""
WAIT_S = 0.5
"""So much longer than the duration the others wait: clocks run at slightly different speeds."""
ENOUGH_S = 0.75
"""Less than this before the soft end nobody is promoted any more."""

RETRY_S = 0.5
"""Between two tries of a request to the API server that failed."""


@dataclass(frozen=True)
class Timing:
    """All in seconds; counted, but for `take_s`, from before the request that renewed the Lease.

    At `soft_s` the agent stops writes, at `hard_s` the server is killed. `renew_s` is between two renewals, `take_s`
    how long a Lease has to be seen unchanged by who takes it, `promise_s` how long a promise not to do so holds.
    """

    duration_s: int = 10

    @property
    def renew_s(self) -> float:
        return self.duration_s / 5

    @property
    def soft_s(self) -> float:
        return self.hard_s - SOFT_S

    @property
    def hard_s(self) -> float:
        return self.duration_s - KILL_S

    @property
    def take_s(self) -> float:
        return self.duration_s + WAIT_S

    @property
    def promise_s(self) -> float:
        return float(self.duration_s)
