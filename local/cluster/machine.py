"""Machines from outside: starting one, ending it, asking what runs in it. See init/ for the inside."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import LocalError
from .cgroups import CgroupTree

_INIT = Path(__file__).parent / "init" / "__main__.py"
_START_TIMEOUT_S = 60.0
_SPEC, _SERVICES, _STATUS = "machine.json", "services.json", "status.json"


@dataclass(frozen=True)
class Service:
    """One program that runs in a machine, and starts again when it ends."""

    name: str
    argv: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """What must answer before it is started: `unix:PATH` or `tcp:HOST:PORT`."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    stop_timeout_s: float = 5.0
    enabled: bool = True
    nice: int = 0
    """How far it stands back where the processors don't suffice for all, 0 to 19."""


@dataclass(frozen=True)
class Spec:
    """What a machine is, apart from its services. All paths are those of the host."""

    hostname: str
    covers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Folder of the host that the machine must not see or touch → the machine's own in its place."""
    keep: tuple[str, ...] = ()
    """Folders that stay where they are, though a cover would hide them."""
    folders: tuple[str, ...] = ()
    """Made at each start, in the machine's own memory under /run."""
    read_only: Mapping[str, str] = field(default_factory=dict[str, str])
    """Folder → what is seen there, read-only."""
    seeming: Mapping[str, str] = field(default_factory=dict[str, str])
    """Setting of the host's kernel under /proc/sys → value that the machine believes it has."""
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of the machine's own network."""


@dataclass(frozen=True)
class Machine:
    """A machine that may or may not run now."""

    name: str
    folder: Path
    cgroups: CgroupTree

    def pid(self) -> int | None:
        """The host's id of its process 1, or None when it doesn't run. Never the id of some other process."""
        try:
            written = json.loads((self.folder / "pid").read_text())
            pid = int(written["pid"])
            if written["boot"] != _boot_id() or written["started"] != _started(pid):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid

    def running(self) -> int:
        """As pid(), for what can't be done without. Raises LocalError when the machine doesn't run."""
        pid = self.pid()
        if pid is None:
            raise LocalError(f"{self.name} doesn't run; `python -m local up` starts what is missing")
        return pid

    def start(self, spec: Spec, services: Sequence[Service]) -> None:
        """Start it. What is left of an earlier one is ended first; its folders stay as they are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(_SPEC, asdict(spec))
        self._write(_SERVICES, [asdict(service) for service in services])
        self.start_again()

    def start_again(self) -> None:
        """Start it as it last was, with all its services enabled. Raises LocalError."""
        spec, services = self._read(_SPEC), self._read(_SERVICES)
        if spec is None or services is None:
            raise LocalError(f"{self.name} was never made; `python -m local up` makes it")
        self.cgroups.kill(self.name)
        self.cgroups.remove(self.name)
        (self.folder / "log").mkdir(exist_ok=True)
        (self.folder / _STATUS).unlink(missing_ok=True)
        self._write(_SPEC, {**spec, "cgroup_procs": [str(path) for path in self.cgroups.create(self.name)]})
        self._write(_SERVICES, [{**service, "enabled": True} for service in services])
        try:
            started = subprocess.run(
                [sys.executable, "-I", "-S", str(_INIT), str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=_START_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalError(f"{self.name} didn't start within {_START_TIMEOUT_S:.0f} s") from error
        if started.returncode:
            raise LocalError(f"{self.name} can't be started: {started.stderr.strip()}")

    def enabled(self) -> dict[str, bool]:
        """Its services by name, and whether each is to run."""
        return {str(service["name"]): bool(service["enabled"]) for service in self._read(_SERVICES) or []}

    def enable(self, service: str, *, on: bool, timeout_s: float = 15.0) -> None:
        """Let one service run, or not. Returns when it has been started, or has ended. Idempotent."""
        pid = self.running()
        services = self._read(_SERVICES) or []
        self._write(
            _SERVICES, [{**each, "enabled": on if each["name"] == service else each["enabled"]} for each in services]
        )
        os.kill(pid, signal.SIGHUP)
        until = time.monotonic() + timeout_s
        while True:
            status = self.status()
            if (service in status.get("services", {})) == on and service not in status.get("leaving", ()):
                return
            if time.monotonic() > until:
                raise LocalError(f"{service} of {self.name} didn't {'start' if on else 'end'} within {timeout_s:.0f} s")
            time.sleep(0.02)

    def status(self) -> dict[str, Any]:
        """What its process 1 last said: {services: {name: {pid, restarts, last_exit}}, leaving: [name]}."""
        return self._read(_STATUS) or {}

    def kill(self) -> None:
        """End it and all that runs in it, at once. Idempotent."""
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)  # The kernel ends every other process of its namespace with it.
        self.cgroups.kill(self.name)
        self.cgroups.remove(self.name)
        self.cgroups.prune()
        (self.folder / "pid").unlink(missing_ok=True)

    def shut_down(self, *, timeout_s: float = 8.0) -> None:
        """Ask its services to end, then end it. Idempotent."""
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + timeout_s
            while self.pid() is not None and time.monotonic() < until:
                time.sleep(0.02)
        self.kill()

    def path(self, path: str) -> Path:
        """The host's way to a path as the machine sees it, while it runs."""
        return Path(f"/proc/{self.running()}/root") / path.lstrip("/")

    def in_network(self, argv: Sequence[str], *, text: str | None = None, check: bool = True) -> str:
        """Run a program of the host in the machine's network; its output. Raises LocalError with what it said."""
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self.running()}/ns/net", "--", *argv],
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            raise LocalError(f"`{' '.join(argv)}` in the network of {self.name} failed: {done.stderr.strip()}")
        return done.stdout

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def _read(self, name: str) -> Any:
        """What a file of its folder says, None where there is none or none that can be read."""
        try:
            return json.loads((self.folder / name).read_text())
        except (OSError, ValueError):
            return None

    def _write(self, name: str, content: Any) -> None:
        new = self.folder / f".{name}.new"
        new.write_text(json.dumps(content, indent=1))
        new.replace(self.folder / name)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> int:
    """When a process began, in clock ticks after boot. A zombie has ended already."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if after_name[0] in "ZX":
        raise ProcessLookupError(pid)
    return int(after_name[19])
