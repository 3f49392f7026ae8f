"""Process 1 of a machine: makes the machine's namespaces, furnishes them, then keeps the machine's services running.

Run as a script (`python -I -S init/__main__.py FOLDER`), by the standard library alone, since it stays for as long as
the machine lives. It reads two files in FOLDER:

    machine.json    what the machine is: its cgroups, mounts, kernel settings; read once (furnish.py)
    services.json   what runs in it; read again at each SIGHUP (supervise.py)

and writes `pid` (the host's process id, start time and boot, by which nobody takes another process for it),
`status.json` and `log/`. The script returns when the machine is ready for its services, or says why it isn't and ends
with 1.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from local.cluster.init import furnish, supervise  # found by the line above alone

_GO = b"!"
_READY = b"ready"


def main(folder: Path) -> None:
    machine = json.loads((folder / "machine.json").read_text())
    for procs in machine["cgroup_procs"]:
        Path(procs).write_text("0")
    os.setsid()
    furnish.leave_host_namespaces()
    told_r, told_w = os.pipe()  # The child says how it went.
    go_r, go_w = os.pipe()  # The parent has written down whom to end; if it is killed before, the child ends by itself.
    child = os.fork()
    if child == 0:
        os.close(told_r)
        os.close(go_w)
        _be_process_one(folder, machine, go_r, told_w)
    os.close(told_w)
    os.close(go_r)
    supervise.write(folder / "pid", json.dumps({"pid": child, "started": _started(child), "boot": _boot_id()}))
    os.write(go_w, _GO)
    with os.fdopen(told_r, "rb") as told:
        said = told.read()
    if said != _READY:
        sys.exit(said.decode(errors="replace") or "process 1 of the machine ended at once")


def _be_process_one(folder: Path, machine: dict[str, Any], go_r: int, told_w: int) -> NoReturn:
    try:
        if os.read(go_r, 1) != _GO:
            os._exit(1)
        log = os.open(folder / "log" / "machine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        supervise.hold_signals()
        furnish.furnish(machine)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        supervisor = supervise.Supervisor(folder)
        os.write(told_w, _READY)
        os.close(told_w)
    except BaseException as error:  # noqa: BLE001  # Whatever it is, the one who waits must hear it.
        os.write(told_w, f"{error}".encode())
        os._exit(1)
    try:
        supervisor.run()
    except BaseException as error:  # noqa: BLE001  # The log is the only place left to tell it.
        print(f"process 1 ends: {error!r}", flush=True)
    os._exit(0)


def _started(pid: int) -> int:
    """When a process began, in clock ticks after boot: with its id, this names one process for ever."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except OSError as failure:
        sys.exit(str(failure))
