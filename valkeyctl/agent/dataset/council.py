"""What the Sentinels say of who the primary is, asked without valkey-py: the server waits for it (ADR 0051)."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from valkeyctl.agent.resp import ErrorReply, Link, Nonsense, Reply
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.sentinel.model import majority
from valkeyctl.dataplane.sentinel.rights import OPERATOR

ANSWER_S = 1.0
"""How long one Sentinel may take."""
_UNKNOWN_NAME = "No such master"


@dataclass(frozen=True)
class Word:
    """What one Sentinel says. `named` is whom it monitors, None where it doesn't know the name.

    `epoch` tells which of two Sentinels that name different servers knows the newer configuration. `failing_over`: it
    leads a failover now; `down`: it calls the primary down. `others` is how many other Sentinels it knows.
    """

    sentinel: Address
    named: Address | None = None
    epoch: int = 0
    failing_over: bool = False
    down: bool = False
    others: int = 0


@dataclass(frozen=True)
class Council:
    """What those said that answered. `size` is how many Sentinels are declared, 0 where that isn't known."""

    words: tuple[Word, ...] = ()
    size: int = 0

    @cached_property
    def naming(self) -> tuple[Word, ...]:
        """Those that know the name."""
        return tuple(word for word in self.words if word.named is not None)

    @property
    def is_sure(self) -> bool:
        """Whether so many know the name that no newer configuration can have been voted for without one of them."""
        size = self.size or 1 + max((word.others for word in self.words), default=0)
        return len(self.naming) >= majority(size)

    @property
    def is_blank(self) -> bool:
        """Whether nobody knows the name of most who answer, as where all lost what they knew: nobody can be elected."""
        return not self.naming and 0 < majority(self.size) <= len(self.words) and self.size > 0

    @cached_property
    def named(self) -> Address | None:
        """Whom the newest configuration names; None where nobody names one, or two of the same age differ.

        Who leads a failover has its epoch already, and goes on naming the former primary until all is done.
        """
        newest = max((word.epoch for word in self.naming), default=0)
        latest = [word for word in self.naming if word.epoch == newest]
        named = {word.named for word in latest if not word.failing_over} or {word.named for word in latest}
        return named.pop() if len(named) == 1 else None

    @property
    def failing_over(self) -> bool:
        """Whether a failover is under way."""
        return any(word.failing_over for word in self.words)


def ask(
    sentinels: Sequence[Address], name: str, password: bytes, *, size: int = 0, timeout_s: float = ANSWER_S
) -> Council:
    """Ask all at once what they monitor under a name; who doesn't answer in time isn't in it. Never raises."""
    answers: queue.SimpleQueue[Word | None] = queue.SimpleQueue()

    def talk(at: Address) -> None:
        try:
            answers.put(_ask(at, name, password, timeout_s))
        except (OSError, Nonsense, ValueError, KeyError):
            answers.put(None)

    for at in sentinels:
        # Names may take long to be found where DNS is away: then the thread is left to itself.
        threading.Thread(target=talk, args=(at,), name="ask a Sentinel", daemon=True).start()
    deadline, words = time.monotonic() + timeout_s, list[Word]()
    for _ in sentinels:
        try:
            word = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if word is not None:
            words.append(word)
    return Council(tuple(sorted(words, key=lambda word: str(word.sentinel))), size)


def _ask(at: Address, name: str, password: bytes, timeout_s: float) -> Word | None:
    with Link(at.host, at.port, timeout_s) as link:
        signed_in, told = link.ask(("AUTH", OPERATOR, password), ("SENTINEL", "MASTER", name))
    if isinstance(signed_in, ErrorReply):
        return None
    if isinstance(told, ErrorReply):
        return Word(at) if _UNKNOWN_NAME in told.text else None
    fields = _pairs(told)
    flags = set(fields["flags"].split(","))
    return Word(
        at,
        Address(fields["ip"], int(fields["port"])),
        int(fields["config-epoch"]),
        failing_over="failover_in_progress" in flags,
        down=bool(flags & {"s_down", "o_down"}),
        others=int(fields.get("num-other-sentinels", "0")),
    )


def _pairs(told: Reply) -> dict[str, str]:
    if not isinstance(told, list):
        raise Nonsense("a reply of another kind than was asked for")
    texts = [part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in told]
    return dict(zip(texts[::2], texts[1::2], strict=True))
