"""One look at a server is made of several answers, and things happen in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from tests.unit.dataplane.test_wire import CLUSTER, PRIMARY, A, B
from tests.unit.dataplane.views import S00, endpoint
from valkeyctl.dataplane import NodeView, SlotSet, wire
from valkeyctl.dataplane.observe import _ask
from valkeyctl.dataplane.session import Command, Reply, Session
from valkeyctl.dataplane.view import JobState

GIVEN = SlotSet.parse("0-99")


class Giver:
    """A server of 9.1 that is giving slots away, and has done so when it has answered some questions."""

    def __init__(self, ends_after: int) -> None:
        self.endpoint = endpoint(S00, "10.0.0.1")
        self.moves_atomically = False
        self._left = ends_after

    def ask(self, commands: Sequence[Command]) -> list[Reply]:
        return [self._answer(command) for command in commands]

    def _answer(self, command: Command) -> Reply:
        ended, self._left = self._left <= 0, self._left - 1
        if command == wire.WHO:
            slots = "100-199" if ended else "0-199"
            return f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 3 connected {slots}\n".encode()
        if command == wire.JOBS:
            facts = {"name": "j", "operation": "EXPORT", "source_node": A, "target_node": B, "slot_ranges": "0-99"}
            facts |= {"state": "success" if ended else "snapshotting", "message": ""}
            return [[part.encode() for fact in facts.items() for part in fact]]
        return CLUSTER if command[0] == "CLUSTER" else PRIMARY


@pytest.mark.parametrize("ends_after", range(9))
def test_slots_whose_move_has_ended_are_not_with_the_giver_any_more(ends_after: int) -> None:
    """They would be asked to be moved again, which the server refuses."""
    seen = _ask(cast("Session", Giver(ends_after)), with_timeout=False)
    assert isinstance(seen, NodeView)
    (job,) = seen.jobs
    assert job.state is JobState.RUNNING or not seen.slots & GIVEN
