"""A dataset of one primary and its replicas, with Sentinels, all real processes; and what the tests do with it."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import valkey

from tests.dataplane.scenes import Told
from tests.dataplane.servers import LINES, PORT, READY_S, Server, binary, new_address
from valkeyctl.dataplane import Credentials, DirectDialer, Endpoint, Member
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.rounds import Round
from valkeyctl.dataplane.sentinel.apply import SENTINEL_COMMANDS_NEEDED, SERVER_COMMANDS_NEEDED
from valkeyctl.dataplane.sentinel.converge import converge, working
from valkeyctl.dataplane.sentinel.model import Parameters, Sentinel, SentinelSpec, sentinel
from valkeyctl.dataplane.sentinel.observe import observe
from valkeyctl.dataplane.sentinel.plan import plan
from valkeyctl.dataplane.sentinel.rights import SENTINELS_AT_SERVERS
from valkeyctl.dataplane.sentinel.view import SentinelsView

NAME = "orders"
SENTINEL_PORT = 27379
DEADLINE_S = 60.0
PARAMETERS = Parameters(down_after_ms=2000, failover_timeout_ms=5_000, parallel_syncs=2)
OPERATOR, WATCHER = Credentials("operator", "operator-secret"), Credentials("watcher", "watcher-secret")
APPLICATION = Credentials(None, "application-secret")
# A Sentinel asks servers every 10 s and tells what it knows every 2 s, which only costs time here.
HURRY = ("SENTINEL", "DEBUG", "INFO-PERIOD", 500, "PUBLISH-PERIOD", 500)


@dataclass
class DataServer(Server):
    """A server of the dataset, known to the others by its host and port."""

    port: int = PORT

    def client(self) -> valkey.Valkey:
        """A client of this server; answers are texts."""
        return _client(self.address, self.port, APPLICATION.password)


@dataclass
class SentinelServer(Server):
    """A Sentinel process; what it remembers is in its file."""

    sentinel_id: str = ""

    @property
    def file(self) -> Path:
        """Its file, which it rewrites itself."""
        return self.directory / "sentinel.conf"

    def start(self) -> None:
        """Start the process on its file, made when there is none; does not wait until it answers."""
        if not self.file.exists():
            self.file.write_text("\n".join(self._lines()) + "\n")
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        words = [*guard, str(binary(self.line)), str(self.file), "--sentinel"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def client(self) -> valkey.Valkey:
        """A client of this Sentinel; answers are texts."""
        return _client(self.address, SENTINEL_PORT)

    def _lines(self) -> list[str]:
        rights = " ".join(f"+{command}" for command in SENTINEL_COMMANDS_NEEDED)
        return [
            f"port {SENTINEL_PORT}",
            f"bind {self.address}",
            f"bind-source-addr {self.address}",
            "protected-mode no",
            f"dir {self.directory}",
            f"logfile {self.directory / 'log'}",
            f"user {OPERATOR.user} on >{OPERATOR.password} {rights}",
            f"sentinel myid {self.sentinel_id}",
            "sentinel resolve-hostnames yes",
            "sentinel announce-hostnames yes",
            f"sentinel announce-ip {self.address}",
            *(f"{name} {value}" for name, value in self.options.items()),
        ]


@dataclass
class Dataset:
    """The servers and the Sentinels of one instance. A context manager.

    `names`: servers call each other localhost, with a port each, instead of by an address each. `newer`: the Sentinels
    are of the newest line, as in the middle of an upgrade.
    """

    line: str
    members: int = 3
    names: bool = False
    newer: bool = False
    servers: dict[Member, DataServer] = field(default_factory=dict[Member, DataServer])
    sentinels: dict[Sentinel, SentinelServer] = field(default_factory=dict[Sentinel, SentinelServer])
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="valkey-sentinels-")))

    @property
    def spec(self) -> SentinelSpec:
        """What is declared: three Sentinels, and the servers of the dataset."""
        return SentinelSpec(
            NAME,
            {Member(0, o): self.address(Member(0, o)) for o in range(self.members)},
            3,
            2,
            primary=Member(0, 0),
            parameters=PARAMETERS,
            user=WATCHER.user,
            authenticated=True,
            ids={ordinal: fixed_id(ordinal) for ordinal in range(3)},
        )

    def start(self, sentinels: int = 3) -> None:
        """Start the servers, the first as primary, and Sentinels that know nothing; wait until all answer."""
        for ordinal in range(self.members):
            self.add_server(Member(0, ordinal), follow=Member(0, 0) if ordinal else None)
        for ordinal in range(sentinels):
            self.add_sentinel(ordinal)

    def add_server(self, member: Member, *, follow: Member | None) -> None:
        """Start a fresh server."""
        directory = Path(tempfile.mkdtemp(prefix=f"{member}-", dir=self.root))
        host, address, port = "", new_address(), PORT
        if self.names:
            host, address, port = "localhost", "127.0.0.1", _free_port()
        rights = " ".join(f"+{command}" for command in SERVER_COMMANDS_NEEDED)
        (directory / "users").write_text(
            f"user default on >{APPLICATION.password} ~* &* +@all\n"
            f"user {OPERATOR.user} on >{OPERATOR.password} {rights}\n"
            f"user {WATCHER.user} on >{WATCHER.password} {' '.join(SENTINELS_AT_SERVERS)}\n"
        )
        options = {
            "cluster-enabled": "no",
            "port": str(port),
            "replica-announce-ip": host or address,
            "replica-announce-port": str(port),
            "aclfile": str(directory / "users"),
            "repl-ping-replica-period": "1",
            "repl-timeout": "5",
            "primaryauth": str(APPLICATION.password),
        }
        if follow is not None:
            options["replicaof"] = f"{self.address(follow).host} {self.address(follow).port}"
        server = DataServer(self.line, host or address, address, directory, options, port=port)
        self.servers[member] = server
        server.start()
        server.await_answer()

    def add_sentinel(self, ordinal: int, sentinel_id: str | None = None) -> None:
        """Start a fresh Sentinel, which knows nothing."""
        directory = Path(tempfile.mkdtemp(prefix=f"sentinel-{ordinal}-", dir=self.root))
        server = SentinelServer(
            LINES[0] if self.newer else self.line,
            "",
            new_address(),
            directory,
            {},
            sentinel_id=sentinel_id or fixed_id(ordinal),
        )
        self.sentinels[sentinel(ordinal)] = server
        server.start()
        server.await_answer()
        self.tell(ordinal, *HURRY)

    def address(self, member: Member) -> Address:
        """How a server is called by the others."""
        return Address(self.servers[member].host, self.servers[member].port)

    def server_directory(self) -> Mapping[Member, Endpoint]:
        """The endpoints of the servers that run."""
        return {
            member: Endpoint(member, f"t-{member}", server.host, server.address, server.port)
            for member, server in self.servers.items()
            if server.process is not None
        }

    def sentinel_directory(self) -> Mapping[Member, Endpoint]:
        """The endpoints of the Sentinels that run."""
        return {
            member: Endpoint(member, f"t-{member}", server.address, server.address, SENTINEL_PORT)
            for member, server in self.sentinels.items()
            if server.process is not None
        }

    def look(self, spec: SentinelSpec) -> SentinelsView:
        """One observation."""
        dialer = DirectDialer(OPERATOR)
        return observe(spec, self.sentinel_directory(), self.server_directory(), dialer, dialer)

    def run(
        self,
        spec: SentinelSpec,
        *,
        told: Told | None = None,
        deadline_s: float = DEADLINE_S,
        may_go_on: Callable[[], None] = lambda: None,
    ) -> SentinelsView:
        """Converge."""
        return converge(
            spec,
            self.sentinel_directory,
            self.server_directory,
            DirectDialer(OPERATOR),
            DirectDialer(OPERATOR),
            deadline_s=deadline_s,
            progress=told or Told(),
            may_go_on=may_go_on,
            monitor_as=WATCHER,
        )

    def take_steps(self, spec: SentinelSpec, count: int) -> int:
        """Take at most `count` steps one by one, each planned anew and by a run of its own; how many there were."""
        dialer, taken = DirectDialer(OPERATOR), 0
        deadline, called_since = time.monotonic() + DEADLINE_S, dict[object, float]()
        while taken < count:
            with working(
                spec, self.sentinel_directory, self.server_directory, dialer, dialer, monitor_as=WATCHER
            ) as work:
                what = work.decide(work.look())
                if not isinstance(what, Round):
                    break
                now = time.monotonic()
                assert now < deadline, what.describe()
                called_since = {step: called_since.get(step, now) for step in what.actions}
                due = [step for step in what.actions if now - called_since[step] >= step.sure_in_s]
                if due:
                    assert not work.carry_out(due[:1])
                    taken += 1
                else:
                    time.sleep(0.05)
        return taken

    def ask(self, member: Member, *command: str | int) -> object:
        """One command to a server, or to a Sentinel, its raw answer."""
        server = self.sentinels[member] if isinstance(member, Sentinel) else self.servers[member]
        with server.client() as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    def tell(self, ordinal: int, *command: str | int) -> object:
        """One command to a Sentinel, its raw answer."""
        return self.ask(sentinel(ordinal), *command)

    def named_primary(self, ordinal: int) -> Address:
        """The primary that a Sentinel names to clients."""
        answer: list[str] = self.tell(ordinal, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)  # type: ignore[assignment]
        return Address(answer[0], int(answer[1]))

    def entries(self, ordinal: int, kind: str) -> list[dict[str, str]]:
        """What a Sentinel knows of one kind ("SENTINELS", "REPLICAS"), in its own words."""
        answer: list[list[str]] = self.tell(ordinal, "SENTINEL", kind, NAME)  # type: ignore[assignment]
        return [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in answer]

    def monitored(self, ordinal: int) -> dict[str, str]:
        """What a Sentinel monitors, in its own words."""
        answer: list[str] = self.tell(ordinal, "SENTINEL", "MASTER", NAME)  # type: ignore[assignment]
        return dict(zip(answer[::2], answer[1::2], strict=True))

    def reaches_quorum(self, ordinal: int) -> bool:
        """Whether a Sentinel says that it could fail over."""
        try:
            return str(self.tell(ordinal, "SENTINEL", "CKQUORUM", NAME)).startswith("OK")
        except valkey.ResponseError:
            return False

    def role(self, member: Member) -> str:
        """A server's role, in its own words."""
        answer: list[str] = self.ask(member, "ROLE")  # type: ignore[assignment]
        return answer[0]

    def assert_as_declared(self, spec: SentinelSpec, primary: Member) -> None:
        """All Sentinels say what is declared, in their own words."""
        others = [member for member in spec.servers if member != primary]
        for member in spec.declared:
            ordinal = member.ordinal
            # Where processes get no time for long, a Sentinel calls one down for a moment.
            self.await_(lambda o=ordinal: self.monitored(o)["flags"] == "master" and self.reaches_quorum(o))
            monitored = self.monitored(ordinal)
            assert self.named_primary(ordinal) == self.address(primary)
            assert int(monitored["quorum"]) == spec.quorum
            assert int(monitored["down-after-milliseconds"]) == spec.parameters.down_after_ms
            assert int(monitored["failover-timeout"]) == spec.parameters.failover_timeout_ms
            assert int(monitored["parallel-syncs"]) == spec.parameters.parallel_syncs
            known = {entry["runid"] for entry in self.entries(ordinal, "SENTINELS")}
            assert known == {self.sentinels[other].sentinel_id for other in spec.declared if other != member}
            replicas = {(entry["ip"], int(entry["port"])) for entry in self.entries(ordinal, "REPLICAS")}
            assert replicas == {(self.address(other).host, self.address(other).port) for other in others}
        assert self.role(primary) == "master"
        assert {self.role(other) for other in others} <= {"slave"}

    def await_(self, what: Callable[[], bool]) -> None:
        """Return once something has come about by itself."""
        deadline = time.monotonic() + READY_S
        while not what():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (*self.servers.values(), *self.sentinels.values()):
            server.kill()
        shutil.rmtree(self.root, ignore_errors=True)


def resized(spec: SentinelSpec, sentinels: int, quorum: int, leaving: int = 0) -> SentinelSpec:
    """The same with another number of Sentinels, and so many more that are leaving."""
    return replace(
        spec,
        sentinels=sentinels,
        quorum=quorum,
        ids={ordinal: fixed_id(ordinal) for ordinal in range(sentinels)},
        leaving=tuple(sentinel(ordinal) for ordinal in range(sentinels, sentinels + leaving)),
    )


def fixed_id(ordinal: int) -> str:
    """The id that is declared for a Sentinel."""
    return hashlib.sha1(f"sentinel-{ordinal}".encode(), usedforsecurity=False).hexdigest()


def planned(dataset: Dataset, spec: SentinelSpec) -> object:
    """What would be done now."""
    return plan(spec, dataset.look(spec))


def _client(address: str, port: int, password: str | None = None) -> valkey.Valkey:
    return valkey.Valkey(
        host=address,
        port=port,
        password=password,
        decode_responses=True,
        socket_timeout=5,
        lib_name=None,
        lib_version=None,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
