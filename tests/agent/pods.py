"""Pods without Kubernetes: for each member an agent's process and a container that runs start.sh, at an own address.

Both have the files that their containers would share, and the container is started again when it ends, as a kubelet
does. There is no API server: what the agents do with that isn't tested here.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType

import valkey

from tests.dataplane.servers import BUS_PORT, PORT, binary, new_address
from valkeyctl.agent.ports import AGENT_PORT
from valkeyctl.dataplane import Credentials, DirectDialer, Endpoint, Member, Spec, pod_name

CHECKOUT = Path(__file__).resolve().parents[2]
PASSWORD = b"let me in"
NODE_TIMEOUT_MS = 2000
NAMESPACE = "test"
#: What a kubelet needs to start a container again that has just ended.
RESTART_S = 0.3
_GUARD = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


@dataclass
class Pod:
    """One member: its folder, its agent, its container."""

    spec: Spec
    member: Member
    line: str
    folder: Path
    address: str
    settings: Mapping[str, str]
    agent: subprocess.Popen[bytes] | None = None
    container: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    restart_s: float = RESTART_S
    _kubelet: threading.Thread | None = None

    def __post_init__(self) -> None:
        for name in ("config", "run", "data"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "password").write_bytes(PASSWORD)
        self.configure(self.settings)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the server's file as the ConfigMap has it."""
        base = {
            "port": str(PORT),
            "cluster-port": str(BUS_PORT),
            "bind": self.address,
            "bind-source-addr": self.address,
            "dir": str(self.folder / "data"),
            "save": "",
            "appendonly": "no",
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "cluster-allow-replica-migration": "no",
            "cluster-require-full-coverage": "no",
            "repl-diskless-sync-delay": "0",
            **settings,
        }
        # The entries of `save` are words, everything else is one value.
        lines = (f"{name} {value}" if name == "save" and value else f'{name} "{value}"' for name, value in base.items())
        (self.folder / "config" / "valkey.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "config" / "live.conf").write_text("")

    @property
    def name(self) -> str:
        """The Pod's name."""
        return pod_name(self.spec.instance, self.member)

    @property
    def host(self) -> str:
        """What its server announces."""
        return f"{self.name}.{self.spec.instance}-headless.{NAMESPACE}.svc"

    @property
    def environment(self) -> dict[str, str]:
        """What the Pod template gives to both containers."""
        return {
            "PATH": os.environ["PATH"],
            "POD_NAME": self.name,
            "POD_NAMESPACE": NAMESPACE,
            "POD_IP": self.address,
            "POD_HOST": self.host,
            "INSTANCE": self.spec.instance,
            "VALKEY_PORT": str(PORT),
            "VALKEY_BUS_PORT": str(BUS_PORT),
            "VALKEY_CONFIG_DIR": str(self.folder / "config"),
            "VALKEY_SECRET": str(self.folder / "password"),
            "VALKEY_DATA": str(self.folder / "data"),
            # Declared: the parts that need the API server start as soon as they may.
            "VALKEY_DECLARED": str(self.folder),
            "VALKEY_RUN": str(self.folder / "run"),
            "VALKEY_SERVER": str(binary(self.line)),
        }

    def start(self) -> None:
        """Start the agent, then the container."""
        self.start_agent()
        self.start_container()

    def start_agent(self) -> None:
        """Start the agent's process alone."""
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [*_GUARD, sys.executable, "-m", "valkeyctl.agent"],
                cwd=CHECKOUT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def start_container(self) -> None:
        """Start the container, and keep it started until `stop`."""
        self.stopped = False
        self._run_container()
        self._kubelet = threading.Thread(target=self._restart, daemon=True)
        self._kubelet.start()

    def _run_container(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.container = subprocess.Popen(
                [*_GUARD, "sh", str(CHECKOUT / "components" / "start.sh")], env=self.environment, stdout=log, stderr=log
            )

    def _restart(self) -> None:
        while not self.stopped:
            assert self.container is not None
            self.container.wait()
            if not self.stopped:
                time.sleep(self.restart_s)
                self._run_container()

    def kill_server(self) -> None:
        """End the server at once; its container is started again."""
        assert self.container is not None
        self.container.kill()

    def kill_agent(self) -> None:
        """End the agent at once, and leave the server alone."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def stop(self) -> None:
        """End everything at once, as power loss would."""
        self.stopped = True
        for process in (self.container, self.agent):
            if process is not None:
                process.kill()
                process.wait()
        if self._kubelet is not None:
            self._kubelet.join()

    def log(self) -> str:
        """What the agent has said."""
        return (self.folder / "agent.log").read_text()

    def client(self) -> valkey.Valkey:
        """A client of the server."""
        return valkey.Valkey(
            host=self.address, port=PORT, password=PASSWORD.decode(), decode_responses=True, socket_timeout=5
        )

    def listens(self) -> bool:
        """Whether a server runs at its address."""
        with socket.socket() as probe:
            return probe.connect_ex((self.address, PORT)) == 0

    def probe(self, path: str) -> tuple[int, str]:
        """What the agent answers to a probe: status and text."""
        connection = HTTPConnection(self.address, AGENT_PORT, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode().strip()
        finally:
            connection.close()


@dataclass
class Pods:
    """All Pods of an instance. A context manager."""

    spec: Spec
    line: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    pods: dict[Member, Pod] = field(default_factory=dict[Member, Pod])
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="valkey-pods-")))
    password: str = PASSWORD.decode()

    @property
    def dialer(self) -> DirectDialer:
        """Connects to the servers."""
        return DirectDialer(Credentials(password=self.password))

    def directory(self) -> Mapping[Member, Endpoint]:
        """Where the Pods are."""
        return {
            member: Endpoint(member, pod.name, pod.host, pod.address, PORT, BUS_PORT)
            for member, pod in self.pods.items()
            if not pod.stopped
        }

    def start(self) -> None:
        """Start all Pods, and return once all servers answer."""
        for member in self.spec.members:
            folder = self.root / str(member)
            folder.mkdir()
            self.pods[member] = Pod(self.spec, member, self.line, folder, new_address(), self.settings)
            self.pods[member].start()
        eventually(lambda: all(pod.probe("/started")[0] == 200 for pod in self.pods.values()), self)

    def client(self, member: Member) -> valkey.Valkey:
        """A client of a member's server."""
        return self.pods[member].client()

    def ask(self, member: Member, *command: str | int) -> object:
        """One command to a member's server, its raw answer."""
        with self.client(member) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    def logs(self) -> str:
        """What all agents have said."""
        return "\n".join(f"{member}: {line}" for member, pod in self.pods.items() for line in pod.log().splitlines())

    def __enter__(self) -> Pods:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pod in self.pods.values():
            if pod.agent is not None and pod.agent.poll() is None:
                pod.agent.send_signal(signal.SIGCONT)
            pod.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def eventually(holds: Callable[[], object], pods: Pods, timeout_s: float = 60.0) -> None:
    """Return once it holds; with the agents' logs where it doesn't in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if holds():
                return
        except (OSError, valkey.ValkeyError):
            pass
        assert time.monotonic() < deadline, pods.logs()
        time.sleep(0.02)
