"""A dataset whose primary the Sentinels decide: what they say is asked for whenever it may have changed.

At rest only the primary's agent asks them, now and then. A server that waits for their word follows it as soon as it
comes, so that it needn't wait until a Sentinel notices.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from valkeyctl.agent.dataset import council
from valkeyctl.agent.dataset.council import Council
from valkeyctl.agent.dataset.deciding import StartAs, Told, Wait
from valkeyctl.agent.dataset.known import Known
from valkeyctl.agent.dataset.sentinel_rules import Situation, start_as
from valkeyctl.agent.dataset.state import DatasetState, of_dataset
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.dataset.telling import Telling
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.render import NOBODY
from valkeyctl.agent.resp import Command, ErrorReply, Link, Nonsense
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.model import Address, Member

SOON_S, LATER_S = 0.2, 2.0
"""Between two questions while something changes: at first, and when it has gone on for `LONG_S`."""
LONG_S = 20.0
CHECK_S = 10.0
"""Between two questions by the primary's agent while all is well."""
TOLD_S = 1.0
"""How long an answer counts for a server that asks to start."""
ASK_S = 0.5
OLD_S = 30.0
"""How long a word counts that nobody has confirmed since."""


@dataclass(frozen=True)
class Parts:
    """What it goes by: who this is, its server, the other agents, and what is declared."""

    environment: Environment
    watch: Watch
    telling: Telling
    peers: Peers[DatasetTale]
    known: Known
    log: Log
    own_server: Callable[[], Link]


class BySentinels:
    """See the module; a `Decider`."""

    def __init__(self, parts: Parts, hand_over: Callable[[float], str]) -> None:
        """`hand_over` has the role go to the best replica, and waits until the Sentinels know."""
        self._parts = parts
        self._hand_over = hand_over
        self._lock = threading.Lock()
        self._council = Council()
        self._asked_at = float("-inf")
        self._since: float | None = None
        self._said = ""
        self.troubles: tuple[str, ...] = ()
        """What is wrong with the Sentinels, as the primary's agent has seen it last; empty at the others."""

    @property
    def primary(self) -> Member | None:
        """Whom the newest configuration names, where most Sentinels were heard: not long ago, unless it still fits."""
        named = self._named(self._council)
        if named is None or not self._council.is_sure:
            return None
        live = of_dataset(self._parts.watch.state)
        fits = live is not None and self._fits(live, named)
        return named if fits or time.monotonic() - self._asked_at < OLD_S else None

    @property
    def decides(self) -> bool:
        """Whether it is the Sentinels' to say who the primary is, also while they aren't heard; not, where all that
        they knew is lost. Asks them, unless it has just done so.
        """
        found = self._council if time.monotonic() - self._asked_at < TOLD_S else self.ask()
        return not found.is_blank

    def ask(self) -> Council:
        """Ask the Sentinels now."""
        place, declared = self._parts.environment, self._parts.known.declared
        told = None if declared is None else declared.sentinels
        addresses = place.sentinels if told is None else told.sentinels
        try:
            password = place.sentinel_secret.read_bytes()
        except OSError:
            password = b""
        found = council.ask(
            addresses,
            place.sentinel_name if told is None else told.name,
            password,
            size=0 if told is None else len(told.sentinels),
        )
        with self._lock:
            self._council, self._asked_at = found, time.monotonic()
        return found

    def start_as(self, me: DatasetTale, told: Told, waited_s: float) -> StartAs | Wait:
        """See `sentinel_rules`."""
        return start_as(self._situation(me, told, waited_s, self.ask()))

    def hand_over(self, deadline: float) -> str:
        """See `Decider.hand_over`."""
        return self._hand_over(deadline)

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Ask whenever their word may have changed, and have the own server follow it, until `stopping` is set."""
        number, pause_s = -1, SOON_S
        while not stopping.is_set():
            beat()
            state = self._parts.watch.wait(after=number, timeout_s=pause_s)
            number = state.number
            live = of_dataset(state)
            if live is None:
                self._since, pause_s = None, LATER_S
                continue
            pause_s = self._step(live)
            if stopping.wait(min(pause_s, SOON_S)):
                return

    def _step(self, live: DatasetState) -> float:
        """One look; how long until the next one."""
        now = time.monotonic()
        if self._is_settled(live):
            self._since = None
            if live.is_primary and now - self._asked_at >= CHECK_S:
                self._check(self.ask())
            elif not live.is_primary:
                self.troubles = ()
            return LATER_S
        self._since = self._since or now
        waited_s = now - self._since
        if now - self._asked_at >= (SOON_S if waited_s < LONG_S else LATER_S):
            self._follow(live, self.ask(), waited_s)
        return SOON_S

    def _is_settled(self, live: DatasetState) -> bool:
        """Whether the own server does what the Sentinels last said."""
        named = self._named(self._council)
        return self._council.is_sure and named is not None and self._fits(live, named)

    def _fits(self, live: DatasetState, named: Member) -> bool:
        if live.is_primary:
            return named == self._parts.environment.member
        above = live.upstream
        return live.linked and above is not None and self._parts.known.member_at(above.host) == named

    def _follow(self, live: DatasetState, found: Council, waited_s: float) -> None:
        """Have a server that isn't the primary, and follows nobody who is, do what the Sentinels say."""
        if live.is_primary or live.linked or not found.is_sure or found.failing_over:
            return
        place, above = self._parts.environment, live.upstream
        named = self._named(found)
        if named is None or above is None:
            return
        if named != place.member:
            if self._parts.known.member_at(above.host) != named:
                at = Address(place.host_of(named), place.client_port)
                self._tell(f"the Sentinels name {named}", ("REPLICAOF", at.host, at.port))
            return
        if above != NOBODY:
            # It follows a member, by somebody's word that the Sentinels have just outdated, or will.
            return
        told = self._parts.peers.ask(self._parts.known.others, ASK_S)
        verdict = start_as(self._situation(self._parts.telling.or_nothing(), told, waited_s, found))
        if isinstance(verdict, StartAs) and verdict.writable:
            self._tell(verdict.why, ("REPLICAOF", "NO", "ONE"), warning=verdict.warning)
        else:
            self._say(f"it stays a replica of nobody: {verdict.why}")

    def _situation(self, me: DatasetTale, told: Told, waited_s: float, found: Council) -> Situation:
        declared = self._parts.known.declared
        return Situation(
            me,
            told,
            found,
            self._named(found),
            self._parts.known.members,
            formed=declared is not None and declared.formed,
            waited_s=waited_s,
        )

    def _named(self, found: Council) -> Member | None:
        return None if found.named is None else self._parts.known.member_at(found.named.host)

    def _check(self, found: Council) -> None:
        self.troubles = tuple(self._find_troubles(found))

    def _find_troubles(self, found: Council) -> Iterator[str]:
        place, declared = self._parts.environment, self._parts.known.declared
        if declared is None or declared.sentinels is None:
            return
        heard = {word.sentinel: word for word in found.words}
        for at in declared.sentinels.sentinels:
            word = heard.get(at)
            if word is None:
                yield f"the Sentinel {at} does not answer"
            elif word.named is None:
                yield f"the Sentinel {at} does not monitor it"
            elif self._parts.known.member_at(word.named.host) != place.member:
                yield f"the Sentinel {at} monitors {word.named}"
            elif word.others != len(declared.sentinels.sentinels) - 1:
                yield f"the Sentinel {at} knows {word.others} others"

    def _tell(self, why: str, command: Command, *, warning: bool = False) -> None:
        what = " ".join(map(str, command))
        (self._parts.log.warning if warning else self._parts.log.info)("sentinels", f"{why}: {what}")
        try:
            with self._parts.own_server() as link:
                reply = link.ask(command)[0]
        except (OSError, Nonsense) as error:
            self._parts.log.warning("sentinels", f"the own server can't be told: {error}")
            return
        if isinstance(reply, ErrorReply):
            self._parts.log.error("sentinels", f"the own server refuses: {reply.text}")
        self._parts.watch.poke()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._parts.log.info("sentinels", text)
