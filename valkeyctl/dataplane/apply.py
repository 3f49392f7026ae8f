"""Carry out steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from valkeyctl.dataplane import errors, steps, wire
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.moving import Move, carry_out_moves
from valkeyctl.dataplane.session import Command, Session
from valkeyctl.dataplane.steps import Action, Step
from valkeyctl.dataplane.translate import where

COMMANDS_NEEDED: tuple[str, ...] = (
    "cluster|nodes",
    "cluster|info",
    "cluster|countkeysinslot",
    "cluster|meet",
    "cluster|set-config-epoch",
    "cluster|addslotsrange",
    "cluster|delslotsrange",
    "cluster|bumpepoch",
    "cluster|replicate",
    "cluster|reset",
    "cluster|failover",
    "cluster|forget",
    "cluster|setslot",
    "cluster|getkeysinslot",
    "config|get",
    "config|set",
    "flushall",
    "function|list",
    "function|dump",
    "function|restore",
    "info",
    "migrate",
    "restore-asking",
    "select",
)
"""Every command that observing and applying use: the rights that the operating user needs, and no more. Keys are sent
from server to server in its name, so it needs the right to all keys too.
"""
COMMANDS_NEEDED_SINCE_9: tuple[str, ...] = (
    "cluster|getslotmigrations",
    "cluster|migrateslots",
)
"""What it needs besides on servers of 9.0 and newer; older ones don't know these, not even as rights."""

# What a server says when a step had taken effect already: it isn't a failure then.
_TOOK_EFFECT: Mapping[type[Action], tuple[str, ...]] = {
    steps.SetEpoch: ("already non-zero", "does not know any other node"),
    steps.Forget: ("Unknown node",),
    # It is a primary by now: the server did it itself, or the answer to the first asking was lost.
    steps.TakeOver: ("CLUSTER FAILOVER to a replica",),
    steps.HandOver: ("CLUSTER FAILOVER to a replica",),
}

_HOW: Mapping[type[Action], tuple[str, ...]] = {
    # Without the primary's consent, which is gone; still voted for by a majority, unlike TAKEOVER.
    steps.Promote: ("FORCE",),
    steps.TakeOver: ("TAKEOVER",),
    # The primary takes part, and nothing that it acknowledged is lost.
    steps.HandOver: (),
}


def apply(step: Step, endpoints: Mapping[Member, Endpoint], dialer: Dialer, *, timeout_s: float = 2.0) -> None:
    """Carry out one step at its member. Repeating a step that took effect already is no error.

    Addresses are taken from `endpoints` alone. Raises `errors.Unreachable`, `errors.Refused` or `errors.ErrorReply`.
    """
    with Links(dialer, timeout_s=timeout_s, max_parallel=1) as links:
        failed = apply_all(links, [step], endpoints)
    for error in failed.values():
        raise error


def apply_all(
    links: Links, todo: Sequence[Step], endpoints: Mapping[Member, Endpoint]
) -> Mapping[Step, errors.ValkeyctlError]:
    """Carry out steps at all their members at once, those of one member in order and in one round trip.

    Returns the steps that failed, each with its error; one that fails doesn't keep the others from being carried out.
    """
    by_member: dict[Member, list[Action]] = defaultdict(list)
    moves: list[Move] = []
    failed: dict[Step, errors.ValkeyctlError] = {}
    for step in todo:
        if isinstance(step, steps.Wait):
            continue
        gone = next((m for m in _touched(step) if m not in endpoints), None)
        if gone is not None:
            failed[step] = errors.ConnectFailed(f"{gone} has no Pod with an address", where=step.describe())
        elif isinstance(step, steps.MigrateSlots | steps.MoveKeys):
            moves.append(step)
        else:
            by_member[step.member].append(step)

    def talk(session: Session) -> Mapping[Step, errors.ValkeyctlError]:
        return _carry_out(session, by_member[session.endpoint.member], endpoints)

    for member, told in links.each({member: endpoints[member] for member in by_member}, talk).items():
        failed.update(dict.fromkeys(by_member[member], told) if isinstance(told, errors.ValkeyctlError) else told)
    # What takes longest comes last, so that it keeps nothing else waiting.
    return {**failed, **carry_out_moves(links, moves, endpoints)} if moves else failed


def _carry_out(
    session: Session, todo: Sequence[Action], endpoints: Mapping[Member, Endpoint]
) -> Mapping[Step, errors.ValkeyctlError]:
    commands = [(step, command) for step in todo for command in _commands(step, endpoints)]
    replies = session.ask([command for _, command in commands])
    failed: dict[Step, errors.ValkeyctlError] = {}
    for (step, _), reply in zip(commands, replies, strict=True):
        if isinstance(reply, errors.ValkeyctlError) and step not in failed and not _took_effect(step, reply):
            failed[step] = reply
    for step in list(failed):
        if isinstance(step, steps.Detach) and _subcommand_unknown(failed[step]):
            del failed[step]
            failed.update(_detach_by_reset(session, step))
    emptied = next((s for s in todo if isinstance(s, steps.Detach | steps.Leave) and s not in failed), None)
    if emptied is not None:
        failed.update(_empty_the_disk(session, emptied))
    return failed


def _commands(step: Action, endpoints: Mapping[Member, Endpoint]) -> list[Command]:  # noqa: C901, PLR0911  (one case a step)
    match step:
        case steps.SetEpoch(epoch=epoch):
            return [("CLUSTER", "SET-CONFIG-EPOCH", epoch)]
        case steps.AssignSlots(slots=slots, raise_epoch=raise_epoch):
            assign: Command = ("CLUSTER", "ADDSLOTSRANGE", *slots.bounds)
            return [assign, ("CLUSTER", "BUMPEPOCH")] if raise_epoch else [assign]
        case steps.DropSlots(slots=slots):
            return [("CLUSTER", "DELSLOTSRANGE", *slots.bounds)]
        # To a node that knows the caller, the same packet is as good as a ping: it carries the caller's slots.
        case steps.Introduce(to=to) | steps.Remind(to=to):
            return [("CLUSTER", "MEET", endpoints[to].address, endpoints[to].port, endpoints[to].bus_port)]
        case steps.Replicate(primary_id=primary_id):
            return [("CLUSTER", "REPLICATE", primary_id)]
        case steps.Detach():
            return [("CLUSTER", "REPLICATE", "NO", "ONE")]
        case steps.Promote() | steps.TakeOver() | steps.HandOver():
            return [("CLUSTER", "FAILOVER", *_HOW[type(step)])]
        case steps.Forget(node_id=node_id):
            return [("CLUSTER", "FORGET", node_id)]
        case steps.CloseSlot(slot=slot):
            return [("CLUSTER", "SETSLOT", slot, "STABLE")]
        case steps.Leave() | steps.StartAnew():
            return [("CLUSTER", "RESET", "HARD")]
        case steps.MigrateSlots() | steps.MoveKeys():
            raise AssertionError("slots are moved between two members, not by commands to one")
        case steps.SetNodeTimeout(timeout_ms=timeout_ms):
            return [("CONFIG", "SET", "cluster-node-timeout", timeout_ms)]


def _touched(step: Action) -> tuple[Member, ...]:
    if isinstance(step, steps.Introduce | steps.Remind | steps.MigrateSlots | steps.MoveKeys):
        return (step.member, step.to)
    return (step.member,)


def _took_effect(step: Action, reply: errors.ValkeyctlError) -> bool:
    return any(text in reply.what for text in _TOOK_EFFECT.get(type(step), ()))


def _subcommand_unknown(error: errors.ValkeyctlError) -> bool:
    return isinstance(error, errors.ErrorReply) and "wrong number of arguments" in error.what


def _empty_the_disk(session: Session, step: Step) -> Mapping[Step, errors.ValkeyctlError]:
    """A replica that ceases to be one empties its memory, and neither its log nor its snapshot: started again, it would
    have its keys back, and claim their slots. Where there is no key any more, FLUSHALL empties the files alone.
    """
    replies = session.ask([wire.WHO, wire.DATABASES])
    if wire.is_empty_primary(*replies):
        replies = session.ask([("FLUSHALL", "SYNC")])
    error = next((reply for reply in replies if isinstance(reply, errors.ValkeyctlError)), None)
    return {} if error is None else {step: error}


def _detach_by_reset(session: Session, step: steps.Detach) -> Mapping[Step, errors.ValkeyctlError]:
    """Before 9.0 only a soft reset frees a replica. It is refused for whatever isn't a replica (any more)."""
    told = session.ask([wire.WHO])[0]
    if not (isinstance(told, bytes) and wire.is_replica(told)):
        return {step: errors.ErrorReply("it isn't a replica any more", where=where(session.endpoint))}
    reply = session.ask([("CLUSTER", "RESET", "SOFT")])[0]
    return {step: reply} if isinstance(reply, errors.ValkeyctlError) else {}
