"""The thread that has this member's server stand in for its primary, when `stand_in` says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from valkeyctl.agent.guard import Rules
from valkeyctl.agent.logs import Log
from valkeyctl.agent.no_failover import must_not_take_over
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.resp import ErrorReply, Link, Nonsense
from valkeyctl.agent.stand_in import How, Promote, stand_in
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.tale import Tale
from valkeyctl.agent.telling import Telling
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.model import Member

ASK_S = 0.3
"""How long the others' agents may take to answer."""
ACT_S = 0.8
"""An answer that is older is not acted on: its teller may not stand by it any more (`promise.PROMISE_S`)."""
AGAIN_S = 0.1
"""Between two questions while the link to the primary is down."""
SILENT_S = 5.0
"""How long a copy counts as in sync after its link broke, while the primary's agent doesn't say that its server ended
too: it may have gone on, cut off from here."""
AT_REST_S = 1.0
"""Between two looks while it is up, or while the primary is told to go on."""


class Promotion:
    """Watches a replica's link; asks its primary's agent when it breaks; acts on what the tales say."""

    def __init__(
        self,
        watch: Watch,
        telling: Telling,
        peers: Peers,
        log: Log,
        *,
        connect: Callable[[], Link],
        rules: Callable[[], Rules],
    ) -> None:
        """`connect` gives a new connection to the own server, or raises OSError."""
        self._rules = rules
        self._watch = watch
        self._telling = telling
        self._peers = peers
        self._connect = connect
        self._log = log
        self._hint = threading.Event()
        self._down_at: float | None = None
        self._silent_at: float | None = None
        self._forced_at: float | None = None
        self._linked = False
        self._said = ""

    def hint(self, teller: Tale) -> None:
        """A member told that its server is down: should this one be its replica, it needn't wait to notice."""
        if teller.held:
            self._hint.set()

    def run(self, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Watch until `stopping` is set."""
        pause_s = AT_REST_S
        while not stopping.is_set():
            beat()
            hinted = self._hint.wait(pause_s)
            self._hint.clear()
            state = self._watch.look_again(ASK_S) if hinted else self._watch.state
            if state.serving and state.is_replica and not state.link_up and self._consider():
                pause_s = AGAIN_S
            else:
                pause_s = AT_REST_S
                self._down_at = self._silent_at = self._forced_at = None
                self._said = ""

    def note(self, state: ServerState) -> None:
        """Called with every look: a link that has just broken is a reason to ask at once."""
        broken = state.serving and state.is_replica and not state.link_up
        if broken and self._linked:
            self._hint.set()
        self._linked = state.link_up

    def _consider(self) -> bool:
        """Judge by what the others tell now, and act on it; False when the primary goes on."""
        asked_at = time.monotonic()
        me = self._telling.or_nothing()
        members = {one.member for one in (*me.owners, *me.followers)}
        told = self._peers.ask([member for member in members if member], ASK_S)
        primary = next((tale for tale in told.values() if tale.node_id == me.primary_id), None)
        if primary is not None and primary.running:
            # It goes on without us. What it tells is newer than our question, and so is the state of our link.
            if not self._watch.look_again(ASK_S).link_up:
                self._telling.missed_some()
            return False
        self._note_word(me, told, asked_at)
        down_s = asked_at - (self._down_at or asked_at)
        forced_s = None if self._forced_at is None else asked_at - self._forced_at
        self._watch.look_again(ASK_S)
        verdict = stand_in(self._telling.or_nothing(), told, down_s, forced_s=forced_s, rules=self._rules())
        if not isinstance(verdict, Promote):
            self._say(str(verdict))
        else:
            self._act(verdict, asked_at)
        return True

    def _note_word(self, me: Tale, told: Mapping[Member, Tale], asked_at: float) -> None:
        """Remember since when the primary is told to be down; while it never was, a copy in sync ages."""
        if self._down_at is not None:
            return
        place = next((owner.member for owner in me.owners if owner.node_id == me.primary_id), None)
        if place in told or any(tale.node_id == me.primary_id for tale in told.values()):
            self._down_at = asked_at
            return
        self._silent_at = self._silent_at or asked_at
        if asked_at - self._silent_at > SILENT_S:
            self._telling.missed_some()

    def _act(self, verdict: Promote, asked_at: float) -> None:
        """Tell the own server, unless that took so long that the verdict rests on what is over; it is judged anew."""
        try:
            with self._connect() as link:
                if must_not_take_over(link):
                    self._say("it doesn't stand in for its primary: its server is told not to, as for a pause")
                    return
                if time.monotonic() - asked_at >= ACT_S:
                    return
                self._log.warning("stand-in", str(verdict))
                if verdict.how is How.FORCE:
                    self._forced_at = time.monotonic()
                reply = link.ask(("CLUSTER", "FAILOVER", verdict.how.value))[0]
        except (OSError, Nonsense) as error:
            self._log.error("stand-in", f"the own server can't be told: {error}")
            return
        if isinstance(reply, ErrorReply):
            self._log.error("stand-in", f"the own server refuses: {reply.text}")
        self._watch.poke()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._log.info("stand-in", text)
