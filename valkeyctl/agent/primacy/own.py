"""What is done to the own server: made the primary, stopped from taking writes, told whom to follow, handed over."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from valkeyctl.agent.primacy.fence import Clock, Fence
from valkeyctl.agent.primacy.timing import ENOUGH_S, SOFT_S
from valkeyctl.agent.resp import Command, ErrorReply, Link, Nonsense, Reply
from valkeyctl.dataplane.model import Address

NOBODY = Address("127.0.0.1", 1)
"""Where nobody listens: who follows it takes no writes, and keeps its data."""
ROLE: Command = ("INFO", "replication")
PROCESS: Command = ("INFO", "server")
HURRY_EVERY_S = 0.01


class OwnServer:
    """The own server, whose role agrees with the fence. From any thread."""

    def __init__(self, connect: Callable[[], Link], fence: Fence, clock: Clock, sleep: Callable[[float], None]) -> None:
        """`connect` gives a signed-in connection or raises OSError or Nonsense."""
        self._connect = connect
        self._fence = fence
        self._now = clock
        self._sleep = sleep
        self._unsure_of = ""

    def promote(self, may: Callable[[], bool]) -> bool:
        """Make it the primary; whether it is. `may` is asked at the last moment, with the fence armed and locked.

        Over a connection that was there before the fence is looked at: what is sent over it reaches only the process
        that the fence will end, however late it arrives.
        """
        with self._talk() as link, self._fence.lock:
            until = self._fence.until
            if link is None or until is None or until - SOFT_S - self._now() < ENOUGH_S or not may():
                return False
            self._unsure_of = _run_id(link)
            told = link.ask(("REPLICAOF", "NO", "ONE"), ROLE)[1]
            self._unsure_of = ""
            return _facts(told).get("role") == "master"
        return False

    def stop_writes(self, follow: Address | None) -> bool:
        """Have it take no more writes; whether that is sure, and the fence told so. Keeps its data.

        `follow` is whom it then follows. A replica is left as it is. While it hands its role over it refuses to be told
        anything: then it becomes a replica soon, or is ended in time. Giving up the handover would make it a primary.
        """
        with self._talk() as link, self._fence.lock:
            if link is None:
                return False
            process, told = _run_id(link), _facts(link.ask(ROLE)[0])
            if told.get("role") == "master":
                link.ask(("REPLICAOF", (follow or NOBODY).host, (follow or NOBODY).port))
                told = _facts(link.ask(ROLE)[0])
            if not _is_settled_replica(told) or process == self._unsure_of:
                return False
            self._fence.stand_down()
            return True
        return False

    def follow(self, to: Address) -> bool:
        """Have it, a replica, follow another one; whether it does."""
        with self._talk() as link, self._fence.lock:
            if link is None:
                return False
            if not _is_settled_replica(_facts(link.ask(ROLE)[0])):
                return False
            reply = link.ask(("REPLICAOF", to.host, to.port))[0]
            return not isinstance(reply, ErrorReply)
        return False

    def hand_over(self, listed: Address, within_s: float, hurry: Callable[[], None]) -> bool:
        """Have it hand its role over to a replica, as it lists it; whether it has. It takes no writes meanwhile.

        Returns False only where it surely has not and won't. `hurry` is called again and again until the other is
        there.
        """
        with self._talk() as link:
            if link is None:
                return False
            timeout_ms = max(1, int(within_s * 1000))
            reply = link.ask(("FAILOVER", "TO", listed.host, listed.port, "TIMEOUT", timeout_ms))[0]
            if isinstance(reply, ErrorReply):
                return False
            deadline = self._now() + within_s + 1.0
            while self._now() < deadline:
                hurry()
                told = _facts(link.ask(ROLE)[0])
                if told.get("master_failover_state") == "no-failover":
                    return told.get("role") == "slave"
                self._sleep(HURRY_EVERY_S)
        # Unsure: whatever becomes of it, the Lease names the other one, and the fence ends this one in time.
        return True

    @contextmanager
    def _talk(self) -> Generator[Link | None]:
        """A connection; None where there is none. One that breaks off ends the block; what watches the server tells."""
        try:
            link = self._connect()
        except (OSError, Nonsense):
            yield None
            return
        try:
            with suppress(OSError, Nonsense):
                yield link
        finally:
            link.close()


def _facts(reply: Reply) -> dict[str, str]:
    if not isinstance(reply, bytes):
        raise Nonsense("a reply of another kind than was asked for")
    pairs = (line.partition(":") for line in reply.decode().splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def _run_id(link: Link) -> str:
    return _facts(link.ask(PROCESS)[0]).get("run_id", "")


def _is_settled_replica(told: dict[str, str]) -> bool:
    return told.get("role") == "slave" and told.get("master_failover_state", "no-failover") == "no-failover"
