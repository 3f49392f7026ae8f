"""Keeps the services of a machine running, bounds their logs, and reaps what they leave behind."""

import errno
import json
import os
import signal
import socket
import time
from pathlib import Path
from types import FrameType
from typing import Any

_HANDLED = (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM)
_FIRST_BACKOFF_S = 0.2
_LONGEST_BACKOFF_S = 10.0
_STEADY_AFTER_S = 30.0
"""A service that ran for so long may be started at once again."""
_TURN_S = 0.05
_SLOW_TURN_S = 0.5
_LOG_LIMIT_BYTES = 8 << 20
_LOG_KEPT_BYTES = 1 << 20
_LOG_CHECK_S = 15.0


def hold_signals() -> None:
    """Signals wait until the supervisor asks for them."""
    for number in _HANDLED:
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler, since process 1 isn't sent what it doesn't handle."""


def write(path: Path, text: str) -> None:
    """Whole or not at all, whenever we are killed."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


class _Running:
    """One program that is to run, and the process that it is now, if it is."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.wanted = wanted
        self.name: str = wanted["name"]
        self.pid: int | None = None
        self.since = 0.0
        self.restarts = 0
        self.last_exit: int | None = None
        self.kill_at: float | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._not_before = 0.0
        self._waits_since = time.monotonic()

    def may_start(self, now: float) -> bool:
        return self.pid is None and now >= self._not_before and all(_there(need) for need in self.wanted["needs"])

    def is_urgent(self, now: float) -> bool:
        """Whether it is worth looking often if it can be started: at a machine's start it is, in a long outage not."""
        return self.pid is None and now - self._waits_since < _STEADY_AFTER_S

    def start(self, log: Path, now: float) -> None:
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        argv: list[str] = self.wanted["argv"]
        self.since = now
        try:
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                self.wanted["environment"],
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=_HANDLED,
            )
        except OSError as error:
            print(f"{self.name} can't be started: {error}", flush=True)
            self.ended(error.errno or errno.EIO, now)
        else:
            os.setpriority(os.PRIO_PROCESS, self.pid, self.wanted["nice"])

    def ended(self, code: int, now: float) -> None:
        if now - self.since > _STEADY_AFTER_S:
            self._backoff_s = _FIRST_BACKOFF_S
            self._waits_since = now
        self.pid, self.kill_at, self.last_exit = None, None, code
        self.restarts += 1
        self._not_before = now + self._backoff_s
        self._backoff_s = min(self._backoff_s * 2, _LONGEST_BACKOFF_S)

    def stop(self, now: float) -> None:
        if self.pid is not None and self.kill_at is None:
            self.kill_at = now + self.wanted["stop_timeout_s"]
            os.kill(self.pid, signal.SIGTERM)

    def kill_if_late(self, now: float) -> None:
        if self.pid is not None and self.kill_at is not None and now > self.kill_at:
            os.kill(self.pid, signal.SIGKILL)


class Supervisor:
    """Starts each service when what it needs is there, and again when it ends.

    SIGHUP: read services.json again; only what differs is ended or started. SIGTERM: end all services, then itself.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._services: dict[str, _Running] = {}
        self._leaving: dict[int, _Running] = {}
        """By process id: services that are wanted no more, or in another form, and are asked to end."""
        self._stopping = False
        self._logs_checked = 0.0
        self._load()

    def run(self) -> None:
        while True:
            self._turn()
            if self._stopping and not self._leaving:
                return
            self._hear(self._pause_s())

    def _load(self) -> None:
        entries: list[dict[str, Any]] = json.loads((self._folder / "services.json").read_text())
        wanted = {entry["name"]: entry for entry in entries if entry["enabled"] and not self._stopping}
        for name, running in list(self._services.items()):
            if wanted.get(name) != running.wanted:
                self._dismiss(running)
        for name, entry in wanted.items():
            if name not in self._services:
                self._services[name] = _Running(entry)
        self._tell()

    def _dismiss(self, running: _Running) -> None:
        del self._services[running.name]
        if running.pid is not None:
            running.stop(time.monotonic())
            self._leaving[running.pid] = running

    def _pause_s(self) -> float:
        """Seconds until something is to be done without being asked."""
        now = time.monotonic()
        if self._leaving or any(running.is_urgent(now) for running in self._services.values()):
            return _TURN_S
        return _SLOW_TURN_S if any(running.pid is None for running in self._services.values()) else _LOG_CHECK_S

    def _hear(self, timeout_s: float) -> None:
        heard = signal.sigtimedwait(_HANDLED, timeout_s)
        if heard is None:
            return
        if heard.si_signo == signal.SIGTERM:
            self._stopping = True
        if heard.si_signo in (signal.SIGTERM, signal.SIGHUP):
            self._load()

    def _turn(self) -> None:
        now = time.monotonic()
        self._reap(now)
        for running in self._leaving.values():
            running.kill_if_late(now)
        leaving = {running.name for running in self._leaving.values()}
        for name, running in self._services.items():
            if name not in leaving and running.may_start(now):
                running.start(self._folder / "log" / f"{name}.log", now)
                self._tell()
        if now - self._logs_checked > _LOG_CHECK_S:
            self._logs_checked = now
            self._bound_logs()

    def _reap(self, now: float) -> None:
        """Our own services, and whatever processes were left to us because their parents ended."""
        by_pid = {running.pid: running for running in self._services.values()}
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if self._leaving.pop(pid, None):
                changed = True
            if running := by_pid.get(pid):
                running.ended(os.waitstatus_to_exitcode(status), now)
                print(f"{running.name} ended with {running.last_exit}", flush=True)
                changed = True
        if changed:
            self._tell()

    def _tell(self) -> None:
        services = {
            name: {"pid": running.pid, "restarts": running.restarts, "last_exit": running.last_exit}
            for name, running in self._services.items()
        }
        leaving = [running.name for running in self._leaving.values()]
        write(self._folder / "status.json", json.dumps({"services": services, "leaving": leaving}))

    def _bound_logs(self) -> None:
        """The end of a log that grew too long goes to *.old; the file itself is emptied: its writer has it open."""
        for log in (self._folder / "log").glob("*.log"):
            if log.stat().st_size > _LOG_LIMIT_BYTES:
                with log.open("r+b") as file:
                    file.seek(-_LOG_KEPT_BYTES, os.SEEK_END)
                    log.with_suffix(".old").write_bytes(file.read())
                    file.truncate(0)


def _there(need: str) -> bool:
    """Whether something that a service waits for answers: `unix:PATH` or `tcp:HOST:PORT`."""
    kind, _, where = need.partition(":")
    try:
        if kind == "unix":
            with socket.socket(socket.AF_UNIX) as unix:
                unix.settimeout(0.2)
                unix.connect(where)
        else:
            host, _, port = where.rpartition(":")
            socket.create_connection((host, int(port)), 0.2).close()
    except OSError:
        return False
    return True
