"""Control groups for real: in all hierarchies of this host, and in its version 2 hierarchy alone where there is one."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.cluster import cgroups
from local.cluster.cgroups import CgroupTree
from tests.e2e.harness.kube import eventually

ROOTS = [root for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")) if root.is_dir()]


@pytest.fixture(params=ROOTS, ids=str)
def tree(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[CgroupTree]:
    monkeypatch.setattr(cgroups, "ROOT", request.param)
    made = CgroupTree(f"valkey-local-test-{os.getpid()}")
    yield made
    made.kill()
    made.remove()


def _join(procs: tuple[Path, ...]) -> "subprocess.Popen[bytes]":
    joins = " && ".join(f"echo 0 > {path}" for path in procs)
    return subprocess.Popen(["sh", "-c", f"{joins} && while :; do sleep 0.01; done"])


def test_a_machines_processes_are_found_and_ended(tree: CgroupTree) -> None:
    process = _join(tree.create("node1"))
    other = _join(tree.create("node2"))
    eventually("both are in their groups", lambda: {process.pid, other.pid} <= tree.processes(), timeout_s=10)
    assert process.pid in tree.processes("node1")
    assert other.pid not in tree.processes("node1")
    tree.kill("node1")
    assert process.wait(timeout=10) == -9
    assert other.poll() is None
    tree.remove("node1")
    assert tree.exists()
    tree.kill()
    assert other.wait(timeout=10) == -9
    tree.remove()
    assert not tree.exists()


def test_a_frozen_machine_stands_still_until_it_is_thawed_or_killed(tree: CgroupTree) -> None:
    process = _join(tree.create("node1"))
    eventually("it is in its group", lambda: process.pid in tree.processes("node1"), timeout_s=10)
    tree.freeze("node1")
    eventually("it stands still", lambda: _ticks(process.pid) == _ticks(process.pid, after_s=0.3), timeout_s=10)
    tree.thaw("node1")
    eventually("it runs on", lambda: _ticks(process.pid) < _ticks(process.pid, after_s=0.5), timeout_s=10)
    tree.freeze("node1")
    tree.kill("node1")
    assert process.wait(timeout=10) == -9


def test_making_and_removing_may_be_repeated(tree: CgroupTree) -> None:
    assert tree.create("node1") == tree.create("node1")
    tree.prune()
    assert tree.exists()
    tree.remove("node1")
    tree.remove("node1")
    tree.prune()
    assert not tree.exists()


def _ticks(pid: int, after_s: float = 0.0) -> int:
    """What its children, one after the other, have had of the processor; a process that starts many gets on."""
    subprocess.run(["sleep", str(after_s)], check=True)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[7:15])
