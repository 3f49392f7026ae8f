"""Handovers, which go on between two servers and a Sentinel and are seen through, since writes wait meanwhile.

Since 9.0 a Sentinel hands over together with the servers. Before that it promotes a replica and tells the old primary
some 8 s later, which takes writes meanwhile that are lost. So the servers do it there: `FAILOVER TO … TIMEOUT …` has
the primary hold back writes until that replica has all, and change its role in the same moment; then the Sentinel is
told to choose that replica. What stops writes is the server itself, bounded by the timeout that it was given: a run
that dies at any point leaves the old state, or the new one which the Sentinels don't know of yet. The next plan tells
them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.sentinel import steps, wire
from valkeyctl.dataplane.session import Command, Session
from valkeyctl.dataplane.translate import where

GRACE_S = 3.0
COORDINATED_S = 3.0
"""How long a coordinated handover is seen through; the Sentinel has to be elected before it begins."""
_LOOK_S = 0.01


class Handing:
    """Carries out handovers over connections that stay open."""

    def __init__(self, sentinels: Links, servers: Links) -> None:
        self._sentinels = sentinels
        self._servers = servers

    def hand_over(
        self,
        step: steps.HandOver | steps.Coordinate,
        sentinels: Mapping[Member, Endpoint],
        servers: Mapping[Member, Endpoint],
    ) -> errors.ValkeyctlError | None:
        """Hand the role over; the error when the servers or the Sentinel refused. Raises nothing.

        None says that it took place, or that a Sentinel is at it: the next look tells.
        """
        primary, leader = (
            (step.member, step.sentinel) if isinstance(step, steps.HandOver) else (step.primary, step.member)
        )
        known = {**servers, **sentinels}
        gone = next((member for member in (primary, step.to, leader) if member not in known), None)
        if gone is not None:
            return errors.ConnectFailed(f"{gone} has no Pod with an address", where=step.describe())
        at = {member: servers[member] for member in (primary, step.to)}
        if isinstance(step, steps.HandOver):
            ask: Command = ("FAILOVER", "TO", step.target.host, step.target.port, "TIMEOUT", step.timeout_ms)
            error = self._move(at, primary, step.timeout_ms / 1000 + GRACE_S, ask)
            return error or self._tell(leader, sentinels, ("SENTINEL", "FAILOVER", step.name))
        error = self._tell(leader, sentinels, ("SENTINEL", "FAILOVER", step.name, "COORDINATED"))
        if error is None:
            self._move(at, primary, COORDINATED_S, None)
        return error

    def _tell(
        self, leader: Member, sentinels: Mapping[Member, Endpoint], command: Command
    ) -> errors.ValkeyctlError | None:
        told = self._sentinels.each({leader: sentinels[leader]}, lambda session: session.ask([command])[0])[leader]
        refused = isinstance(told, errors.ValkeyctlError) and "INPROG" not in told.what
        return told if refused and isinstance(told, errors.ValkeyctlError) else None

    def _move(
        self, at: Mapping[Member, Endpoint], primary: Member, within_s: float, ask: Command | None
    ) -> errors.ValkeyctlError | None:
        over = threading.Event()

        def talk(session: Session) -> None:
            if session.endpoint.member != primary:
                _hurry(session, over, within_s)
                return
            try:
                move(session, within_s, ask)
            finally:
                over.set()

        patient = self._servers.patient(within_s + 1, lane=0 if ask is None else 1)
        outcome = patient.each(at, talk)[primary]
        return outcome if isinstance(outcome, errors.ValkeyctlError) else None


def move(session: Session, within_s: float, ask: Command | None) -> None:
    """Have a primary give its role away by `ask`, and wait until it has; without, until somebody else had it so."""
    if ask is not None:
        asked = session.ask([ask])[0]
        # It may be at it already, asked by a run that died, or be a replica by now.
        if isinstance(asked, errors.ValkeyctlError) and not any(
            text in asked.what for text in ("already in progress", "not valid when server is a replica")
        ):
            raise asked
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        told = session.ask([wire.ROLE])[0]
        if isinstance(told, errors.ValkeyctlError):
            raise told
        info = wire.fields(told.decode(errors="replace")) if isinstance(told, bytes) else {}
        # One that has stepped back is a replica already, and takes its role again if the other doesn't take it.
        settled = info.get("master_failover_state", "no-failover") == "no-failover"
        if settled and info.get("role") == "slave":
            return
        if settled and ask is not None:
            raise errors.ErrorReply(
                "the handover was given up by the server, which stays the primary: the replica didn't have all writes "
                "in time",
                where=where(session.endpoint),
            )
        time.sleep(_LOOK_S)
    raise errors.NoAnswer("the handover neither took place nor was given up", where=where(session.endpoint))


def _hurry(session: Session, over: threading.Event, within_s: float) -> None:
    """Have the replica tell its primary again and again how far it is, which it does by itself once a second.

    Always raises in the end: what isn't answered can't be told from what was refused, so this link isn't used again.
    """
    deadline = time.monotonic() + within_s
    while not over.is_set() and time.monotonic() < deadline:
        session.tell(wire.SAY_HOW_FAR)
        over.wait(_LOOK_S)
    raise errors.ConnectFailed("this link was for one purpose", where=where(session.endpoint))
