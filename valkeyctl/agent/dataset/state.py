"""What a server that is no cluster's node told last, and what it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from valkeyctl.agent.resp import Nonsense, Reply
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.watch import Look, text_of
from valkeyctl.dataplane.model import Address, Endpoint
from valkeyctl.dataplane.replication import wire
from valkeyctl.dataplane.replication.view import ServerView

AT_REST_S = 0.5
"""Between two looks at a server that serves: half of what clients may have to wait after a planned switch."""


@dataclass(frozen=True)
class DatasetState(ServerState):
    """One look at a server that answered everything. `announces` is the name that it tells others ("" for none)."""

    announces: str = ""

    @cached_property
    def upstream(self) -> Address | None:
        """Whom a replica is told to follow; None for a primary."""
        host, port = self.facts.get("master_host", ""), self.facts.get("master_port", "")
        return Address(host, int(port)) if self.is_replica and host and port.isdigit() else None

    @property
    def is_primary(self) -> bool:
        """Whether it calls itself the primary."""
        return self.facts.get("role") == "master"

    @property
    def linked(self) -> bool:
        """Whether it is a replica whose link is up, and that isn't copying everything."""
        return self.link_up and self.facts.get("master_sync_in_progress") == "0"

    @property
    def not_ready(self) -> str:  # type: ignore[override] - computed anew: it is asked once a look
        """Why it doesn't serve as a member should; "" when it does: a primary, or a replica that is in sync."""
        if self.is_primary or self.linked:
            return ""
        return "is a replica that is not yet in sync" if self.link_up else "is a replica without its primary"

    def view(self, endpoint: Endpoint) -> ServerView:
        """The same as the data plane's record. Raises ValueError, KeyError or IndexError for nonsense."""
        return wire.server_view(endpoint, self.info, [b"replica-announce-ip", self.announces.encode()])


def _read(state: ServerState, replies: Sequence[Reply]) -> ServerState:
    info, announced = replies
    if not isinstance(announced, list) or len(announced) != 2:
        raise Nonsense("a setting with another number of values than one")
    return DatasetState(
        state.number,
        state.phase,
        state.at,
        state.since,
        info=text_of(info),
        announces=text_of(announced[1]).decode(errors="replace"),
    )


DATASET_LOOK = Look((("INFO",), wire.ANNOUNCED), _read, AT_REST_S)


def of_dataset(state: ServerState) -> DatasetState | None:
    """The state of a server that serves; None where it doesn't."""
    return state if isinstance(state, DatasetState) else None
