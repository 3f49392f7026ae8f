"""Pods of one dataset whose agents are arbiters, real servers, and a fake API server; each way between can be cut.

Every member is reached through an address of its own at which a relay listens, and reaches the API server and the other
agents through relays of its own: so it can be cut off from any of them, in the middle of what they say.
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import valkey

from tests.dataplane.servers import PORT, binary, new_address
from tests.unit.kube.fake_api import FakeApi
from valkeyctl.agent.ports import AGENT_PORT
from valkeyctl.dataplane import Member, pod_name
from valkeyctl.kube.access import connect
from valkeyctl.kube.primary_lease import appoint, ensure_primacy, path_of_primacy

CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE, INSTANCE, PASSWORD = "valkey", "sessions", b"let me in"
DURATION_S = 5
"""The shortest that is allowed."""
_GUARD = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
_SERVER = '#!/bin/sh\nexec {guard} {server} "$@"\n'


class Relay:
    """Passes on what comes to one address to another. While it is `cut`, nothing passes, and nothing breaks."""

    def __init__(self, at: tuple[str, int], to: tuple[str, int]) -> None:
        self.to = to
        self.cut = threading.Event()
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(at, backlog=64)
        self.at = self._listening.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End, and break all connections."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                came, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(came,), daemon=True).start()

    def _connect(self, came: socket.socket) -> None:
        self._open.append(came)
        while self.cut.is_set():
            time.sleep(0.05)
        try:
            onward = socket.create_connection(self.to, timeout=5)
        except OSError:
            came.close()
            return
        onward.settimeout(None)
        self._open.append(onward)
        for one, other in ((came, onward), (onward, came)):
            threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(1 << 16):
                while self.cut.is_set():
                    time.sleep(0.02)
                other.sendall(data)
        except OSError:
            pass
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@dataclass
class Pod:
    """One member: where it really is (`address`), and where others think that it is (`public`)."""

    member: Member
    line: str
    folder: Path
    address: str
    public: str
    variables: dict[str, str] = field(default_factory=dict[str, str])
    agent: subprocess.Popen[bytes] | None = None
    container: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    restart_s: float = 0.3
    _kubelet: threading.Thread | None = None

    def configure(self) -> None:
        """Write what the Pod's volumes hold."""
        for name in ("config", "run", "data"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "password").write_bytes(PASSWORD)
        server = self.folder / "server"
        server.write_text(_SERVER.format(guard=" ".join(_GUARD), server=binary(self.line)))
        server.chmod(0o755)
        lines = {
            "port": str(PORT),
            "bind": self.address,
            "bind-source-addr": self.address,
            "dir": str(self.folder / "data"),
            "requirepass": PASSWORD.decode(),
            "primaryauth": PASSWORD.decode(),
            "replica-announce-ip": self.public,
            "repl-diskless-sync-delay": "0",
            "repl-timeout": "10",
            "appendonly": "no",
        }
        text = "".join(f'{name} "{value}"\n' for name, value in lines.items())
        (self.folder / "config" / "valkey.conf").write_text(f'{text}save ""\n')

    @property
    def environment(self) -> dict[str, str]:
        """What the Pod template gives to both containers."""
        return {
            "PATH": os.environ["PATH"],
            "POD_NAME": pod_name(INSTANCE, self.member),
            "POD_NAMESPACE": NAMESPACE,
            "POD_IP": self.address,
            "POD_HOST": f"{pod_name(INSTANCE, self.member)}.{INSTANCE}-headless.{NAMESPACE}.svc",
            "INSTANCE": INSTANCE,
            "VALKEY_ARCHITECTURE": "replica",
            "VALKEY_AUTOMATIC_FAILOVER": str(DURATION_S),
            "VALKEY_PORT": str(PORT),
            "VALKEY_CONFIG_DIR": str(self.folder / "config"),
            "VALKEY_SECRET": str(self.folder / "password"),
            "VALKEY_DATA": str(self.folder / "data"),
            "VALKEY_RUN": str(self.folder / "run"),
            "VALKEY_SERVER": str(self.folder / "server"),
            **self.variables,
        }

    def start_agent(self) -> None:
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [*_GUARD, sys.executable, "-m", "tests.agent.arbiter_process"],
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
            script = CHECKOUT / "components" / "watchdog.sh"
            self.container = subprocess.Popen(
                [*_GUARD, "sh", str(script)], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def _restart(self) -> None:
        while not self.stopped:
            assert self.container is not None
            self.container.wait()
            self._end_group()
            if not self.stopped:
                time.sleep(self.restart_s)
                self._run_container()

    def _end_group(self) -> None:
        """A container's processes end with its first one."""
        assert self.container is not None
        with suppress(ProcessLookupError):
            os.killpg(self.container.pid, signal.SIGKILL)

    @property
    def server_pid(self) -> int:
        """The server's process."""
        with self.client() as client:
            return int(client.info("server")["process_id"])

    def kill_server(self) -> None:
        os.kill(self.server_pid, signal.SIGKILL)

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def signal_agent(self, number: signal.Signals) -> None:
        assert self.agent is not None
        self.agent.send_signal(number)

    def stop(self) -> None:
        """End everything at once, as power loss would."""
        self.stopped = True
        if self.agent is not None:
            self.agent.kill()
            self.agent.wait()
        if self.container is not None:
            self._end_group()
            self.container.wait()
        if self._kubelet is not None:
            self._kubelet.join()

    def client(self, timeout_s: float = 2.0) -> valkey.Valkey:
        """A client beside the server: no cut keeps it away."""
        return valkey.Valkey(
            host=self.address,
            port=PORT,
            password=PASSWORD.decode(),
            decode_responses=True,
            socket_timeout=timeout_s,
            lib_name=None,
            lib_version=None,
        )

    def log(self) -> str:
        return (self.folder / "agent.log").read_text() + (self.folder / "server.log").read_text()[-2000:]


@dataclass
class Arbiters:
    """All Pods. A context manager; entering starts them, and returns once there is a primary that all follow."""

    line: str
    members: int = 3
    pods: dict[Member, Pod] = field(default_factory=dict[Member, Pod])
    relays: list[Relay] = field(default_factory=list[Relay])
    to_api: dict[Member, Relay] = field(default_factory=dict[Member, Relay])
    to_agent: dict[tuple[Member, Member], Relay] = field(default_factory=dict[tuple[Member, Member], Relay])
    to_server: dict[Member, Relay] = field(default_factory=dict[Member, Relay])
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="valkey-arbiters-")))
    api: FakeApi = field(default_factory=FakeApi)

    def __enter__(self) -> Arbiters:
        everybody = [Member(0, ordinal) for ordinal in range(self.members)]
        for member in everybody:
            folder = self.root / str(member)
            folder.mkdir()
            self.pods[member] = Pod(member, self.line, folder, new_address(), new_address())
        for member, pod in self.pods.items():
            self.to_server[member] = self._relay((pod.public, PORT), (pod.address, PORT))
            port = int(self.api.url.rpartition(":")[2])
            self.to_api[member] = self._relay(("127.0.0.1", 0), ("127.0.0.1", port))
            ways: list[str] = []
            for other in everybody:
                at = pod.public
                if other != member:
                    at = new_address()
                    relay = self._relay((at, AGENT_PORT), (self.pods[other].address, AGENT_PORT))
                    self.to_agent[member, other] = relay
                ways.append(f"{other}={at}={self.pods[other].public}")
            url = f"http://127.0.0.1:{self.to_api[member].at[1]}"
            pod.variables = {
                "TEST_KUBECONFIG": self.api.kubeconfig.replace(self.api.url, url),
                "TEST_MEMBERS": ",".join(ways),
            }
            pod.configure()
        api = connect(self.api.kubeconfig, None)
        ensure_primacy(api, NAMESPACE, INSTANCE, "acme", duration_s=DURATION_S)
        appoint(api, NAMESPACE, INSTANCE, everybody[0], candidates=everybody)
        for pod in self.pods.values():
            pod.start_agent()
            pod.start_container()
        try:
            self.eventually(self.settled)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pod in self.pods.values():
            if pod.agent is not None and pod.agent.poll() is None:
                pod.signal_agent(signal.SIGCONT)
            pod.stop()
        for relay in self.relays:
            relay.close()
        self.api.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _relay(self, at: tuple[str, int], to: tuple[str, int]) -> Relay:
        self.relays.append(Relay(at, to))
        return self.relays[-1]

    def isolate(self, member: Member) -> None:
        """Cut a member's Pod off from everybody else; who is beside it still reaches its server."""
        for relay in self._around(member):
            relay.cut.set()

    def join(self, member: Member) -> None:
        """End that."""
        for relay in self._around(member):
            relay.cut.clear()

    def _around(self, member: Member) -> list[Relay]:
        between = [relay for pair, relay in self.to_agent.items() if member in pair]
        return [self.to_api[member], self.to_server[member], *between]

    def role(self, member: Member) -> dict[str, object]:
        with self.pods[member].client(1.0) as client:
            return dict(client.info("replication"))

    def primary(self) -> Member | None:
        """The one that calls itself so, among those that answer."""
        found: list[Member] = []
        for member in self.pods:
            with suppress(OSError, valkey.ValkeyError):
                if self.role(member)["role"] == "master":
                    found.append(member)
        assert len(found) < 2, f"{found} are primaries\n{self.logs()}"
        return found[0] if found else None

    def settled(self) -> bool:
        """Whether one is the primary, and all others follow it."""
        primary = self.primary()
        if primary is None:
            return False
        others = [self.role(member) for member in self.pods if member != primary]
        public = self.pods[primary].public
        return all(one.get("master_host") == public and one.get("master_link_status") == "up" for one in others)

    @property
    def holder(self) -> str:
        """The Pod that the Lease names."""
        return str(self.api.objects[path_of_primacy(NAMESPACE, INSTANCE)]["spec"]["holderIdentity"]).partition("/")[0]

    def eventually(self, holds: Callable[[], object], timeout_s: float = 60.0) -> float:
        """Return once it holds, after how many seconds."""
        began_at = time.monotonic()
        while True:
            with suppress(OSError, valkey.ValkeyError):
                if holds():
                    return time.monotonic() - began_at
            assert time.monotonic() - began_at < timeout_s, self.logs()
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join(f"{member}: {line}" for member, pod in self.pods.items() for line in pod.log().splitlines())
