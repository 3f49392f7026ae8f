"""Whose data is newer: the members of a shard ranked by what they have, in the same way by everyone who asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from valkeyctl.agent.tale import Data, Kind, Tale

Worth: TypeAlias = tuple[int, float]
"""The greater, the newer; comparable between the members of one shard, measured by the same Scale."""

NONE: Worth = (0, 0.0)
_OTHER_LOG, _ELSEWHERE, _LOG_OF_THE_END, _ON_STREAM, _COMPLETE = range(1, 6)

CLOCKS_S = 1.0
"""A replica's log is taken for newer than its primary's file if it was written to so much later: what the clocks of two
machines differ and what a write needs to get there is less."""


class Scale:
    """Measures the data of a primary and of its replicas, which `copies` are.

    The streams that a replica was in sync with when the primary was last heard are those of the primary's last run.
    Whatever has a place in them is newer than what only has one in another stream, and the higher offset is newer.
    Elsewhere the offset decides too: offsets go on from one replication id to the next, since a promoted replica and a
    primary that loads a snapshot go on counting.

    A log tells no offset. That of a primary, or of a replica that was in sync to the end, reaches to when it was last
    written to; that may be two seconds before its server died, so a living copy that was in sync comes before it.
    """

    def __init__(self, copies: Iterable[Tale]) -> None:
        self._streams = {tale.data.replication_id for tale in copies if tale.synced and tale.data.kind is Kind.LIVE}

    def is_ahead(self, replica: Tale, primary: Tale) -> bool:
        """Whether a replica has newer data than its primary would load if that started now."""
        kinds = (replica.data.kind, primary.data.kind)
        if kinds[0] in (Kind.LOG, Kind.FULL_LOG) and kinds[1] is Kind.SNAPSHOT:
            # Only while the instance goes over from snapshots to logs, or back.
            return (replica.data.written_at or 0.0) > (primary.data.written_at or 0.0) + CLOCKS_S
        return self.replica(replica) > self.primary(primary)

    def primary(self, tale: Tale) -> Worth:
        """What a primary's data is worth."""
        data = tale.data
        match data.kind:
            case Kind.NOTHING:
                return NONE
            case Kind.SNAPSHOT:
                return self._at_offset(data)
            case Kind.LOG:
                return (_LOG_OF_THE_END, (data.written_at or 0.0) + CLOCKS_S)
            case Kind.FULL_LOG | Kind.LIVE | Kind.UNKNOWN:
                return (_COMPLETE, 0.0)

    def replica(self, tale: Tale) -> Worth:
        """What a replica's copy is worth."""
        data = tale.data
        match data.kind:
            case Kind.NOTHING:
                return NONE
            case Kind.UNKNOWN:
                # As much as a copy can be worth.
                return (_ON_STREAM, float("inf"))
            case Kind.SNAPSHOT | Kind.LIVE:
                return self._at_offset(data)
            case Kind.LOG | Kind.FULL_LOG:
                return (_LOG_OF_THE_END if tale.synced else _OTHER_LOG, data.written_at or 0.0)

    def _at_offset(self, data: Data) -> Worth:
        # A snapshot that names no place was made before any replica had come.
        at = float(-1 if data.offset is None else data.offset)
        return (_ON_STREAM if data.replication_id in self._streams else _ELSEWHERE, at)
