"""The agent's process: makes the parts, runs each in a thread, and ends when it is asked to or when one of them fails.

What is imported here is light, since the server waits for it; the leader and the settings follow once the server runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from valkeyctl.agent import http, letters
from valkeyctl.agent.body import Body
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.door import Door
from valkeyctl.agent.environment import Environment, read_environment
from valkeyctl.agent.gate import Gate
from valkeyctl.agent.handover import Handover
from valkeyctl.agent.letters import Letters, NotOurs
from valkeyctl.agent.logs import Log
from valkeyctl.agent.peers import Peers
from valkeyctl.agent.promotion import Promotion
from valkeyctl.agent.runtime import Part, Runtime
from valkeyctl.agent.state import ServerState
from valkeyctl.agent.tale import Tale
from valkeyctl.agent.telling import Telling
from valkeyctl.kube.labels import CLUSTER

END_S = 2.0
"""How long the parts have to end in: a Lease is given back in that time."""


class Agent(Body):
    """All parts of one agent of a cluster's, connected."""

    def __init__(self, environment: Environment, log: Log) -> None:
        """Raises OSError when the port or the shared volume can't be used."""
        super().__init__(environment, log)
        files = self.files
        self.holds = self.gate = Gate(environment, self.watch, files.rules, log)
        self.telling = Telling(environment, self.watch, files.tale, lambda: self.gate.held)
        self.letters = Letters(environment, files.passwords, Tale.decode)
        self.others = self.peers = Peers(environment, self.letters, self.telling.or_nothing, log)
        self.promotion = Promotion(
            self.watch, self.telling, self.peers, log, connect=self.own_server, rules=files.rules
        )
        self.handover = Handover(Door(environment.run / "handover"), self.watch, self.server_at, log)
        self.watch.listeners += [self.gate.listen, self.telling.note, self.promotion.note, self._read_table]
        self.web = self.open({letters.PATH: self._hear})
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

    def make_leader(self, runtime: Runtime) -> Part:
        """See `Body.make_leader`."""
        from valkeyctl.agent.leader import Leader  # noqa: PLC0415

        return Leader(runtime)

    def _read_table(self, state: ServerState) -> None:
        if state.serving:
            self.peers.read_table(state.nodes)

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


def agent_of(environment: Environment, log: Log) -> Body:
    """The agent for the architecture of the instance. Raises OSError when the port or the volume can't be used."""
    if environment.architecture == CLUSTER:
        return Agent(environment, log)
    from valkeyctl.agent.dataset.agent import DatasetAgent  # noqa: PLC0415 - a cluster's agent has no use for it

    return DatasetAgent(environment, log)


def main() -> None:
    """Run until SIGTERM: exit code 0. Exit code 1 when a part failed: the kubelet starts the agent again."""
    environment = read_environment(os.environ)
    os.umask(0o077)
    log = Log(as_json=environment.json_log)
    threading.stack_size(512 << 10)
    agent = agent_of(environment, log)
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
