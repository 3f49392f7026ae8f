"""Whose data is newer: the members of a shard ranked by what they have, in the same way by everyone who asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from valkeyctl.agent.tale import Data, Kind, Tale

Worth: TypeAlias = tuple[int, float]
"""The greater, the newer; comparable between the members of one shard, measured by the same Scale."""

NONE: Worth = (0, 0.0)
_LOG, _ELSEWHERE, _ON_STREAM, _COMPLETE = 1, 2, 3, 4


class Scale:
    """Measures the data of a primary and of its replicas, which `copies` are.

    The streams that a replica was in sync with when the primary was last heard are those of the primary's last run.
    Whatever has a place in them is newer than what only has one in another stream, and the higher offset is newer.
    Elsewhere the offset decides too: offsets go on from one replication id to the next, since a promoted replica and a
    primary that loads a snapshot go on counting.
    """

    def __init__(self, copies: Iterable[Tale]) -> None:
        self._streams = {tale.data.replication_id for tale in copies if tale.synced and tale.data.kind is Kind.LIVE}

    def primary(self, data: Data) -> Worth:
        """What a primary's data is worth: what it would load if its server started now.

        Its log holds all that it ever acknowledged, so no copy can be ahead of that.
        """
        if data.kind in (Kind.LOG, Kind.LIVE):
            return (_COMPLETE, 0.0)
        return NONE if data.kind is Kind.NOTHING else self._at_offset(data)

    def replica(self, data: Data) -> Worth:
        """What a replica's copy is worth.

        Its log tells no offset, and how old it is only the clock of its machine tells; so any copy whose place is known
        comes before.
        """
        if data.kind is Kind.LOG:
            return (_LOG, data.written_at or 0.0)
        return NONE if data.kind is Kind.NOTHING else self._at_offset(data)

    def _at_offset(self, data: Data) -> Worth:
        # A snapshot that names no place was made before any replica had come.
        at = float(-1 if data.offset is None else data.offset)
        return (_ON_STREAM if data.replication_id in self._streams else _ELSEWHERE, at)
