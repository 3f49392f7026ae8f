"""Servers with a ConfigSync each, an API server in this process, and what a test does with them."""

from __future__ import annotations

import base64
import io
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import valkey

from components import ClusterArgs
from components.config_files import config_data
from tests.dataplane.servers import PORT, binary, new_address
from tests.unit.kube.fake_api import FakeApi
from valkeyctl.agent import render
from valkeyctl.agent.config_sync import ConfigSync
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.resp import connected
from valkeyctl.agent.rotation import Pace
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.settings_live import read_directives
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.access import connect

NAMESPACE, INSTANCE = "valkey", "sessions"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/sessions-auth"
PACE = Pace(old_s=2.0, move_s=20.0, give_up_s=60.0)
SOON_S = 30.0


def eventually(holds: Callable[[], object], why: Callable[[], object] = lambda: "") -> None:
    """Waits for what takes a moment; the machine may be busy."""
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)


@dataclass
class Place:
    """One Pod: its folder, its server, and the part of its agent."""

    line: str
    folder: Path
    member: Member
    addresses: dict[Member, str]
    extra: Sequence[str] = ()
    log: io.StringIO = field(default_factory=io.StringIO)
    stopping: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None
    thread: threading.Thread | None = None
    died: list[BaseException] = field(default_factory=list[BaseException])

    def __post_init__(self) -> None:
        self.addresses[self.member] = new_address()
        for name in ("config", "run", "data"):
            (self.folder / name).mkdir(parents=True)

    @property
    def address(self) -> str:
        return self.addresses[self.member]

    @property
    def environment(self) -> Environment:
        return Environment(
            pod=f"{INSTANCE}-{self.member}",
            namespace=NAMESPACE,
            instance=INSTANCE,
            address=self.address,
            host=f"{INSTANCE}-{self.member}.{INSTANCE}-headless.{NAMESPACE}.svc",
            member=self.member,
            client_port=PORT,
            config=self.folder / "config",
            secret=self.folder / "password",
            data=self.folder / "data",
            run=self.folder / "run",
        )

    def start(self) -> None:
        """Starts the server as the gate would: rendered, then run."""
        render.write(self.environment)
        config = self.folder / "run" / "valkey.conf"
        guarded = ["setpriv", "--pdeathsig", "KILL", str(binary(self.line)), str(config), *self.extra]
        self.process = subprocess.Popen(guarded, stdout=subprocess.DEVNULL)
        eventually(self.serves)

    def restart(self) -> None:
        """The container ends and starts again in the same Pod."""
        self.kill()
        self.start()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def serves(self) -> bool:
        try:
            kept = (self.folder / "run" / "password").read_bytes()
            connected(self.address, PORT, (kept,), 1.0).close()
        except OSError:
            return False
        return True

    def sync(self, fake: FakeApi, variables: Mapping[str, str]) -> None:
        """Starts the part of the agent."""
        others = {member: where for member, where in self.addresses.items() if member != self.member}
        stand_ins: Any = SimpleNamespace(
            server=SimpleNamespace(state=SimpleNamespace(serving=True)),
            peers=SimpleNamespace(addresses=lambda: others),
        )
        runtime = Runtime(
            environment=self.environment,
            log=Log(to=self.log),
            stopping=self.stopping,
            server=stand_ins.server,
            peers=stand_ins.peers,
            password=lambda: b"",
            beat=lambda _part: None,
        )
        part = ConfigSync(
            runtime,
            api=lambda: connect(fake.kubeconfig, None),
            variables={"PASSWORD_SECRET": "sessions-auth", **variables},
            pace=PACE,
            check_s=0.5,
        )

        def run() -> None:
            try:
                part.run()
            except BaseException as error:
                self.died.append(error)
                raise

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def client(self, password: bytes) -> valkey.Valkey:
        return valkey.Valkey(
            host=self.address,
            port=PORT,
            password=cast("str", password),
            decode_responses=True,
            socket_timeout=5,
            lib_name=None,
            lib_version=None,
        )

    def found(self, name: str) -> bytes:
        """What the server has of a setting."""
        kept = (self.folder / "run" / "password").read_bytes()
        with connected(self.address, PORT, (kept,), 5.0) as link:
            reply = link.ask(("CONFIG", "GET", name))[0]
        assert isinstance(reply, list)
        assert isinstance(reply[1], bytes)
        return reply[1]

    def told(self, name: str) -> str:
        """The same as text."""
        return self.found(name).decode()

    def written(self, name: str) -> str | None:
        """What the next start would read of a setting."""
        return read_directives((self.folder / "run" / "valkey.conf").read_text()).get(name)


class Scene:
    """A few Pods of one instance. A context manager."""

    def __init__(self, fake: FakeApi, folder: Path, line: str, members: int = 1) -> None:
        self.fake, self.line, self.password = fake, line, b"first"
        addresses: dict[Member, str] = {}
        self.places = [Place(line, folder / str(n), Member(0, n), addresses) for n in range(members)]
        self.variables: dict[str, str] = {}
        self.data: dict[str, str] = {}

    @property
    def place(self) -> Place:
        return self.places[0]

    def start(self, config: Mapping[str, str]) -> None:
        """Starts the servers with these settings, and the agents."""
        self.declare(config)
        self.keep(self.password)
        for place in self.places:
            for name, text in self.data.items():
                (place.folder / "config" / name).write_text(text)
            (place.folder / "password").write_bytes(self.password)
            own = {
                'dir "/data"': f'dir "{place.folder / "data"}"',
                'port "6379"': f'port "{PORT}"',
                "bind * -::*": f'bind "{place.address}"',
                # Replication alone, without having to form a cluster.
                'cluster-enabled "yes"': 'cluster-enabled "no"',
            }
            base = place.folder / "config" / "valkey.conf"
            text = base.read_text()
            for before, after in own.items():
                assert before in text
                text = text.replace(before, after)
            base.write_text(text)
            self.fake.put(
                f"/api/v1/namespaces/{NAMESPACE}/pods/{place.environment.pod}", {"kind": "Pod", "apiVersion": "v1"}
            )
            place.start()
            place.sync(self.fake, self.variables)

    def declare(self, config: Mapping[str, str], *, raw: Mapping[str, str] | None = None) -> None:
        """Writes the ConfigMap as the program would; `raw` lines are added to it unchecked."""
        self.data = config_data(ClusterArgs.model_validate({"version": self.line, "config": dict(config)}))
        for name, value in (raw or {}).items():
            self.data["live.conf"] += f'{name} "{value}"\n'
        self.fake.put(f"{MAPS}/sessions-config", {"metadata": {}, "data": self.data})

    def keep(self, password: bytes) -> None:
        """Writes the Secret."""
        self.password = password
        self.fake.put(SECRET, {"metadata": {}, "data": {"password": base64.b64encode(password).decode()}})

    def events(self) -> list[dict[str, Any]]:
        return [o for path, o in self.fake.objects.items() if "/events/" in path]

    @property
    def logs(self) -> str:
        return "\n".join(place.log.getvalue() for place in self.places)

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        for place in self.places:
            place.stopping.set()
            if place.thread:
                place.thread.join(10)
                assert not place.thread.is_alive(), "a part ends when it is asked to"
            if place.process:
                place.process.kill()
                place.process.wait()
        assert [place.died for place in self.places] == [[] for _ in self.places]
