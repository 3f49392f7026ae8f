"""The control groups of a cluster's machines, on hosts of version 1 (one hierarchy a controller) and 2 (one for all).

    <cluster>/<machine>/system      what process 1 of the machine runs
    <cluster>/<machine>/kubepods    the kubelet's, with a group for each Pod

Whoever is in one of them was started by the cluster: that is how every process of it is found, and none but its own.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import LocalError

ROOT = Path("/sys/fs/cgroup")
_CPU_SHARE = 10
"""How many ordinary processes of the host the whole cluster counts for: others on all cores must not starve it."""
_SYSTEM_CPU_SHARE = 4
"""Of what a node itself runs; its Pods together count for as many as it has processors."""


@dataclass(frozen=True)
class CgroupTree:
    """All control groups under one name, in each hierarchy that the host has."""

    cluster: str

    @cached_property
    def unified(self) -> bool:
        """Whether the host has version 2 alone."""
        return (ROOT / "cgroup.controllers").exists()

    @cached_property
    def hierarchies(self) -> tuple[Path, ...]:
        if self.unified:
            return (ROOT,)
        return tuple(sorted(set(mounted(Path("/proc/self/mountinfo").read_text()))))

    def create(self, machine: str) -> tuple[Path, ...]:
        """Make a machine's groups. Returns the files by which a process joins `system`. Idempotent."""
        if not self.hierarchies:
            raise LocalError(f"no control groups are mounted under {ROOT}; the nodes need them to run containers")
        for hierarchy in self.hierarchies:
            path = hierarchy
            for part in (self.cluster, machine, "system"):
                if self.unified:
                    _pass_controllers_on(path)
                path = path / part
                path.mkdir(exist_ok=True)
                _inherit_cpuset(path)
            _weigh(hierarchy / self.cluster, _CPU_SHARE)
            _weigh(path, _SYSTEM_CPU_SHARE)
        return tuple(hierarchy / self.cluster / machine / "system" / "cgroup.procs" for hierarchy in self.hierarchies)

    def processes(self, machine: str | None = None) -> set[int]:
        """The host's ids of all processes in the cluster's groups, or in those of one machine."""
        found: set[int] = set()
        for top in self._tops(machine):
            for folder in _depth_first(top):
                with contextlib.suppress(OSError):
                    found |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        return found

    def kill(self, machine: str | None = None, *, deadline_s: float = 90.0) -> None:
        """End every process in the groups, at once. Raises LocalError if one is still there at the deadline."""
        self.thaw(machine)
        until = time.monotonic() + deadline_s
        while left := self.processes(machine):
            if time.monotonic() > until:
                raise LocalError(f"processes {sorted(left)} don't end although killed; see `ps -o pid,stat,wchan,args`")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def freeze(self, machine: str) -> None:
        """Let no process of the machine run on, until it is thawed or killed."""
        for top in self._tops(machine):
            if self.unified:
                (top / "cgroup.freeze").write_text("1")
            elif (top / "freezer.state").exists():
                (top / "freezer.state").write_text("FROZEN")

    def thaw(self, machine: str | None = None) -> None:
        """Let frozen processes run on. Idempotent."""
        for top in self._tops(machine):
            for folder in _depth_first(top):
                for name, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                    with contextlib.suppress(OSError):
                        if (folder / name).exists():
                            (folder / name).write_text(text)

    def remove(self, machine: str | None = None, *, deadline_s: float = 30.0) -> None:
        """Remove the groups; their processes have ended. Idempotent."""
        until = time.monotonic() + deadline_s
        for top in self._tops(machine):
            for folder in _depth_first(top):
                while folder.exists():
                    try:
                        folder.rmdir()
                    except OSError as error:  # A process that has just ended may still be counted.
                        if time.monotonic() > until:
                            raise LocalError(
                                f"the control group {folder} can't be removed: {error.strerror}"
                            ) from error
                        time.sleep(0.02)

    def prune(self) -> None:
        """Remove the cluster's own group where no machine is left in it."""
        for top in self._tops(None):
            with contextlib.suppress(OSError):
                top.rmdir()

    def exists(self) -> bool:
        return any(True for _ in self._tops(None))

    def _tops(self, machine: str | None) -> Iterator[Path]:
        for hierarchy in self.hierarchies:
            top = hierarchy / self.cluster / (machine or "")
            if top.is_dir():
                yield top


def _weigh(group: Path, share: int) -> None:
    """Let a group count for as many processes, where this hierarchy has to do with processors."""
    for name, weight in (("cpu.shares", 1024 * share), ("cpu.weight", 100 * share)):
        if (group / name).exists():
            (group / name).write_text(str(weight))


def mounted(mountinfo: str) -> Iterator[Path]:
    """Mount points of hierarchies under the usual root: those of version 1, and one of version 2 beside them, if any.

    That one has no controllers then, but runc makes groups in it as well.
    """
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] in ("cgroup", "cgroup2") and before.split()[4].startswith(f"{ROOT}/"):
            yield Path(before.split()[4])


def _depth_first(top: Path) -> Iterator[Path]:
    """The folder and all below it, children before parents."""
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)


def _inherit_cpuset(group: Path) -> None:
    """A new group of version 1 has no processors and no memory nodes, and takes no process until it has."""
    if (group / "cgroup.controllers").exists():
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.exists() and not file.read_text().strip():
            file.write_text((group.parent / name).read_text())


def _pass_controllers_on(group: Path) -> None:
    """Let the children of a group of version 2 have all controllers that it has itself."""
    control = group / "cgroup.subtree_control"
    wanted = set((group / "cgroup.controllers").read_text().split()) - set(control.read_text().split())
    for controller in sorted(wanted & {"cpu", "cpuset", "io", "memory", "pids", "hugetlb"}):
        try:
            control.write_text(f"+{controller}")
        except OSError as error:
            raise LocalError(
                f"the controller {controller} can't be given to the children of {group}: {error.strerror}. "
                "In a container, its processes must be in a group below the root first."
            ) from error
