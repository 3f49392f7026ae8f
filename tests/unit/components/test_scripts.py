"""The Pod's scripts and its agent with real servers of both version lines; with passwords of every kind."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import valkey

from components import ClusterArgs
from components.config_files import config_data, start_hash
from tests.unit.settings.server_table import WHEELS, server

CHECKOUT = Path(__file__).resolve().parents[3]
CLI = server("8.1").parent / "valkey-cli"
PASSWORDS = {
    "letters": "hunter2",
    "blanks": " a  b ",
    "quotes": "'single' \"double\" `tick`",
    "backslashes": r"\x41 \\ \n \0 C:\dir",
    "shell": "$HOME $(id) ${x} ; # & | < > * ~",
    "percent": "100%s %d %%",
    "unicode": "pässwörd-密码-🔑",
    "line break at the end": "hunter2\n",
    "several line breaks": "a\n\nb\n\n",
    "control characters": "a\tb\rc\x01d",
    "500 characters": "x" * 500,
}


class Pod:
    """A folder in place of a Pod's file system, and the environment that the Pod template gives."""

    def __init__(self, folder: Path, line: str, password: bytes) -> None:
        self.folder, self.line = folder, line
        for name in ("config", "run", "data"):
            (folder / name).mkdir()
        self.port = _free_port()
        files = config_data(ClusterArgs(version=line, replicas=0))
        own = {'dir "/data"': f'dir "{folder / "data"}"', 'port "6379"': f'port "{self.port}"'}
        for text, instead in own.items():
            assert text in files["valkey.conf"]
            files["valkey.conf"] = files["valkey.conf"].replace(text, instead)
        for name, text in files.items():
            (folder / "config" / name).write_text(text)
        self.secret = folder / "password"
        self.secret.write_bytes(password)
        # As the kubelet mounts it: readable, not writable.
        self.secret.chmod(0o440)
        self.process: subprocess.Popen[bytes] | None = None
        self.agent: subprocess.Popen[bytes] | None = None
        self.agent_port = _free_port()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "POD_NAME": "sessions-s0-0",
            "POD_NAMESPACE": "data",
            "INSTANCE": "sessions",
            "AGENT_PORT": str(self.agent_port),
            "POD_IP": "127.0.0.1",
            "POD_HOST": "sessions-s0-0.sessions-headless.data.svc",
            "VALKEY_CONFIG_DIR": str(self.folder / "config"),
            "VALKEY_DATA": str(self.folder / "data"),
            "VALKEY_SECRET": str(self.secret),
            "VALKEY_RUN": str(self.folder / "run"),
            "VALKEY_SERVER": str(server(self.line)),
            "VALKEY_CLI": str(CLI),
            "VALKEY_PORT": str(self.port),
        }

    def start(self) -> None:
        self.start_agent()
        with (self.folder / "log").open("ab") as log:
            script = str(self.folder / "config" / "start.sh")
            self.process = subprocess.Popen(["sh", script], env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def start_agent(self) -> None:
        if self.agent is None:
            with (self.folder / "agent.log").open("ab") as log:
                command = [sys.executable, "-m", "valkeyctl.agent"]
                self.agent = subprocess.Popen(command, cwd=CHECKOUT, env=self.environment, stdout=log, stderr=log)
            _eventually(self._agent_answers)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(10)

    def end(self) -> None:
        self.stop()
        if self.agent:
            self.agent.kill()
            self.agent.wait(10)

    def probe(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.agent_port, timeout=5)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode().strip()
        connection.close()
        return answer.status, text

    def _agent_answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.agent_port)) == 0

    def ready(self) -> bool:
        return self.probe("/ready")[0] == 200

    def sh(self, script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(self.folder / "config" / script), *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    def client(self, password: bytes | None = None) -> valkey.Valkey:
        secret = self.secret.read_bytes() if password is None else password
        return valkey.Valkey(port=self.port, password=secret, decode_responses=True)  # type: ignore[arg-type]


@pytest.fixture(params=sorted(WHEELS))
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pod(line: str, tmp_path: Path) -> Iterator[Pod]:
    made = Pod(tmp_path, line, b"hunter2")
    yield made
    made.end()


@pytest.mark.parametrize("kind", PASSWORDS)
def test_password(kind: str, line: str, tmp_path: Path) -> None:
    password = PASSWORDS[kind].encode()
    pod = Pod(tmp_path, line, password)
    try:
        pod.start()
        assert pod.client().ping()
        for wrong in (password + b"x", password[:-1], b""):
            with pytest.raises((valkey.AuthenticationError, valkey.ResponseError)):
                pod.client(wrong).ping()
        # Replicas sign in to their primary with the same bytes.
        assert pod.client().config_get("primaryauth") == {"primaryauth": password.decode()}
        assert pod.sh("probe.sh", "live").returncode == 0
        assert pod.sh("cli.sh", "ping").stdout == "PONG\n"
        assert pod.process is not None
        argv = Path(f"/proc/{pod.process.pid}/cmdline").read_bytes()
        environ = Path(f"/proc/{pod.process.pid}/environ").read_bytes()
        assert password not in argv
        assert password not in environ
        assert pod.agent is not None
        assert password not in Path(f"/proc/{pod.agent.pid}/environ").read_bytes()
    finally:
        pod.end()
    assert password not in (tmp_path / "log").read_bytes()
    assert password not in (tmp_path / "agent.log").read_bytes()


def test_files_with_the_password_are_for_the_server_alone(pod: Pod) -> None:
    pod.start()
    paths = list((pod.folder / "run").rglob("*"))
    assert {"password", "users.acl", "valkey.conf"} <= {path.name for path in paths}
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_announces_what_the_pod_is_called(pod: Pod) -> None:
    pod.start()
    told = pod.client().config_get("cluster-announce-*")
    assert told["cluster-announce-ip"] == "127.0.0.1"
    assert told["cluster-announce-hostname"] == "sessions-s0-0.sessions-headless.data.svc"
    assert told["cluster-announce-human-nodename"] == "sessions-s0-0"


def test_settings_are_in_effect(pod: Pod) -> None:
    pod.start()
    client = pod.client()
    told = client.config_get("*")
    assert told["cluster-enabled"] == "yes"
    assert told["cluster-allow-replica-migration"] == "no"
    assert told["repl-diskless-sync-delay"] == "0"
    assert told["repl-diskless-load"] == "on-empty-db"
    assert told["appendonly"] == "no"
    assert told["save"] == ""
    assert told["maxmemory"] == str(256 * 2**20 * 75 // 100)
    assert told["shutdown-on-sigterm"] == ("failover" if pod.line == "9.1" else "default")
    assert told["bind"] == "* -::*"


def test_a_restarted_container_finds_its_files(pod: Pod) -> None:
    pod.start()
    node = pod.client().execute_command("CLUSTER MYID")
    pod.stop()
    pod.start()
    # A container that restarts keeps the Pod's volumes; the node is the same one.
    assert pod.client().execute_command("CLUSTER MYID") == node


@pytest.mark.parametrize(("content", "why"), [(b"", "the password is empty"), (None, "a file is missing")])
def test_without_a_password_no_server_starts(pod: Pod, content: bytes | None, why: str) -> None:
    pod.secret.chmod(0o640)
    if content is None:
        pod.secret.unlink()
    else:
        pod.secret.write_bytes(content)
    pod.start_agent()
    done = pod.sh("start.sh")
    assert done.returncode == 1
    assert done.stderr == f"start.sh: {why}: {pod.secret}\n"


def test_live_before_it_is_ready(pod: Pod) -> None:
    assert pod.sh("probe.sh", "live").returncode == 1
    pod.start_agent()
    assert pod.probe("/started") == (503, "the server is down")
    pod.start()
    assert pod.sh("probe.sh", "live").returncode == 0
    _eventually(lambda: pod.probe("/started") == (200, "the server is serving"))
    assert pod.probe("/ready") == (503, "knows no cluster in which slots are served")
    pod.client().execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
    _eventually(pod.ready)
    assert pod.probe("/alive") == (200, "all parts go on")


def test_probes_keep_to_the_password_that_the_server_has(pod: Pod) -> None:
    pod.start()
    pod.client().execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
    # A Secret that somebody changes reaches the Pod's files, but no running server.
    pod.secret.chmod(0o640)
    pod.secret.write_bytes(b"another")
    _eventually(pod.ready)


def test_a_server_that_refuses_the_password_is_live_and_not_ready(pod: Pod) -> None:
    pod.start()
    pod.client().config_set("requirepass", "another")
    assert pod.sh("probe.sh", "live").returncode == 0
    assert pod.agent is not None
    pod.agent.kill()  # its connection is signed in already; that of another agent isn't
    pod.agent.wait()
    pod.agent = None
    pod.start_agent()
    _eventually(lambda: pod.probe("/started")[0] == 200)
    status, why = pod.probe("/ready")
    assert status == 503
    assert "WRONGPASS" in why


def test_a_loading_server_is_live_and_not_ready(pod: Pod) -> None:
    pod.start()
    client = pod.client()
    client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
    _eventually(pod.ready)
    client.mset({f"{{a}}{n}": "x" * 100 for n in range(2000)})
    client.save()
    pod.stop()
    # Loading is slowed down, and interrupted for clients often, so that it can be watched.
    config = pod.folder / "run" / "live.conf"
    slow = "key-load-delay 3000\nloading-process-events-interval-bytes 1024\n"
    config.write_text(f"{config.read_text()}{slow}")
    pod.start()
    assert pod.sh("probe.sh", "live").returncode == 0
    _eventually(lambda: pod.probe("/started") == (200, "the server is loading"))
    status, why = pod.probe("/ready")
    assert status == 503
    assert "loading" in why


def test_a_replica_is_ready_when_it_is_in_sync(line: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    primary, replica = Pod(tmp_path / "a", line, b"hunter2"), Pod(tmp_path / "b", line, b"hunter2")
    try:
        primary.start()
        replica.start()
        primary.client().execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        node = primary.client().execute_command("CLUSTER MYID")
        replica.client().execute_command("CLUSTER MEET", "127.0.0.1", primary.port)
        _eventually(lambda: node in str(replica.client().execute_command("CLUSTER NODES")))
        _eventually(lambda: _done(lambda: replica.client().execute_command("CLUSTER REPLICATE", node)))
        _eventually(replica.ready)
        primary.end()
        _eventually(lambda: not replica.ready())
        assert replica.sh("probe.sh", "live").returncode == 0
        assert replica.probe("/ready")[1] in {
            "is a replica without its primary",
            "is a replica that is not yet in sync",
        }
    finally:
        primary.end()
        replica.end()


@pytest.mark.parametrize("question", [[], ["ready"]])
def test_probe_says_how_it_is_used(pod: Pod, question: list[str]) -> None:
    pod.start()
    done = pod.sh("probe.sh", *question)
    assert (done.returncode, done.stdout) == (1, "usage: probe.sh live\n")


def test_cli_takes_commands_from_its_input(pod: Pod) -> None:
    pod.start()
    assert "cluster_state:fail" in pod.sh("cli.sh", stdin="cluster info\n").stdout


@pytest.mark.parametrize(
    ("change", "differs"),
    [({"config": {"tcp-backlog": "100"}}, True), ({"config": {"hz": "20"}}, False), ({"timeoutSeconds": 60}, False)],
)
def test_hash_changes_when_a_start_would_be_another(change: dict[str, object], differs: bool) -> None:  # noqa: FBT001
    plain, other = (start_hash(config_data(ClusterArgs.model_validate(args))) for args in ({}, change))
    assert (plain != other) == differs


def test_hash_leaves_out_what_is_read_on_each_run() -> None:
    data = config_data(ClusterArgs())
    assert start_hash(data) == start_hash(data | {"probe.sh": "exit 0", "cli.sh": ""})
    assert start_hash(data) != start_hash(data | {"start.sh": "exit 0"})


def _eventually(holds: Callable[[], bool], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "never came true"
        time.sleep(0.1)


def _done(command: Callable[[], object]) -> bool:
    try:
        command()
    except valkey.ResponseError:
        return False
    return True


def _free_port() -> int:
    """A port whose bus port (10,000 above) is free too."""
    for _ in range(100):
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1]) % 20000 + 20000
            try:
                bus.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
