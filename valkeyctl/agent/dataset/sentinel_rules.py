"""How a server may start where Sentinels decide: asked are they, then the other agents, then the own disk. Pure.

Never as the primary while a member is ahead, for which empty and old count alike: while its server stays down, the
Sentinels find that out and fail over, and it joins as a replica.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from valkeyctl.agent.dataset.council import Council
from valkeyctl.agent.dataset.deciding import StartAs, Told, Wait
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.guard import RULES, Rules
from valkeyctl.agent.tale import Kind
from valkeyctl.agent.worth import Scale
from valkeyctl.dataplane.model import Member

COUNCIL_S = 2.0
"""How long Sentinels that don't answer are waited for; then it starts as a replica, and they are asked on."""


@dataclass(frozen=True)
class Situation:
    """What is known when a server that is down asks to start, or one that follows nobody could be the primary.

    `named` is the member that the Sentinels' newest configuration names (None: nobody, or a stranger). `declared` are
    the members, `formed` whether the dataset was Ready before, `waited_s` how long it has waited.
    """

    me: DatasetTale
    told: Told
    council: Council
    named: Member | None
    declared: Collection[Member] = ()
    formed: bool = True
    waited_s: float = 0.0
    rules: Rules = field(default=RULES)


def start_as(s: Situation) -> StartAs | Wait:
    """How the server may start."""
    if not s.formed:
        return StartAs("who is the first primary is to be decided")
    if s.council.is_sure and s.named == s.me.member:
        return _named(s)
    if s.council.is_sure and s.named is not None:
        return StartAs("the Sentinels name it", s.named)
    return _without_word(s)


def _named(s: Situation) -> StartAs | Wait:
    """The Sentinels say that this one is the primary."""
    if s.council.failing_over:
        return _wait(s, s.rules.stuck_s, "the Sentinels fail over")
    others = [str(member) for member, tale in sorted(s.told.items()) if tale.is_primary]
    if others:
        return _wait(s, s.rules.stuck_s, f"{' and '.join(others)} is a primary, and the Sentinels name this one")
    ahead = _ahead(s)
    if ahead:
        names = " and ".join(str(tale.member) for tale in ahead)
        why = f"{names} has newer data than its own ({s.me.data.kind}), and isn't promoted yet"
        return _wait(s, s.rules.alive_s if any(tale.running for tale in ahead) else s.rules.stuck_s, why)
    silent = sorted(str(member) for member in s.declared if member != s.me.member and member not in s.told)
    has_log = s.me.data.kind in (Kind.LOG, Kind.FULL_LOG)
    patience_s = s.rules.log_s if has_log else s.rules.absent_s
    if silent and s.waited_s < patience_s:
        return Wait(f"not heard yet: {', '.join(silent)}", patience_s)
    why = "the Sentinels name it, and nobody else is ahead"
    if silent:
        return StartAs(f"{why}; not heard: {', '.join(silent)}", writable=True, warning=True)
    return StartAs(why, writable=True)


def _wait(s: Situation, until_s: float, why: str) -> StartAs | Wait:
    """Wait, and then go on without taking writes: that is never wrong."""
    return Wait(why, until_s) if s.waited_s < until_s else StartAs(why, warning=True)


def _ahead(s: Situation) -> list[DatasetTale]:
    """The members that have newer data than this one has, or would have if it started now."""
    others = [s.told[member] for member in sorted(s.told)]
    scale = Scale(others)
    return [tale for tale in others if not tale.wants_to_stop and scale.is_ahead(tale, s.me)]


def _without_word(s: Situation) -> StartAs | Wait:
    """Not enough Sentinels answer, or they name nobody of this dataset."""
    primaries = [member for member, tale in sorted(s.told.items()) if tale.is_primary]
    if len(primaries) == 1:
        return StartAs("it is a primary, and not enough Sentinels answer", primaries[0])
    above = {tale.upstream for tale in s.told.values() if tale.linked and tale.upstream is not None} - {s.me.member}
    if len(above) == 1 and not primaries:
        return StartAs("others follow it, and not enough Sentinels answer", above.pop())
    if s.waited_s < COUNCIL_S:
        return Wait("not enough Sentinels answer", COUNCIL_S)
    return StartAs("not enough Sentinels answer")
