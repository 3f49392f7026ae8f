"""Holding the writes of running servers for a while, so that nothing changes between a look at them and their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.errors import NoAnswer, ValkeyctlError
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.session import Command, Session

Endpoints = Mapping[Member, Endpoint]
Answer = TypeVar("Answer")

TRIES = 4
"""How often a server that gives no answer is asked, for `TIMEOUT_S` each, until it counts as one that can't be told."""

COMMANDS_NEEDED_TO_HOLD: tuple[str, ...] = ("client|pause", "client|unpause", "config|set", "info")
"""The rights that the user needs for what is here."""


def tell_settings(dialer: Dialer, endpoints: Endpoints, settings: Mapping[str, str]) -> Mapping[Member, ValkeyctlError]:
    """Tell all these servers live settings. Returns who couldn't be told, or refuses. Idempotent."""
    if not settings:
        return {}
    return _tell(dialer, endpoints, [("CONFIG", "SET", *(word for pair in settings.items() for word in pair))])


def hold_writes(dialer: Dialer, primaries: Endpoints, *, for_s: float) -> Mapping[Member, ValkeyctlError]:
    """Have all these primaries let clients' writes wait. Returns who couldn't be told.

    Writes that wait are neither acknowledged nor lost to the client, which hears of the server's end if that comes
    first; after `for_s` seconds they go on by themselves. Told again, the time counts anew. Never for replicas: one
    of them would let the writes wait that are on their way from its primary (seen on 8.1 and 9.1).
    """
    return _tell(dialer, primaries, [("CLIENT", "PAUSE", round(for_s * 1000), "WRITE")])


def release_writes(dialer: Dialer, endpoints: Endpoints) -> Mapping[Member, ValkeyctlError]:
    """Let writes that wait go on. Returns who couldn't be told. Idempotent."""
    return _tell(dialer, endpoints, [("CLIENT", "UNPAUSE")])


def disk_troubles(dialer: Dialer, endpoints: Endpoints) -> Mapping[Member, str]:
    """The servers whose last write to their disk failed, each with what failed, or that don't tell."""

    def ask(talk: Session) -> str:
        reply = talk.ask([("INFO", "persistence")])[0]
        if isinstance(reply, ValkeyctlError):
            raise reply
        return disk_trouble(reply.decode(errors="replace") if isinstance(reply, bytes) else "")

    found = _each(dialer, endpoints, ask)
    told = {member: str(answer) for member, answer in found.items()}
    return {member: trouble for member, trouble in told.items() if trouble}


def disk_trouble(info: str) -> str:
    """What a server's INFO tells of its last write to its disk, where that went wrong; else "". Pure."""
    pairs = (line.partition(":") for line in info.splitlines())
    return next(_failures({name: value for name, colon, value in pairs if colon}), "")


def _failures(facts: Mapping[str, str]) -> Iterator[str]:
    if facts.get("aof_enabled") == "1":
        if facts.get("aof_last_write_status", "ok") != "ok":
            yield "the append-only file couldn't be written to"
    elif facts.get("rdb_last_bgsave_status", "ok") != "ok":
        yield "the last snapshot couldn't be written"


def _tell(dialer: Dialer, endpoints: Endpoints, commands: list[Command]) -> Mapping[Member, ValkeyctlError]:
    def tell(talk: Session) -> None:
        for reply in talk.ask(commands):
            if isinstance(reply, ValkeyctlError):
                raise reply

    found = _each(dialer, endpoints, tell)
    return {member: error for member, error in found.items() if isinstance(error, ValkeyctlError)}


def _each(
    dialer: Dialer, endpoints: Endpoints, talk: Callable[[Session], Answer]
) -> Mapping[Member, Answer | ValkeyctlError]:
    """All that is asked here may be asked twice, and a busy machine may keep a server from answering for a moment."""
    with Links(dialer, timeout_s=TIMEOUT_S, max_parallel=MAX_PARALLEL) as links:
        found = dict(links.each(endpoints, talk))
        for _ in range(TRIES - 1):
            silent = {member: endpoints[member] for member, told in found.items() if isinstance(told, NoAnswer)}
            found |= links.each(silent, talk)
        return found
