"""The gate: no server of this Pod starts before this agent permits it.

The server's container asks through a `Door`. What the start guard says decides (`guard.decide`), after it was seen
whether the disk is this member's at all (`former.standing`); the files that the server starts with are rendered right
before it is permitted. What is to be set aside the container sets aside: it alone may write to the disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from valkeyctl.agent import render
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.door import Door
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.former import Standing, knows_other_shards, standing
from valkeyctl.agent.guard import Hold, Rules, Start, decide, follows
from valkeyctl.agent.kept import replace_file
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.promise import Promise
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.tale import Server, Tale
from valkeyctl.agent.telling import Telling
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.view import Role

AT_REST_S = 1.0
ASK_AGAIN_S = 0.1
NOTICED_S = 0.02
"""Between two looks whether the end of a server was noticed."""
ASK_S = 0.5
"""How long the others' agents may take to answer."""
TOLD_S = 1.0
"""How long a tale counts, and what was judged by it: what it says of a running server may then be over."""
PROMISED = "promised"
"""The file that keeps what was promised, should this agent end."""
SET_ASIDE = "set-aside"
"""The file that names the folder on the disk into which start.sh moves what a former member left."""


class Gate:
    """Judges each start. `listen` is to be called with every look at the server, `run` is its thread."""

    def __init__(self, environment: Environment, watch: Watch, rules: Callable[[], Rules], log: Log) -> None:
        """Make the door, so that the server's container finds it. `rules` are asked for at each start."""
        self._rules = rules
        self._environment = environment
        self._watch = watch
        self._log = log
        self._door = Door(environment.run / "start")
        # An agent that comes back finds a server that it permitted before, or one that is about to start.
        self._promise = Promise(environment.run / PROMISED, permitted=bool(self._door.answered()))
        self._seen = False
        self._died_at: int | None = None
        self._verdict = ""
        self.holding_since: float | None = None

    @property
    def held(self) -> bool:
        """Whether no server runs and none may start before this gate permits it."""
        return self._promise.held

    @property
    def waits_for(self) -> str:
        """Why a start that is asked for isn't permitted yet; "" when none is."""
        return self._verdict if self.holding_since is not None else ""

    def promise(self, me: Tale, asker: Tale) -> Tale:
        """The own tale as it may be told to a member that asks. One that may stand in for this one can rely for a
        moment on being told that this one is held; so that is noted before, and not told where it is over by now.
        """
        # Who doesn't say which node it is may be a replica whose agent has nothing to go by yet.
        may_act = asker.running and (follows(asker, me.node_id) or not asker.node_id)
        if not me.held or not may_act:
            return me
        try:
            if self._promise.give():
                return me
        except OSError as error:
            self._log.error("gate", f"a promise can't be noted, and isn't given: {error}")
        return replace(me, held=False, server=Server.LOADING)

    def listen(self, state: ServerState) -> None:
        """Notice the end of the server: what was permitted is over then."""
        if state.phase is not Phase.DOWN:
            self._seen = True
        elif self._seen:
            self._seen = False
            self._promise.withdraw()
            self._door.take_back()
            self._died_at = state.number
            self._door.knock()

    def run(self, telling: Telling, peers: Peers, stopping: threading.Event, beat: Callable[[], None]) -> None:
        """Judge what is asked until `stopping` is set."""
        while not stopping.is_set():
            beat()
            self._spread(telling, peers)
            token = self._door.asked()
            if token:
                self._judge(token, telling, peers, stopping, beat)
                continue
            if not self.held and self._watch.state.phase is Phase.DOWN:
                self._door.ring()  # the last ring may have been lost with an agent that ended
            self._door.wait(AT_REST_S)

    def _spread(self, telling: Telling, peers: Peers) -> None:
        """When its server has died, tell the members with copies of its data at once, so that one can stand in."""
        died_at, self._died_at = self._died_at, None
        if died_at is None:
            return
        self._watch.wait(died_at - 1, 1.0)  # until everybody sees the state that was noticed first here
        me = telling.or_nothing()
        if me.role is Role.PRIMARY and me.slots:
            peers.ask([one.member for one in me.followers if one.member], ASK_S)

    def _judge(
        self, token: str, telling: Telling, peers: Peers, stopping: threading.Event, beat: Callable[[], None]
    ) -> None:
        """Stay with one request until it is answered, or another one has taken its place."""
        self._promise.withdraw()
        self._verdict = ""
        asked_at = self.holding_since = time.monotonic()
        heard: dict[Member, tuple[float, Tale]] = {}
        while not stopping.is_set() and self._door.asked() == token:
            beat()
            if self._watch.state.phase is not Phase.DOWN:
                # Whoever asks is the container's only process: the server before it has ended, and that is about to be
                # noticed. What is known of that one as long as it ran is no base to judge by.
                self._watch.poke()
                self._door.wait(NOTICED_S)
                continue
            self._spread(telling, peers)
            began_at = time.monotonic()
            verdict = self._verdict_on(telling, peers, heard, began_at - asked_at)
            self._say(verdict)
            # From here on the others are told that it may start any moment. Who was promised otherwise just before may
            # still act on it, so that is waited for, and judged anew; so is what took so long that it may be over.
            may_start = self._promise.intend(start=isinstance(verdict, Start))
            if isinstance(verdict, Start) and may_start and time.monotonic() - began_at <= TOLD_S:
                self._permit(token, anew=verdict.anew)
            else:
                self._door.wait(ASK_AGAIN_S)
        self._promise.intend(start=False)
        self.holding_since = None

    def _verdict_on(
        self, telling: Telling, peers: Peers, heard: dict[Member, tuple[float, Tale]], waited_s: float
    ) -> Start | Hold:
        rules = self._rules()
        try:
            me = telling.now()
        except (OSError, Unreadable) as error:
            # That is no empty disk: it may tell at the next look.
            why = f"its disk tells nothing ({error})"
            if waited_s < rules.disk_s:
                return Hold(why, rules.disk_s)
            return Start(f"{why}, and its own server will say why")
        told = self._hear(me, peers, heard)
        found = standing(me, told)
        if found is Standing.FORMER:
            return Start("what is on its disk is a former member's and is set aside", warning=True, anew=True)
        verdict = decide(me, told, waited_s, rules=rules)
        if found is Standing.UNSURE and isinstance(verdict, Start) and waited_s < rules.former_s:
            return Hold("nobody has told yet that it is one of the cluster", rules.former_s)
        return verdict

    def _hear(self, me: Tale, peers: Peers, heard: dict[Member, tuple[float, Tale]]) -> Mapping[Member, Tale]:
        """What the others tell, primaries of other shards too: they know of newer owners of its slots, and whether it
        is one of the cluster still. Those newer owners are asked as well, also where its own disk doesn't know them.
        """
        if not knows_other_shards(me) and (me.role is Role.REPLICA or not me.slots):
            return {}
        asked_at = time.monotonic()
        mates = {one.member for one in me.followers}
        told_of = {one.member for _, tale in heard.values() for one in tale.claims if one.slots & me.slots}
        others = {one.member for one in me.owners} | told_of - {me.member}
        stale = {one for one in others if one and asked_at - heard.get(one, (float("-inf"),))[0] > TOLD_S / 2}
        for member, tale in peers.ask([member for member in mates | stale if member], ASK_S).items():
            heard[member] = (asked_at, tale)
        now = time.monotonic()
        return {member: tale for member, (at, tale) in heard.items() if now - at <= TOLD_S}

    def _permit(self, token: str, *, anew: bool) -> None:
        try:
            self._have_set_aside(anew=anew)
            render.write(self._environment)
        except render.NotRendered as error:
            # The server's container ends with this as its last line: it then stands in the Pod's status.
            self._log.error("gate", f"the server can't start: {error}")
            self._door.answer(token, str(error))
        else:
            self._promise.permit()
            self._door.answer(token)
            self._watch.poke()

    def _have_set_aside(self, *, anew: bool) -> None:
        """Tell the container what to do with what is on the disk. A folder each time: nothing takes another's place."""
        file = self._environment.run / SET_ASIDE
        if not anew:
            file.unlink(missing_ok=True)
            return
        folder = f"set-aside-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        replace_file(file, f"{folder}\n".encode())
        self._log.warning("gate", f"the node table and the data of the former member go to {folder} on its volume")

    def _say(self, verdict: Start | Hold) -> None:
        """What is waited for is told once."""
        if str(verdict) != self._verdict:
            self._verdict = str(verdict)
            say = self._log.warning if isinstance(verdict, Start) and verdict.warning else self._log.info
            say("gate", self._verdict)
