"""The agent's process: makes the parts, runs each in a thread, and ends when it is asked to or when one of them fails.

What is imported here is light, since the server waits for it; the leader and the settings follow once the server runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from valkeyctl.agent import http, letters, resp
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.door import Door
from valkeyctl.agent.environment import Environment, read_environment
from valkeyctl.agent.gate import Gate
from valkeyctl.agent.handover import Handover
from valkeyctl.agent.leftovers import Leftovers
from valkeyctl.agent.letters import Letters, NotOurs
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.promotion import Promotion
from valkeyctl.agent.runtime import Part, Runtime
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.telling import Telling
from valkeyctl.agent.threads import Threads
from valkeyctl.agent.watch import Watch
from valkeyctl.agent.web import Web, probe

HELD_S = 1.0
"""A start that is held for so long needs addresses from the API server: then its libraries are imported too."""
UNDECLARED_S = 20.0
"""An instance that is being made has nothing declared yet: `up` forms it, and needs the processor's time meanwhile."""
SETTINGS_LATER_S = 10.0
"""The settings that the server starts with are fresh; who heals comes first."""
PART_BEAT_S = 120.0
END_S = 2.0
"""How long the parts have to end in: a Lease is given back in that time."""
ANSWER_S = 2.0


class Agent:
    """All parts of one agent, connected."""

    def __init__(self, environment: Environment, log: Log) -> None:
        """Raises OSError when the port or the shared volume can't be used."""
        self.environment = environment
        self.log = log
        self.since = time.monotonic()
        self.threads = Threads(log)
        self.files = files = Leftovers(environment)
        self.watch = Watch(environment.address, environment.client_port, files.passwords, log)
        self.gate = Gate(environment, self.watch, files.rules, log)
        self.telling = Telling(environment, self.watch, files.tale, lambda: self.gate.held)
        self.letters = Letters(environment, files.passwords)
        self.peers = Peers(environment, self.letters, self.telling.or_nothing, log)
        self.promotion = Promotion(
            self.watch, self.telling, self.peers, log, connect=self._own_server, rules=files.rules
        )
        self.handover = Handover(Door(environment.run / "handover"), self.watch, self._server_at, log)
        self.watch.listeners += [self.gate.listen, self.telling.note, self.promotion.note, self._read_table]
        self.web = Web(environment.address, environment.agent_port, self._paths(), log)
        # What a server that ran here before knew of its peers' addresses.
        self.peers.read_table(files.node_table())

    def start(self) -> None:
        """Start all that the server needs."""
        start, stopping = self.threads.start, self.threads.stopping
        start("watch", 10.0, lambda beat: self.watch.run(stopping, beat))
        start("gate", 10.0, lambda beat: self.gate.run(self.telling, self.peers, stopping, beat))
        start("web", 10.0, lambda beat: self.web.run(stopping, beat))
        start("stand-in", 10.0, lambda beat: self.promotion.run(stopping, beat))
        start("handover", 30.0, lambda beat: self.handover.run(stopping, beat))

    def start_parts(self) -> None:
        """Import what is heavy, and start what needs it; takes its time."""
        from valkeyctl.agent.leader import Leader  # noqa: PLC0415

        runtime = Runtime(
            environment=self.environment,
            log=self.log,
            stopping=self.threads.stopping,
            server=self.watch,
            peers=self.peers,
            password=lambda: self.files.passwords()[0],
            beat=self.threads.beat,
        )
        leader: Part = Leader(runtime)
        self.threads.start("leader", PART_BEAT_S, lambda _beat: leader.run())
        if self.threads.stopping.wait(SETTINGS_LATER_S):
            return
        from valkeyctl.agent.config_sync import ConfigSync  # noqa: PLC0415 - imported last

        settings: Part = ConfigSync(runtime)
        self.threads.start("config", PART_BEAT_S, lambda _beat: settings.run())

    def parts_are_due(self) -> bool:
        """Whether the server doesn't have to wait for what is heavy any more, or waits for what only that can do."""
        since, now = self.gate.holding_since, time.monotonic()
        return are_due(
            serving=self.watch.state.serving,
            held_s=0.0 if since is None else now - since,
            declared=self.environment.declared.exists(),
            up_s=now - self.since,
        )

    def _read_table(self, state: ServerState) -> None:
        if state.serving:
            self.peers.read_table(state.nodes)

    def _own_server(self) -> resp.Link:
        return self._server_at(self.environment.address, self.environment.client_port)

    def _server_at(self, address: str, port: int) -> resp.Link:
        return resp.connected(address, port, self.files.passwords(), ANSWER_S)

    def _paths(self) -> dict[str, Callable[[http.Message], bytes]]:
        return {
            "/started": probe(self._started),
            "/ready": probe(self._ready),
            "/alive": probe(self.threads.alive),
            letters.PATH: self._hear,
        }

    def _started(self) -> tuple[bool, str]:
        state = self.watch.state
        if state.phase in (Phase.SERVING, Phase.LOADING, Phase.REFUSING):
            return True, f"the server is {state.phase}"
        return False, self.gate.waits_for or f"the server is {state.phase}"

    def _ready(self) -> tuple[bool, str]:
        why_not = self.watch.state.not_ready
        return not why_not, why_not or "serves"

    def _hear(self, asked: http.Message) -> bytes:
        """Another agent tells its tale, and asks for ours."""
        if asked.method != "POST":
            return http.response(405, b"tales are told by POST\n", {"Allow": "POST"})
        try:
            theirs, nonce = self.letters.read_question(asked)
        except NotOurs as error:
            return http.response(403, f"{error}\n".encode())
        self.promotion.hint(theirs)
        try:
            own = self.telling.fresh_for(theirs)
        except (OSError, Unreadable) as error:
            return http.response(503, f"there is nothing to tell: {error}\n".encode())
        return self.letters.answer(theirs.member, nonce, self.gate.promise(own, theirs))


def are_due(*, serving: bool, held_s: float, declared: bool, up_s: float) -> bool:
    """Whether to import what is heavy: at once where a start is held, else when the server serves and an agent may have
    something to do. `held_s` since when a start is held, `up_s` since when the agent runs, both in seconds.
    """
    return held_s > HELD_S or (serving and (declared or up_s > UNDECLARED_S))


def main() -> None:
    """Run until SIGTERM: exit code 0. Exit code 1 when a part failed: the kubelet starts the agent again."""
    environment = read_environment(os.environ)
    os.umask(0o077)
    log = Log(as_json=environment.json_log)
    threading.stack_size(512 << 10)
    agent = Agent(environment, log)
    threads = agent.threads
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: threads.stopping.set())
    agent.start()
    cpu_s = round(time.process_time(), 3)
    log.info("agent", f"{environment.member} of {environment.instance} is up", cpu_s=cpu_s)
    while not threads.stopping.wait(0.1):
        if agent.parts_are_due():
            agent.start_parts()
            threads.stopping.wait()
            break
    threads.end(END_S)
    sys.stdout.flush()
    # Threads that wait for a peer or for the API server aren't waited for any longer.
    os._exit(1 if threads.failed else 0)
