"""An agent that is nothing but an arbiter: the gate, the watch of the server, the port, and `Primacy`.

What a whole agent adds (tales, healing, endpoints, settings) is tested elsewhere. Run as a program, with the
environment of a Pod, `TEST_KUBECONFIG` and `TEST_MEMBERS` (`s0-0=<where its agent is>=<where its
server is>,…`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from valkeyctl.agent import resp
from valkeyctl.agent.dataset.deciding import StartAs
from valkeyctl.agent.dataset.state import DATASET_LOOK
from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.door import Door
from valkeyctl.agent.environment import Environment, read_environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.primacy.own import NOBODY
from valkeyctl.agent.primacy.primacy import Primacy
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.threads import Threads
from valkeyctl.agent.watch import Watch
from valkeyctl.agent.web import Web, probe
from valkeyctl.dataplane.model import Endpoint, Member, pod_name
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.kube.access import Api, connect


class Gate:
    """Lets the server start as a replica, as soon as its container asks."""

    def __init__(self, place: Environment, watch: Watch) -> None:
        self.place, self.watch = place, watch
        self.door = Door(place.run / "start")
        self.handover = Door(place.run / "handover")
        self.permitted, self.seen = bool(self.door.answered()), False

    def listen(self, state: ServerState) -> None:
        if state.phase is not Phase.DOWN:
            self.seen = True
        elif self.seen:
            self.seen = self.permitted = False
            self.door.take_back()
            self.door.knock()

    def run(self, primacy: Primacy, stopping: threading.Event, beat: Callable[[], None]) -> None:
        while not stopping.is_set():
            beat()
            token = self.door.asked()
            if token and self.watch.state.phase is not Phase.DOWN:
                self.watch.poke()
                self.door.wait(0.02)
            elif token:
                self.permitted = False
                found = primacy.start_as(DatasetTale(self.place.member), {}, 0.0)
                assert isinstance(found, StartAs)
                at = NOBODY if found.follow is None else primacy.endpoint_of(found.follow)
                text = (self.place.config / "valkey.conf").read_text()
                (self.place.run / "valkey.conf").write_text(f"{text}\nreplicaof {at.host} {at.port}\n")
                self.permitted = True
                self.door.answer(token)
                self.watch.poke()
            else:
                if self.permitted and self.watch.state.phase is Phase.DOWN:
                    self.door.ring()
                self.door.wait(0.5)

    def answer(self, primacy: Primacy, stopping: threading.Event, beat: Callable[[], None]) -> None:
        while not stopping.is_set():
            beat()
            if token := self.handover.asked():
                self.handover.answer(token, primacy.hand_over(time.monotonic() + 10.0))
            self.handover.wait(0.5)


def main() -> None:
    place, log = read_environment(os.environ), Log()
    ways = [way.split("=") for way in os.environ["TEST_MEMBERS"].split(",")]
    agents = {Member(0, int(name.rpartition("-")[2])): at for name, at, _ in ways}
    members = {Member(0, int(name.rpartition("-")[2])): at for name, _, at in ways}
    spec = ReplicationSpec(place.instance, len(members) - 1, formed="TEST_FORMED" in os.environ)
    password = place.secret.read_bytes()
    threads = Threads(log)
    signal.signal(signal.SIGTERM, lambda _number, _frame: threads.stopping.set())

    def endpoint_of(member: Member) -> Endpoint:
        address = members[member]
        return Endpoint(member, pod_name(place.instance, member), address, address, place.client_port)

    def api() -> Api:
        return connect(os.environ["TEST_KUBECONFIG"], None)

    watch = Watch(place.address, place.client_port, lambda: (password,), log, DATASET_LOOK)
    gate = Gate(place, watch)
    primacy = Primacy(
        place,
        log,
        duration_s=int(os.environ["VALKEY_AUTOMATIC_FAILOVER"]),
        watch=watch,
        held=lambda: not gate.permitted,
        connect=lambda: resp.connected(place.address, place.client_port, (password,), 1.0),
        passwords=lambda: (password,),
        addresses=lambda: agents,
        endpoint_of=endpoint_of,
        declared=lambda: spec,
        stands_still=lambda: False,
        api=api,
        on_change=lambda: log.info("test", f"primary: {primacy.primary}"),
    )
    watch.listeners += [gate.listen, primacy.listen]
    paths = {"/alive": probe(threads.alive), "/started": probe(lambda: (watch.state.serving, "")), **primacy.paths}
    web = Web(place.address, place.agent_port, paths, log)
    stopping = threads.stopping
    threads.start("watch", 10.0, lambda beat: watch.run(stopping, beat))
    threads.start("gate", 10.0, lambda beat: gate.run(primacy, stopping, beat))
    threads.start("handover", 30.0, lambda beat: gate.answer(primacy, stopping, beat))
    threads.start("web", 10.0, lambda beat: web.run(stopping, beat))
    threads.start("primacy", 30.0, lambda beat: primacy.run(stopping, beat))
    stopping.wait()
    threads.end(1.0)
    os._exit(1 if threads.failed else 0)


if __name__ == "__main__":
    main()
