"""Carry out steps at the servers of one dataset."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.observe import TIMEOUT_S
from valkeyctl.dataplane.replication import steps, wire
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.session import Command, Session

COMMANDS_NEEDED: tuple[str, ...] = (
    "client|kill",
    "config|get",
    "config|set",
    "failover",
    "info",
    "replconf",
    "replicaof",
)
"""Every command that observing and applying use: the rights that the operating user needs, and no more."""

HURRY_S, HURRY_EVERY_S = 0.5, 0.005
"""For how long, and how often, a replica is asked to say how far it is while its primary waits for just that."""

# What a server says when a step had taken effect already: it isn't a failure then.
_TOOK_EFFECT: Mapping[type[Action], tuple[str, ...]] = {
    steps.HandOver: ("FAILOVER is not valid when server is a replica", "FAILOVER already in progress"),
    steps.AbortHandOver: ("No failover in progress",),
}


def apply(step: Action, endpoints: Mapping[Member, Endpoint], dialer: Dialer, *, timeout_s: float = TIMEOUT_S) -> None:
    """Carry out one step at its member. Repeating a step that took effect already is no error.

    Raises `errors.Unreachable`, `errors.Refused` or `errors.ErrorReply`.
    """
    with Links(dialer, timeout_s=timeout_s, max_parallel=1) as links:
        failed = apply_all(links, [step], endpoints)
    for error in failed.values():
        raise error


def apply_all(
    links: Links, todo: Sequence[Action], endpoints: Mapping[Member, Endpoint]
) -> Mapping[Action, errors.ValkeyctlError]:
    """Carry out steps at all their members at once, those of one member in order and in one round trip.

    Returns the steps that failed, each with its error; one that fails doesn't keep the others from being carried out.
    """
    by_member: dict[Member, list[Action]] = defaultdict(list)
    failed: dict[Action, errors.ValkeyctlError] = {}
    for step in todo:
        if step.member in endpoints:
            by_member[step.member].append(step)
        else:
            failed[step] = errors.ConnectFailed(f"{step.member} has no Pod with an address", where=step.describe())

    def talk(session: Session) -> Mapping[Action, errors.ValkeyctlError]:
        return _carry_out(session, by_member[session.endpoint.member])

    for member, told in links.each({member: endpoints[member] for member in by_member}, talk).items():
        failed.update(dict.fromkeys(by_member[member], told) if isinstance(told, errors.ValkeyctlError) else told)
    heirs = {step.heir for step in todo if isinstance(step, steps.HandOver) and step not in failed}
    # What goes wrong there is no failure of the step: it only takes longer then.
    links.each({heir: endpoints[heir] for heir in heirs if heir in endpoints}, _hurry)
    return failed


def _carry_out(session: Session, todo: Sequence[Action]) -> Mapping[Action, errors.ValkeyctlError]:
    commands = [(step, command) for step in todo for command in _commands(step, session.endpoint)]
    replies = session.ask([command for _, command in commands])
    failed: dict[Action, errors.ValkeyctlError] = {}
    for (step, _), reply in zip(commands, replies, strict=True):
        if isinstance(reply, errors.ValkeyctlError) and step not in failed and not _took_effect(step, reply):
            failed[step] = reply
    return failed


def _commands(step: Action, at: Endpoint) -> list[Command]:
    match step:
        case steps.Announce():
            # Whoever it is linked to hears the name when it connects again, which costs no copy.
            return [("CONFIG", "SET", "replica-announce-ip", at.host), ("CLIENT", "KILL", "TYPE", "primary")]
        case steps.Promote():
            return [("REPLICAOF", "NO", "ONE")]
        case steps.Replicate(to=to) | steps.Demote(to=to):
            return [("REPLICAOF", to.host, to.port)]
        case steps.HandOver(to=to):
            return [("FAILOVER", "TO", to.host, to.port, "TIMEOUT", steps.HANDOVER_TIMEOUT_MS)]
        case steps.AbortHandOver():
            return [("FAILOVER", "ABORT")]


def _took_effect(step: Action, reply: errors.ValkeyctlError) -> bool:
    return any(text in reply.what for text in _TOOK_EFFECT.get(type(step), ()))


def _hurry(session: Session) -> None:
    """Have a replica say how far it is, until it is the primary.

    By itself it does so once a second, and for as long its primary takes no writes: measured, a gap of up to 1 s
    becomes one of 10 ms.
    """
    deadline = time.monotonic() + HURRY_S
    while time.monotonic() < deadline:
        session.tell(wire.SAY_HOW_FAR)
        told = session.ask([wire.ROLE])[0]
        if not isinstance(told, bytes) or wire.is_primary(told):
            return
        time.sleep(HURRY_EVERY_S)
