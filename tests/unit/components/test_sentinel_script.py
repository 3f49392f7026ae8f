"""The Sentinels' script, with real Sentinels of both lines: what is kept over a restart, and who may do what."""

import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import valkey

from components.sentinel_files import config_data, sentinel_id
from tests.unit.settings.server_table import WHEELS, server
from valkeyctl.dataplane.sentinel.rights import OPERATOR, SENTINEL, SENTINELS_AT_SERVERS

CLI = server("8.1").parent / "valkey-cli"
ALL, CLIENTS, OPERATORS = "all", "asks", "op\"er\\ator $(id) 'x' %s"
DEADLINE_S = 30.0
NAME = "data.sessions"
HOST = "sessions-s0-{}.sessions-headless.data.svc"
LINES = sorted(WHEELS)


class SentinelPod:
    """A folder in place of a Pod's file system. `address`: where it listens, and what it calls itself."""

    def __init__(self, folder: Path, line: str, ordinal: int = 0, address: str = "127.0.0.1", host: str = "") -> None:
        self.folder, self.line, self.address = folder, line, address
        self.port = _free_port(address)
        self.pod = f"sessions-sentinel-{ordinal}"
        self.host = host or f"{self.pod}.sessions-sentinel.data.svc"
        for name in ("config", "secrets", "data"):
            (folder / name).mkdir(parents=True)
        files = config_data()
        own = {
            # Of the port itself and of what is announced.
            "port 26379": f"port {self.port}",
            "bind * -::*": f"bind {address}\nbind-source-addr {address}",
        }
        for text, instead in own.items():
            assert text in files["sentinel.conf"]
            files["sentinel.conf"] = files["sentinel.conf"].replace(f"{text}\n", f"{instead}\n")
        for name, text in files.items():
            (folder / "config" / name).write_text(text)
        (folder / "secrets" / "password").write_text(CLIENTS)
        (folder / "secrets" / "operator").write_text(OPERATORS)
        self.kept = folder / "data" / "sentinel.conf"
        self.process: subprocess.Popen[bytes] | None = None

    def environment(self, program: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "POD_NAME": self.pod,
            "POD_NAMESPACE": "data",
            "POD_HOST": self.host,
            "VALKEY_CONFIG_DIR": str(self.folder / "config"),
            "VALKEY_SENTINEL_SECRETS": str(self.folder / "secrets"),
            "VALKEY_DATA": str(self.folder / "data"),
            "VALKEY_SERVER": program,
            "VALKEY_CLI": str(CLI),
            "VALKEY_PORT": str(self.port),
        }

    def written(self) -> list[str]:
        """What the script hands to Sentinel, which isn't started."""
        self._run("true")
        return self.kept.read_text().splitlines()

    def _run(self, program: str) -> None:
        command = ["sh", str(self.folder / "config" / "sentinel.sh")]
        subprocess.run(command, env=self.environment(program), check=True, capture_output=True, timeout=DEADLINE_S)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", str(self.folder / "config" / "sentinel.sh")],
                env=self.environment(str(server(self.line))),
                stdout=log,
                stderr=log,
            )
        until(self.answers, (self.folder / "log").read_text)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=DEADLINE_S)
            self.process = None

    def client(self, user: str | None, password: str) -> valkey.Valkey:
        return valkey.Valkey(
            host=self.address,
            port=self.port,
            username=user,
            password=password,
            decode_responses=True,
            socket_timeout=5,
            lib_name=None,
            lib_version=None,
        )

    def ask(self, *command: str | int, user: str | None = OPERATOR, password: str = OPERATORS) -> object:
        with self.client(user, password) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command)

    def answers(self) -> bool:
        try:
            return self.ask("PING", user=None, password=CLIENTS) == "PONG"
        except valkey.ValkeyError:
            return False

    def probe(self) -> int:
        done = subprocess.run(
            ["sh", str(self.folder / "config" / "sentinel_probe.sh")],
            env=self.environment(""),
            check=False,
            capture_output=True,
            timeout=DEADLINE_S,
        )
        return done.returncode


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[SentinelPod]:
    made = SentinelPod(tmp_path / "pod", "9.1")
    yield made
    made.stop()


def until(what: Callable[[], bool], told: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


OTHER, OTHER_ID = "sessions-sentinel-1.sessions-sentinel.data.svc", "b" * 40
GOOD = [
    f"sentinel monitor {NAME} {HOST.format(0)} 6379 2",
    f"sentinel down-after-milliseconds {NAME} 2000",
    f"sentinel config-epoch {NAME} 7",
    f"sentinel leader-epoch {NAME} 8",
    f"sentinel known-replica {NAME} {HOST.format(1)} 6379",
    f"sentinel known-sentinel {NAME} {OTHER} 26379 {OTHER_ID}",
    "sentinel current-epoch 8",
]


def test_what_is_known_to_be_good_is_kept_and_signs_in_anew(pod: SentinelPod) -> None:
    pod.kept.write_text("\n".join(GOOD) + "\n")
    written = pod.written()
    assert [line for line in GOOD if line not in written] == []
    assert f"sentinel auth-user {NAME} {SENTINEL}" in written
    assert f"sentinel myid {sentinel_id(pod.pod, 'data')}" in written
    assert f"sentinel announce-ip {pod.host}" in written
    assert "sentinel resolve-hostnames yes" in written
    assert "sentinel announce-hostnames yes" in written
    # Once more: what a start wrote, a start takes.
    assert pod.written() == written


@pytest.mark.parametrize(
    "line",
    [
        # Addresses that Pods had once.
        f"sentinel known-replica {NAME} 10.0.0.7 6379",
        f"sentinel known-replica {NAME} fd00::7 6379",
        f"sentinel known-sentinel {NAME} 10.0.0.8 26379 {OTHER_ID}",
        # Somebody else's Sentinels, and ourselves.
        f"sentinel known-sentinel {NAME} elsewhere-sentinel-0.elsewhere-sentinel.data.svc 26379 {'c' * 40}",
        f"sentinel known-sentinel {NAME} sessions-sentinel-0.sessions-sentinel.data.svc 26379 {'c' * 40}",
        f"sentinel known-sentinel {NAME} {OTHER} 26379 {sentinel_id('sessions-sentinel-0', 'data')}",
        # What is monitored at an address, or under no name, and all that is said of it.
        "sentinel monitor other 10.0.0.9 6379 2",
        "sentinel config-epoch other 3",
        f"sentinel monitor a*b {HOST.format(0)} 6379 2",
        "sentinel parallel-syncs unknown 3",
        # Former ids, passwords and users, programs, and what isn't ours to know.
        f"sentinel myid {'d' * 40}",
        f'sentinel auth-pass {NAME} "former"',
        f"sentinel auth-user {NAME} former",
        'sentinel sentinel-pass "former"',
        f"sentinel notification-script {NAME} /bin/true",
        "user former on nopass ~* &* +@all",
        'requirepass "former"',
        "port 1",
        # Not as it was written.
        f"sentinel config-epoch {NAME} many",
        f"sentinel failover-timeout {NAME} 1 2",
        "sentinel current-epoch x",
        f"sentinel monitor {NAME} {HOST.format(2)} 6379 2 3",
        "sentinel",
        "\x00\x01",
    ],
)
def test_what_is_not_is_dropped(pod: SentinelPod, line: str) -> None:
    pod.kept.write_text("\n".join([*GOOD, line]) + "\n")
    written = pod.written()
    assert line not in written
    assert [good for good in GOOD if good not in written] == []


def test_of_two_lines_for_one_name_the_first_counts(pod: SentinelPod) -> None:
    pod.kept.write_text("\n".join([*GOOD, GOOD[0].replace("s0-0", "s0-2")]) + "\n")
    assert [line for line in pod.written() if " monitor " in line] == [GOOD[0]]


@pytest.mark.parametrize("password", ["", "two\nlines"])
def test_without_a_password_it_does_not_start(pod: SentinelPod, password: str) -> None:
    (pod.folder / "secrets" / "operator").write_text(password)
    with pytest.raises(subprocess.CalledProcessError):
        pod.written()
    assert not pod.kept.exists()


@pytest.mark.parametrize("line", LINES)
def test_a_sentinel_keeps_its_id_and_its_epochs(tmp_path: Path, line: str) -> None:
    pod = SentinelPod(tmp_path / "pod", line)
    pod.kept.write_text("\n".join(GOOD) + "\n")
    try:
        # None of those names resolves here, as when all Pods start at once.
        for _ in range(2):
            pod.start()
            assert pod.ask("SENTINEL", "MYID") == sentinel_id(pod.pod, "data")
            told = pod.ask("SENTINEL", "MASTER", NAME)
            assert isinstance(told, list)
            monitored = dict(zip(told[::2], told[1::2], strict=True))
            assert (monitored["config-epoch"], monitored["quorum"]) == ("7", "2")
            assert monitored["num-slaves"] == "1"
            assert monitored["num-other-sentinels"] == "1"
            pod.stop()
            assert "sentinel current-epoch 8" in pod.kept.read_text()
    finally:
        pod.stop()


@pytest.mark.parametrize("line", LINES)
def test_clients_may_ask_and_nothing_else(tmp_path: Path, line: str) -> None:
    pod = SentinelPod(tmp_path / "pod", line)
    try:
        assert pod.probe() == 1
        pod.start()
        assert pod.probe() == 0
        # A primary whose name resolves here, under a name of its own.
        assert pod.ask("SENTINEL", "MONITOR", "other", "127.0.0.1", 1, 1) == "OK"
        as_client = {"user": None, "password": CLIENTS}
        assert pod.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "other", **as_client) == ["127.0.0.1", "1"]  # type: ignore[arg-type]
        assert pod.ask("SENTINEL", "REPLICAS", "other", **as_client) == []  # type: ignore[arg-type]
        with pod.client(None, CLIENTS) as client, client.pubsub() as heard:
            heard.subscribe("+switch-master")
            assert heard.get_message(timeout=5)
        for forbidden in (
            ("SENTINEL", "REMOVE", "other"),
            ("SENTINEL", "FAILOVER", "other"),
            ("SENTINEL", "CONFIG", "GET", "*"),
            ("ACL", "LIST"),
            ("SHUTDOWN",),
        ):
            with pytest.raises(valkey.exceptions.NoPermissionError):
                pod.ask(*forbidden, **as_client)  # type: ignore[arg-type]
        for user, password in ((None, OPERATORS), (OPERATOR, CLIENTS), (SENTINEL, CLIENTS), (OPERATOR, "")):
            with pytest.raises((valkey.exceptions.AuthenticationError, valkey.exceptions.ResponseError)):
                pod.ask("PING", user=user, password=password)
    finally:
        pod.stop()


@pytest.mark.parametrize("line", LINES)
def test_three_of_them_elect_another_primary_with_just_these_rights(tmp_path: Path, line: str) -> None:
    """Addresses in the place of names, which nobody could resolve here; passwords, users and rights are real."""
    addresses = [f"127.{os.getpid() % 250 + 1}.{number}.9" for number in range(1, 6)]
    servers = [_data_server(tmp_path / f"server-{n}", line, addresses[n], addresses[0] if n else "") for n in range(2)]
    pods = [SentinelPod(tmp_path / f"pod-{n}", line, n, addresses[2 + n], addresses[2 + n]) for n in range(3)]
    try:
        until(lambda: _role(addresses[1]) == "slave", (tmp_path / "server-1" / "log").read_text)
        for pod in pods:
            users = pod.folder / "config" / "sentinel-users.conf"
            users.write_text(f"{users.read_text()}user reader on nopass +acl|log\n")
            pod.start()
            pod.ask("SENTINEL", "MONITOR", NAME, addresses[0], PORT, 2)
            for setting in ("down-after-milliseconds", "failover-timeout"):
                pod.ask("SENTINEL", "SET", NAME, setting, 1500)
            pod.ask("SENTINEL", "SET", NAME, "auth-user", SENTINEL, "auth-pass", OPERATORS)
        until(lambda: all(_quorum(pod) for pod in pods), lambda: [(pod.folder / "log").read_text() for pod in pods])
        servers[0].kill()
        until(lambda: _role(addresses[1]) == "master", lambda: [(pod.folder / "log").read_text() for pod in pods])
        named = [addresses[1], str(PORT)]
        ask = ("SENTINEL", "GET-PRIMARY-ADDR-BY-NAME", NAME)
        until(lambda: all(pod.ask(*ask, user=None, password=CLIENTS) == named for pod in pods))
        # Whatever one tried and may not would stand here.
        assert [pod.ask("ACL", "LOG", user="reader", password=ALL) for pod in pods] == [[], [], []]
        with _as_default(addresses[1]) as client:
            assert client.execute_command("ACL", "LOG") == []
    finally:
        for pod in pods:
            pod.stop()
        for process in servers:
            process.kill()
            process.wait(timeout=DEADLINE_S)


PORT = 7391


def _data_server(folder: Path, line: str, address: str, primary: str) -> subprocess.Popen[bytes]:
    folder.mkdir()
    hashed = hashlib.sha256(OPERATORS.encode()).hexdigest()
    (folder / "users").write_text(
        f"user default on >{ALL} ~* &* +@all\nuser {SENTINEL} on #{hashed} {' '.join(SENTINELS_AT_SERVERS)}\n"
    )
    settings = {
        "port": PORT,
        "bind": address,
        "bind-source-addr": address,
        "dir": folder,
        "aclfile": folder / "users",
        "primaryauth": ALL,
        "replica-announce-ip": address,
        "repl-diskless-sync-delay": 0,
        "logfile": folder / "log",
        "save": '""',
        **({"replicaof": f"{primary} {PORT}"} if primary else {}),
    }
    (folder / "conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return subprocess.Popen([str(server(line)), str(folder / "conf")], stdout=subprocess.DEVNULL)


def _as_default(address: str) -> valkey.Valkey:
    return valkey.Valkey(
        host=address,
        port=PORT,
        password=ALL,
        decode_responses=True,
        socket_timeout=5,
        lib_name=None,
        lib_version=None,
    )


def _role(address: str) -> str:
    try:
        with _as_default(address) as client:
            told: list[str] = client.execute_command("ROLE")  # type: ignore[assignment]
            return str(told[0]) if len(told) < 4 or told[3] == "connected" else "joining"
    except valkey.ValkeyError:
        return ""


def _quorum(pod: SentinelPod) -> bool:
    try:
        return str(pod.ask("SENTINEL", "CKQUORUM", NAME)).startswith("OK 3")
    except valkey.ValkeyError:
        return False


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
