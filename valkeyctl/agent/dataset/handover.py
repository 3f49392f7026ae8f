"""Handing the primary's role over before its server stops, for all versions: the server does it by `FAILOVER TO`.

The server container's preStop hook asks through a `Door`, and goes on when it is answered, whatever became of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from valkeyctl.agent.dataset.deciding import Decider
from valkeyctl.agent.dataset.state import DatasetState, of_dataset
from valkeyctl.agent.door import Door
from valkeyctl.agent.logs import Log
from valkeyctl.agent.resp import ErrorReply, Link, Nonsense
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.model import Address, Endpoint, Member
from valkeyctl.dataplane.replication.view import ListedReplica
from valkeyctl.dataplane.replication.wire import SAY_HOW_FAR

WITHIN_S = 10.0
"""Then the server stops as it is."""
TRY_MS = 4000
"""How long a replica has to catch up, while the server takes no writes; then it goes on as the primary."""
LOOK_S = 0.02
HURRY_S = 1.0


def in_sync(state: ServerState, member_at: Callable[[str], Member | None]) -> dict[Member, ListedReplica]:
    """The replicas that the own server, a primary, lists as online, the one that has most first."""
    live = of_dataset(state)
    if live is None or not live.is_primary:
        return {}
    listed = live.view(Endpoint(Member(0, 0), "", "", "")).replicas
    online = sorted((one for one in listed if one.online), key=lambda one: one.offset, reverse=True)
    named = ((member_at(one.at.host), one) for one in online)
    return {member: one for member, one in named if member is not None}


class HandOver:
    """Has the own server give its role to one of its replicas."""

    def __init__(
        self,
        watch: Watch,
        own_server: Callable[[], Link],
        server_of: Callable[[Member], Link],
        member_at: Callable[[str], Member | None],
        log: Log,
    ) -> None:
        """`own_server` and `server_of` give signed-in connections, or raise OSError."""
        self._watch = watch
        self._own_server = own_server
        self._server_of = server_of
        self._member_at = member_at
        self._log = log

    def to_best(self, deadline: float) -> str:
        """Hand over to the best replica in sync, one after the other until one has it; what became of it. `deadline` is
        of the monotonic clock. Never raises.
        """
        tried: set[Member] = set()
        while (state := self._watch.look_again(1.0)).serving:
            if state.is_replica:
                return "the server is a replica" if not tried else "handed over: the server is a replica now"
            best = next((one for one in in_sync(state, self._member_at).items() if one[0] not in tried), None)
            if time.monotonic() > deadline or best is None:
                return "no replica took over" if tried else "there is no replica in sync to hand over to"
            tried.add(best[0])
            self.to(best[0], best[1].at, deadline)
        return f"the server is {state.phase}"

    def to(self, member: Member, at: Address, deadline: float) -> bool:
        """Hand over to a replica, which the own server lists as `at`; whether the server is a replica now."""
        try:
            with self._own_server() as link:
                reply = link.ask(("FAILOVER", "TO", at.host, at.port, "TIMEOUT", TRY_MS))[0]
        except (OSError, Nonsense) as error:
            self._log.warning("handover", f"the own server can't be asked: {error}")
            return False
        if isinstance(reply, ErrorReply):
            self._log.warning("handover", f"the own server refuses to hand over to {member}: {reply.text}")
            return False
        hurry = threading.Thread(target=self._hurry, args=(member,), name="hurry", daemon=True)
        hurry.start()
        deadline = min(deadline, time.monotonic() + TRY_MS / 1000 + 1.0)
        while time.monotonic() < deadline:
            live = of_dataset(self._watch.look_again(1.0))
            if live is None:
                return False
            if live.facts.get("master_failover_state", "no-failover") == "no-failover":
                return live.is_replica
            time.sleep(LOOK_S)
        return False

    def _hurry(self, member: Member) -> None:
        """Have the replica say how far it is, which it does by itself once a second: its primary waits for just that.

        It answers that to nobody but its primary, so that this connection is of no more use.
        """
        deadline = time.monotonic() + HURRY_S
        try:
            with self._server_of(member) as link:
                while time.monotonic() < deadline:
                    link.tell(SAY_HOW_FAR)
                    time.sleep(LOOK_S)
        except (OSError, Nonsense):
            pass


class PreStop:
    """The thread that answers the hook."""

    def __init__(self, door: Door, decider: Decider, before: Callable[[], None], after: Callable[[], None], log: Log):
        """`before` is called when the server is about to stop, `after` when the role was handed over."""
        self._door = door
        self._decider = decider
        self._before = before
        self._after = after
        self._log = log

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Answer until `stopping` is set."""
        while not stopping.is_set():
            beat()
            token = self._door.asked()
            if token:
                self._before()
                became = self._decider.hand_over(time.monotonic() + WITHIN_S)
                self._log.info("handover", became)
                self._after()
                self._door.answer(token, became)
            self._door.wait(1.0)


def is_handing_over(state: DatasetState) -> bool:
    """Whether a handover is under way at the own server."""
    return state.facts.get("master_failover_state", "no-failover") != "no-failover"
