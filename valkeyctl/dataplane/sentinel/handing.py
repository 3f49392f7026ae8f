"""A handover with a Sentinel that can't coordinate one: the servers do it, and the Sentinel follows at once.

Before 9.0 a Sentinel promotes the replica and tells the old primary some 8 s later, which takes writes meanwhile that
are lost. The servers' own `FAILOVER TO … TIMEOUT …` has the primary hold back writes until that replica has all, and
change its role in the same moment; only then the Sentinel is told to choose that replica. What stops writes is the
server itself, bounded by the timeout that it was given, so a run that dies at any point leaves either the old state or
the new one, which the Sentinels don't know of yet. The next plan tells them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.sentinel import steps, wire
from valkeyctl.dataplane.session import Session
from valkeyctl.dataplane.translate import where

GRACE_S = 3.0
_LOOK_S = 0.005


def hand_role_over(
    step: steps.HandOver,
    sentinel_links: Links,
    server_links: Links,
    sentinels: Mapping[Member, Endpoint],
    servers: Mapping[Member, Endpoint],
) -> errors.ValkeyctlError | None:
    """Hand the role over and have the Sentinel follow; None when both took place. Raises nothing."""
    for member, known in ((step.member, servers), (step.sentinel, sentinels)):
        if member not in known:
            return errors.ConnectFailed(f"{member} has no Pod with an address", where=step.describe())
    patient = server_links.patient(step.timeout_ms / 1000 + GRACE_S)
    moved = patient.each({step.member: servers[step.member]}, lambda session: _move(session, step))[step.member]
    if isinstance(moved, errors.ValkeyctlError):
        return moved
    followed = sentinel_links.each(
        {step.sentinel: sentinels[step.sentinel]}, lambda session: _follow(session, step.name)
    )
    error = followed[step.sentinel]
    return error if isinstance(error, errors.ValkeyctlError) else None


def _move(session: Session, step: steps.HandOver) -> None:
    target = step.target
    asked = session.ask([("FAILOVER", "TO", target.host, target.port, "TIMEOUT", step.timeout_ms)])[0]
    # It may be at it already, asked by a run that died, or be a replica by now.
    if isinstance(asked, errors.ValkeyctlError) and not any(
        text in asked.what for text in ("already in progress", "not valid when server is a replica")
    ):
        raise asked
    deadline = time.monotonic() + step.timeout_ms / 1000 + GRACE_S
    while time.monotonic() < deadline:
        told = session.ask([("INFO", "replication")])[0]
        if isinstance(told, errors.ValkeyctlError):
            raise told
        info = wire.fields(told.decode(errors="replace")) if isinstance(told, bytes) else {}
        if info.get("role") == "slave":
            return
        if info.get("master_failover_state", "no-failover") == "no-failover":
            raise errors.ErrorReply(
                f"the handover to {step.to} was given up by the server, which stays the primary: the replica "
                f"didn't have all writes within {step.timeout_ms} ms",
                where=where(session.endpoint),
            )
        time.sleep(_LOOK_S)
    raise errors.NoAnswer("the handover neither took place nor was given up", where=where(session.endpoint))


def _follow(session: Session, name: str) -> None:
    reply = session.ask([("SENTINEL", "FAILOVER", name)])[0]
    if isinstance(reply, errors.ValkeyctlError) and "INPROG" not in reply.what:
        raise reply
