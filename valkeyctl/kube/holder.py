"""Who holds a Lease, told to people, and to other processes of that machine, which can see whether it still lives."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import subprocess
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Holder:
    """One process that holds, or wants, a Lease.

    `machine` is equal only for processes that see one another's pids: same boot, same pid namespace. `started` tells a
    process from a later one with the same pid. `purpose` says for a person what it does: "up of acme/valkey/prod".
    """

    user: str
    host: str
    pid: int
    purpose: str
    machine: str
    started: str
    token: str

    @property
    def identity(self) -> str:
        """What the Lease shows: who, where, what, and a unique end."""
        return f"{self.user}@{self.host} pid {self.pid}, {self.purpose} [{self.token}]"

    def as_json(self) -> str:
        """For the Lease's annotation."""
        return json.dumps(asdict(self), sort_keys=True)

    def is_gone(self) -> bool:
        """True only where it is certain that the process no longer runs: it ran here, and here it is not."""
        return self.machine == _machine() and bool(self.started) and started_at(self.pid) != self.started


def this_process(purpose: str) -> Holder:
    """This process as a holder, under a token of its own for each call."""
    pid = os.getpid()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    token = uuid.uuid4().hex[:12]
    return Holder(user, socket.gethostname(), pid, purpose, _machine(), started_at(pid), token)


def parse_holder(annotation: str | None) -> Holder | None:
    """The holder that an annotation describes; None where it doesn't."""
    if not annotation:
        return None
    with contextlib.suppress(ValueError, TypeError):
        return Holder(**json.loads(annotation))
    return None


def started_at(pid: int) -> str:
    """When a process began, as an opaque text; "" where it does not run."""
    try:
        # The command's name may hold spaces and parentheses: what follows the last one is plain. Field 22 of the whole.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    return "" if fields[0] in ("Z", "X") else fields[19]


def _started_by_ps(pid: int) -> str:
    done = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
    )
    return done.stdout.strip()


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return f"{socket.gethostname()}/{uuid.getnode():x}"
