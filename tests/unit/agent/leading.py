"""A leader among real servers and an API server in this process: what stands around it in a Pod is played here."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.dataplane.servers import BUS_PORT, PORT, Fleet, Server
from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, workload
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.judge import Judgement, judge
from valkeyctl.agent.leader import Leader
from valkeyctl.agent.logs import Log
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.tale import Tale
from valkeyctl.agent.turns import Turns
from valkeyctl.dataplane import Member, Spec
from valkeyctl.kube.access import Api, connect
from valkeyctl.kube.declared import DeclaredState, write_declared
from valkeyctl.kube.lease import ensure_lease
from valkeyctl.kube.status import ensure_status

FIRST = Member(0, 0)
OWNER, PASSWORD = "acme/valkey/prod/sessions", "very-secret-password"
MAPS = "/api/v1/namespaces/valkey/configmaps"
STATUS, DECLARED = f"{MAPS}/sessions-status", f"{MAPS}/sessions-declared"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions"


class PodFleet(Fleet):
    """Servers that announce the names that their Pods have."""

    def _fresh(self, member: Member) -> Server:
        server = super()._fresh(member)
        server.host = server.host.replace(".test.svc", ".valkey.svc")
        return server


@dataclass
class OwnServer:
    """The watch of one member's server."""

    fleet: Fleet
    member: Member
    number: int = 0

    @property
    def state(self) -> ServerState:
        self.number += 1
        now = time.monotonic()
        try:
            with self.fleet.client(self.member) as client:
                client.response_callbacks.clear()
                nodes, cluster = client.execute_command("CLUSTER NODES"), client.execute_command("CLUSTER INFO")
                info = client.execute_command("INFO")
        except Exception:  # noqa: BLE001 - whatever it is, it doesn't answer
            return ServerState(self.number, Phase.DOWN, now, now)
        return ServerState(self.number, Phase.SERVING, now, now, nodes.encode(), cluster.encode(), info.encode())

    def wait(self, after: int, timeout_s: float) -> ServerState:  # noqa: ARG002 - as the watch has it
        time.sleep(min(timeout_s, 0.1))
        return self.state

    def poke(self) -> None:
        pass


@dataclass
class OtherAgents:
    """The other agents: none of them answers."""

    missing: frozenset[Member] = frozenset()
    known: dict[Member, str] = field(default_factory=dict[Member, str])

    def addresses(self) -> Mapping[Member, str]:
        return self.known

    def learn(self, addresses: Mapping[Member, str]) -> None:
        self.known |= addresses

    def ask(self, members: Iterable[Member], timeout_s: float) -> Mapping[Member, Tale]:  # noqa: ARG002
        return {}


class Agent:
    """One member's leader."""

    def __init__(self, scene: Scene, member: Member) -> None:
        server = scene.fleet.servers[member]
        self.environment = Environment(
            f"sessions-{member}",
            "valkey",
            "sessions",
            server.address,
            server.host,
            member,
            client_port=PORT,
            bus_port=BUS_PORT,
        )
        self.text, self.peers, self.stopping = io.StringIO(), OtherAgents(), threading.Event()
        self.beats: list[str] = []
        self.runtime = Runtime(
            environment=self.environment,
            log=Log(to=self.text),
            stopping=self.stopping,
            server=OwnServer(scene.fleet, member),
            peers=self.peers,
            password=PASSWORD.encode,
            beat=self.beats.append,
        )
        self.leader = Leader(self.runtime, api=lambda: connect(scene.fake.kubeconfig, None))
        self._thread = threading.Thread(target=self.leader.run, daemon=True)

    def turns(self, api: Api) -> Turns:
        return Turns(self.runtime, api)

    def judgement(self) -> Judgement:
        return judge(self.environment, self.runtime.server.state)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
            assert not self._thread.is_alive()

    @property
    def log(self) -> str:
        return self.text.getvalue()


@dataclass
class Scene:
    """Servers, the Pods that stand for them, what `up` left, and the agents that were asked for."""

    fake: FakeApi
    fleet: Fleet
    agents: list[Agent] = field(default_factory=list[Agent])

    @property
    def api(self) -> Api:
        return connect(self.fake.kubeconfig, None)

    def publish(self) -> None:
        """Pods of the servers that run, and only those, with StatefulSets around them."""
        for shard in range(self.fleet.spec.shards):
            made = workload(shard)
            made["metadata"] |= {"uid": f"uid-{shard}", "namespace": "valkey"}
            self.fake.put(f"{SETS}/sessions-s{shard}", made)
        endpoints = self.fleet.directory()
        for member in self.fleet.spec.members:
            path = f"{PODS}/sessions-{member}"
            if member in endpoints:
                self.fake.put(path, pod(member.shard, member.ordinal, podIP=endpoints[member].address))
            else:
                self.fake.objects.pop(path, None)

    def prepare(self) -> None:
        """What Prepare makes before the first Pod."""
        ensure_lease(self.api, "valkey", "sessions", OWNER)
        ensure_status(self.api, "valkey", "sessions", OWNER)

    def declare(self, spec: Spec, *, heals: bool = True, paused: bool = False) -> None:
        """What an `up` tells the agents."""
        write_declared(self.api, "valkey", "sessions", DeclaredState(OWNER, spec, PORT, heal=heals, paused=paused))

    def agent(self, member: Member = FIRST) -> Agent:
        self.agents.append(Agent(self, member))
        return self.agents[-1]

    @property
    def status(self) -> dict[str, str]:
        return self.fake.objects[STATUS].get("data") or {}

    def events(self) -> list[tuple[str, str, str]]:
        found = [o for path, o in self.fake.objects.items() if "/events/" in path]
        return [(event["type"], event["reason"], event["message"]) for event in found]

    def close(self) -> None:
        for agent in self.agents:
            agent.stop()


def secret(fake: FakeApi) -> None:
    """The password's Secret, which agents have no need of here."""
    encoded = base64.b64encode(PASSWORD.encode()).decode()
    fake.put("/api/v1/namespaces/valkey/secrets/sessions-auth", {"data": {"password": encoded}})


def eventually(what: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Return once it is true."""
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
