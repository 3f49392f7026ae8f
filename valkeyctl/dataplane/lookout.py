"""Keeps an eye on members over many looks: their addresses, who rests, and since when each has been missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from valkeyctl.dataplane.model import Directory, Endpoint, Member
from valkeyctl.dataplane.view import Absent, Unreachable, Why

DIRECTORY_S, DIRECTORY_WHEN_MISSING_S = 0.5, 0.1
"""How long the list of Pods may be used again, so that fast rounds don't ask the API server fifty times a second."""
SILENCE_S = 2.0
"""How long a member that didn't answer in time isn't asked again, so that the rounds of all others stay short."""

NodeT = TypeVar("NodeT")


class Lookout(Generic[NodeT]):
    """Looks at members of any kind again and again. Not for several threads."""

    def __init__(
        self,
        directory: Directory,
        ask: Callable[[Mapping[Member, Endpoint]], Mapping[Member, NodeT | Unreachable | Absent]],
        *,
        missing_since: Mapping[Member, float] | None = None,
    ) -> None:
        """`ask` observes once, over the endpoints that it is given; it has an outcome for every member that counts.

        `missing_since`: since when (by the monotonic clock) the caller knows members to be silent, without a break,
        that are still so at the first look.
        """
        self._directory = directory
        self._ask = ask
        self._missing_since = dict(missing_since or {})
        self._silent: dict[Member, tuple[Unreachable, float]] = {}
        self._asked_at = float("-inf")
        self.endpoints: Mapping[Member, Endpoint] = {}

    def look(self) -> Mapping[Member, NodeT | Unreachable | Absent]:
        """One look at all members, those that are missing with the seconds since when. Raises what `directory` does."""
        now = time.monotonic()
        if now - self._asked_at >= (DIRECTORY_WHEN_MISSING_S if self._missing_since else DIRECTORY_S):
            self.endpoints, self._asked_at = self._directory(), now
        resting = {
            member: outcome
            for member, (outcome, until) in self._silent.items()
            if now < until and self.endpoints.get(member) == outcome.endpoint
        }
        seen = self._ask({member: at for member, at in self.endpoints.items() if member not in resting})
        self._silent = {member: rest for member, rest in self._silent.items() if member in resting}
        for member, outcome in seen.items():
            if isinstance(outcome, Unreachable) and outcome.why is Why.NO_ANSWER:
                self._silent[member] = (outcome, time.monotonic() + SILENCE_S)
        return {member: self._with_time(member, outcome) for member, outcome in {**seen, **resting}.items()}

    def _with_time(self, member: Member, outcome: NodeT | Unreachable | Absent) -> NodeT | Unreachable | Absent:
        if not isinstance(outcome, Absent | Unreachable):
            self._missing_since.pop(member, None)
            return outcome
        now = time.monotonic()
        return replace(outcome, for_s=now - self._missing_since.setdefault(member, now))
