"""Machines seen from outside: whose process 1 it is; and the supervisor that keeps services running."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from local.cluster.cgroups import CgroupTree, mounted
from local.cluster.init.supervise import write
from local.cluster.machine import Machine, Service

CHECKOUT = Path(__file__).resolve().parents[3]
SUPERVISOR = """
import sys
from pathlib import Path
from local.cluster.init import supervise
supervise.hold_signals()
supervise.Supervisor(Path(sys.argv[1])).run()
"""


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("node1", tmp_path, CgroupTree("valkey-local-test-unused"))


def test_a_process_is_known_by_id_start_and_boot(machine: Machine) -> None:
    pid = os.getpid()
    write(machine.folder / "pid", json.dumps({"pid": pid, "started": _started(pid), "boot": _boot()}))
    assert machine.pid() == pid


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}, {"pid": 4_000_000}])
def test_another_process_under_the_same_id_is_none_of_ours(machine: Machine, change: dict[str, object]) -> None:
    pid = os.getpid()
    content = {"pid": pid, "started": _started(pid), "boot": _boot()} | change
    (machine.folder / "pid").write_text(json.dumps(content))
    assert machine.pid() is None


@pytest.mark.parametrize("text", ["", "half a li", "{}", "[]"])
def test_a_damaged_file_names_no_process(machine: Machine, text: str) -> None:
    (machine.folder / "pid").write_text(text)
    assert machine.pid() is None


def test_a_process_that_has_ended_is_none(machine: Machine) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        pid = process.pid
        (machine.folder / "pid").write_text(json.dumps({"pid": pid, "started": _started(pid), "boot": _boot()}))
        assert machine.pid() == pid
        process.kill()
        # Not waited for yet: a zombie.
        _eventually(lambda: machine.pid() is None)


def test_control_groups_are_found_in_every_hierarchy() -> None:
    mountinfo = (
        "30 24 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
        "31 24 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
        "32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "33 24 0:29 / /somewhere/else rw - cgroup cgroup rw,memory\n"
        "34 24 0:30 / /sys rw - sysfs sysfs rw\n"
    )
    assert [path.name for path in mounted(mountinfo)] == ["cpu", "systemd", "unified"]


# ---- the supervisor, with real processes


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    (tmp_path / "log").mkdir()
    started: list[subprocess.Popen[bytes]] = []

    def start(*services: Service) -> subprocess.Popen[bytes]:
        tell(tmp_path, *services)
        process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(tmp_path)], cwd=CHECKOUT)
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.wait(timeout=20)


def tell(folder: Path, *services: Service) -> None:
    write(folder / "services.json", json.dumps([asdict(service) for service in services]))


def _shell(name: str, script: str, needs: tuple[str, ...] = (), *, enabled: bool = True) -> Service:
    return Service(name, ("/bin/sh", "-c", script), needs, {"PATH": "/usr/bin:/bin"}, 1.0, enabled)


def _status(folder: Path, name: str) -> dict[str, int | None] | None:
    try:
        return json.loads((folder / "status.json").read_text())["services"].get(name)
    except FileNotFoundError:
        return None


def _pid(folder: Path, name: str) -> int:
    return (_status(folder, name) or {}).get("pid") or 0


def _eventually(true: Callable[[], object], timeout_s: float = 15.0) -> None:
    until = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until, "not within the time"
        time.sleep(0.02)


def test_a_service_that_ends_is_started_again(
    tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]]
) -> None:
    supervise(_shell("a", "echo began; exec sleep 60"))
    _eventually(lambda: _pid(tmp_path, "a"))
    first = _pid(tmp_path, "a")
    os.kill(first, signal.SIGKILL)
    _eventually(lambda: _pid(tmp_path, "a") not in (0, first))
    assert (_status(tmp_path, "a") or {})["restarts"] == 1
    assert (_status(tmp_path, "a") or {})["last_exit"] == -signal.SIGKILL
    _eventually(lambda: (tmp_path / "log" / "a.log").read_text() == "began\nbegan\n")


def test_a_service_waits_for_what_it_needs(tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]]) -> None:
    place = tmp_path / "socket"
    server = f"import socket,time; s=socket.socket(1); s.bind('{place}'); s.listen(); time.sleep(60)"
    waits = _shell("late", "exec sleep 60", (f"unix:{place}",))
    supervise(waits, _shell("early", f'sleep 0.5; exec {sys.executable} -S -c "{server}"'))
    _eventually(lambda: _pid(tmp_path, "early"))
    assert _pid(tmp_path, "late") == 0
    _eventually(lambda: _pid(tmp_path, "late"))
    assert place.exists()


def test_only_what_differs_is_ended_or_started(
    tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]]
) -> None:
    stays, goes = _shell("stays", "exec sleep 60"), _shell("goes", "exec sleep 60")
    process = supervise(stays, goes)
    _eventually(lambda: _pid(tmp_path, "stays") and _pid(tmp_path, "goes"))
    kept, ended = _pid(tmp_path, "stays"), _pid(tmp_path, "goes")
    tell(tmp_path, stays, _shell("goes", "exec sleep 60", enabled=False), _shell("comes", "exec sleep 61"))
    process.send_signal(signal.SIGHUP)
    _eventually(lambda: _pid(tmp_path, "comes"))
    _eventually(lambda: not Path(f"/proc/{ended}").exists())
    assert _pid(tmp_path, "stays") == kept
    assert _status(tmp_path, "goes") is None


def test_a_service_that_will_not_end_is_killed(
    tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = supervise(_shell("stubborn", "trap '' TERM; while :; do sleep 0.1; done"))
    _eventually(lambda: _pid(tmp_path, "stubborn"))
    pid = _pid(tmp_path, "stubborn")
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_that_is_not_there_is_told(tmp_path: Path, supervise: Callable[..., subprocess.Popen[bytes]]) -> None:
    supervise(Service("absent", ("/no/such/program",)))
    _eventually(lambda: (_status(tmp_path, "absent") or {}).get("last_exit"))
    assert _pid(tmp_path, "absent") == 0
