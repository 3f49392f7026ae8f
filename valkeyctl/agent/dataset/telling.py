"""What this member of a dataset tells the others: from its live server, else from what a stopped one left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from valkeyctl.agent.dataset.state import DatasetState, of_dataset
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.tale import Data, Kind, Server
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.model import Address, Endpoint, Member
from valkeyctl.dataplane.replication.view import ServerView
from valkeyctl.dataplane.view import Role

FROZEN_S = 2.0
"""A server that is silent for so long takes part in nothing until it comes back."""
DISK_S = 0.5
"""How long what was read from the disk counts as new."""


class Telling:
    """Makes this member's tale; from any thread."""

    def __init__(
        self,
        environment: Environment,
        watch: Watch,
        disk: Callable[[], Data],
        *,
        held: Callable[[], bool],
        primary: Callable[[], Member | None],
        member_at: Callable[[str], Member | None],
    ) -> None:
        """`disk` reads what a stopped server left; `held` tells whether no server runs, and none may start yet.

        `primary` is who the primary is as far as this agent knows, `member_at` whose host name or address something is.
        """
        place = environment
        self.endpoint = Endpoint(place.member, place.pod, place.host, place.address, place.client_port)
        self.wants_to_stop = False
        self._watch = watch
        self._disk = disk
        self._held = held
        self._primary = primary
        self._member_at = member_at
        self._lock = threading.Lock()
        self._read: tuple[float, Data] | None = None
        self._loaded: Data | None = None
        self._upstream: Address | None = None
        self._synced: bool | None = None
        self._followed = False

    def note(self, state: ServerState) -> None:
        """Remember of a look what the tale needs later; to be called with every one."""
        if state.phase is Phase.DOWN:
            self._loaded, self._followed = None, False
            return
        if self._loaded is None:
            # What the server that is now seen for the first time has loaded, or is loading.
            self._loaded = self._what_it_loads()
        live = of_dataset(state)
        if state.phase is Phase.LOADING and self._followed:
            self._synced = False
        elif live is not None:
            self._note_link(live)

    def fresh(self, timeout_s: float = 0.2) -> DatasetTale:
        """The tale after a new look at the server, or after the last one if that takes too long. Raises as `now`."""
        self._watch.look_again(timeout_s)
        return self.now()

    def now(self) -> DatasetTale:
        """The tale after the last look. Raises OSError or `disk.Unreadable` when there is nothing to go by."""
        state = self._watch.state
        live = of_dataset(state)
        if live is not None:
            return self._live(live.view(self.endpoint))
        silent = state.phase is Phase.SILENT and time.monotonic() - state.since > FROZEN_S
        held = state.phase is Phase.DOWN and self._held()
        return DatasetTale(
            self.endpoint.member,
            Server.DOWN if held or silent else Server.LOADING,
            held=held,
            synced=self._synced,
            data=self._from_disk(),
            primary=self._primary(),
            wants_to_stop=self.wants_to_stop,
        )

    def or_nothing(self) -> DatasetTale:
        """The tale, or one that tells nothing but who this is: for asking others."""
        try:
            return self.now()
        except (OSError, ValueError, KeyError, IndexError):  # a disk that fails, an answer that isn't understood
            return DatasetTale(self.endpoint.member, Server.LOADING)

    def _note_link(self, live: DatasetState) -> None:
        if live.upstream != self._upstream:
            self._upstream, self._synced = live.upstream, None
        if live.facts.get("master_sync_in_progress") == "1":
            self._synced = False
        elif live.link_up:
            self._synced = self._followed = True

    def _what_it_loads(self) -> Data:
        try:
            return self._from_disk()
        except (OSError, Unreadable):
            return Data()

    def _from_disk(self) -> Data:
        with self._lock:
            now = time.monotonic()
            if self._read is None or now - self._read[0] > DISK_S:
                self._read = (now, self._disk())
            return self._read[1]

    def _live(self, node: ServerView) -> DatasetTale:
        replica = node.role is Role.REPLICA
        return DatasetTale(
            member=node.member,
            server=Server.UP,
            role=node.role,
            upstream=None if node.upstream is None else self._member_at(node.upstream.host),
            linked=node.linked,
            synced=self._synced if replica else None,
            data=self._live_data(node),
            second_id=node.history.second_id,
            second_end=node.history.second_end,
            established=node.established,
            primary=self._primary(),
            wants_to_stop=self.wants_to_stop,
        )

    def _live_data(self, node: ServerView) -> Data:
        history = node.history
        if node.role is Role.REPLICA and not node.was_linked and not self._followed:
            # It has followed nobody since it started: what it has is what it loaded.
            loaded = self._loaded or Data()
            if loaded.kind is Kind.SNAPSHOT and node.placed:
                return Data(loaded.kind, history.replication_id, history.offset, loaded.written_at)
            return loaded
        return Data(Kind.LIVE, history.replication_id, history.offset)
