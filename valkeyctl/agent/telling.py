"""What this member tells the others of itself: from its live server, else from what a stopped one left on the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Server, Tale
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane import wire
from valkeyctl.dataplane.model import Endpoint
from valkeyctl.dataplane.view import NodeView, Role

FROZEN_S = 2.0
"""A server that is silent for so long takes part in nothing until it comes back."""
DISK_S = 0.5
"""How long what was read from the disk counts as new, unless its server has started or ended since."""


class Telling:
    """Makes this member's tale; from any thread."""

    def __init__(
        self, environment: Environment, watch: Watch, disk: Callable[[], Tale], held: Callable[[], bool]
    ) -> None:
        """`disk` reads what a stopped server left; `held` tells whether no server runs, and none may start yet."""
        place = environment
        self._endpoint = Endpoint(place.member, place.pod, place.host, place.address, place.client_port, place.bus_port)
        self._member_named = place.member_named
        self._watch = watch
        self._disk = disk
        self._held = held
        self._lock = threading.Lock()
        self._read: tuple[float, int, Tale] | None = None
        self._turns = 0
        self._phase: Phase | None = None
        self._answered: ServerState | None = None
        self._loaded: Data | None = None
        self._primary_id = ""
        self._synced: bool | None = None
        self._followed = False

    def note(self, state: ServerState) -> None:
        """Remember of a look what the tale needs later; to be called with every one."""
        if state.phase is not self._phase:
            self._phase, self._turns = state.phase, self._turns + 1
        if state.serving:
            self._answered = state
        elif state.phase in (Phase.DOWN, Phase.LOADING):
            self._answered = None
        if state.phase is Phase.DOWN:
            self._loaded, self._followed = None, False
            return
        if self._loaded is None:
            # What the server that is now seen for the first time has loaded, or is loading.
            self._loaded = self._what_it_loads()
        if state.phase is Phase.LOADING and self._followed:
            self._synced = False
        elif state.serving:
            self._note_link(state)

    def missed_some(self) -> None:
        """Remember that the primary goes on without this replica: its copy lacks something from now on."""
        self._synced = False

    def now(self) -> Tale:
        """The tale after the last look. Raises OSError or `disk.Unreadable` when there is nothing to go by."""
        return self._after(self._watch.state)

    def fresh_for(self, asker: Tale, timeout_s: float = 0.2) -> Tale:
        """The tale after a new look at the server, or after the last one if that takes too long, for a member that
        asks: with it, whether the server knows that one. Raises as `now`.
        """
        asked_at = time.monotonic()
        state = self._watch.look_again(timeout_s)
        return replace(self._after(state), knows_asker=_knows(state, asker.node_id, asked_at))

    def or_nothing(self) -> Tale:
        """The tale, or one that tells nothing but who this is: for asking others."""
        try:
            return self.now()
        except (OSError, ValueError, KeyError, IndexError):  # a disk that fails, a table that isn't understood
            return Tale(self._endpoint.member, server=Server.LOADING, data=Data(Kind.UNKNOWN))

    def _after(self, state: ServerState) -> Tale:
        if state.serving:
            return self._live(self._view(state))
        silent = state.phase is Phase.SILENT and time.monotonic() - state.since > FROZEN_S
        held = state.phase is Phase.DOWN and self._held()
        server = Server.DOWN if held or silent else Server.LOADING
        left = self._from_disk()
        # An agent that has just come back hasn't looked yet, and a server runs that it had permitted, or is about to.
        asked = state.number > 0 or held
        data = left.data if asked and state.phase in (Phase.DOWN, Phase.LOADING) else self._in_memory()
        synced = self._synced if left.role is Role.REPLICA else None
        return replace(left, server=server, held=held, data=data, synced=synced)

    def _in_memory(self) -> Data:
        """What a server that runs and doesn't answer has: more than its disk, and at least what it last told."""
        last = self._answered
        return Data(Kind.UNKNOWN) if last is None else self._live_data(self._view(last))

    def _view(self, state: ServerState) -> NodeView:
        return wire.node_view(self._endpoint, (state.nodes, state.cluster_info, state.info))

    def _note_link(self, state: ServerState) -> None:
        if state.primary_id != self._primary_id:
            self._primary_id, self._synced = state.primary_id, None
        if state.facts.get("master_sync_in_progress") == "1":
            self._synced = False
        elif state.link_up:
            self._synced = self._followed = True

    def _what_it_loads(self) -> Data | None:
        """None where the disk can't be read just now: then it is tried again at the next look."""
        try:
            return self._from_disk().data
        except (OSError, Unreadable):
            return None

    def _from_disk(self) -> Tale:
        with self._lock:
            now, turns = time.monotonic(), self._turns
            if self._read is None or now - self._read[0] > DISK_S or self._read[1] != turns:
                self._read = (now, turns, self._disk())
            return self._read[2]

    def _live(self, node: NodeView) -> Tale:
        shard = node.primary_id or node.node_id
        peers = [peer for peer in node.peers.values() if not peer.handshake]
        name = self._member_named
        return Tale(
            member=node.member,
            server=Server.UP,
            node_id=node.node_id,
            role=node.role,
            primary_id=node.primary_id,
            slots=node.slots,
            config_epoch=node.config_epoch,
            current_epoch=node.current_epoch,
            data=self._live_data(node),
            synced=self._synced if node.role is Role.REPLICA else None,
            owners=tuple(
                Owner(peer.node_id, name(peer.host), peer.config_epoch, peer.slots) for peer in peers if peer.slots
            ),
            followers=tuple(
                Follower(peer.node_id, name(peer.host), peer.primary_id)
                for peer in peers
                if peer.role is Role.REPLICA and peer.primary_id == shard
            ),
        )

    def _live_data(self, node: NodeView) -> Data:
        if node.link is not None and not node.link.was_up and not self._followed:
            # It has followed nobody since it started: what it has is what it loaded.
            return self._loaded or Data(Kind.UNKNOWN)
        return Data(Kind.LIVE, node.replication_id, node.offset)


def _knows(state: ServerState, node_id: str, asked_at: float) -> bool | None:
    """Whether the server has a node in its table; None where that can't be said: it doesn't serve, the question names
    no node, or the last look is older than the question, so that it may have come to know it since.
    """
    if not state.serving or not node_id:
        return None
    if any(line.startswith(f"{node_id} ".encode()) for line in state.nodes.splitlines()):
        return True
    return False if state.at >= asked_at else None
