"""Whose data contains whose: servers compared by their places in streams of writes.

A promoted replica gives its stream a new id and remembers the old one and where it left it. So ids are chained, and
whoever continues a stream contains all that others have of it up to there. Source: the server's own rule for when a
replica may go on without a full copy (https://valkey.io/topics/replication/, "Replication ID explained").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from valkeyctl.dataplane.replication.view import History


class Lineage:
    """What all servers together remember of which stream continues which."""

    def __init__(self, histories: Iterable[History]) -> None:
        parents: dict[str, tuple[str, int]] = {}
        for history in histories:
            if history.second_id:
                # Each teller is right as far as it knows: the one who left the old stream last knows most.
                known = parents.get(history.replication_id, ("", -1))
                told = (history.second_id, history.second_end)
                parents[history.replication_id] = max(known, told, key=lambda parent: parent[1])
        self._parents: Mapping[str, tuple[str, int]] = parents

    def contains(self, one: History, other: History) -> bool:
        """Whether `one` has all that `other` has. Two can contain each other: then they have the same."""
        mine = self._reach(one)
        return any(offset == other.offset <= mine.get(name, -1) for name, offset in self._reach(other).items())

    def exceeds(self, one: History, other: History) -> bool:
        """Whether `one` has all that `other` has, and more."""
        return self.contains(one, other) and not self.contains(other, one)

    def continues(self, one: History, other: History) -> bool:
        """Whether the stream of `one` was begun by someone promoted from the stream of `other`."""
        return one.replication_id != other.replication_id and other.replication_id in self._reach(one)

    def own_bytes(self, one: History, other: History) -> int | None:
        """How much `one` has that `other` hasn't; None when the two have nothing in common."""
        mine, theirs = self._reach(one), self._reach(other)
        common = [min(offset, theirs[name]) for name, offset in mine.items() if name in theirs]
        return max(0, one.offset - max(common)) if common else None

    def _reach(self, history: History) -> Mapping[str, int]:
        """How far a server has each of the streams that led to where it is."""
        reach: dict[str, int] = {}
        name, offset = history.replication_id, history.offset
        while name and name not in reach:
            reach[name] = offset
            name, end = self._parents.get(name, ("", 0))
            offset = min(offset, end)
        return reach
