"""Namespaces, mounts and kernel settings of a machine. Nothing of it is seen outside; it all ends with the machine."""

import ctypes
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_ALL_NAMESPACES = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET

_MS_RDONLY = 1
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_NOEXEC = 8
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_MOVE = 8192
_MS_REC = 16384
_MS_SLAVE = 1 << 19
_MS_SHARED = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def leave_host_namespaces() -> None:
    """Give this process namespaces of its own; its next child is process 1 of a new process namespace."""
    if _libc.unshare(_ALL_NAMESPACES):
        number = ctypes.get_errno()
        raise OSError(number, f"namespaces can't be made: {os.strerror(number)}")


def furnish(machine: Mapping[str, Any]) -> None:
    """Make this process's namespaces what `machine` says (see machine.Spec). Raises OSError with what failed."""
    kept = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in machine["keep"]]
    # Mounts of the host still arrive, and, as important, go away again; none of ours leaves.
    _mount(None, "/", flags=_MS_REC | _MS_SLAVE)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    _own_sysfs()
    for target, source in machine["covers"].items():
        Path(source).mkdir(parents=True, exist_ok=True)
        _bind(source, target)
    for path, handle in kept:
        _keep(path, handle)
        os.close(handle)
    for path in machine["folders"]:
        Path(path).mkdir(parents=True, exist_ok=True)
    for target, source in machine["read_only"].items():
        Path(target).mkdir(parents=True, exist_ok=True)
        _bind(source, target)
        _mount(None, target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)
    _seem(machine["seeming"])
    for path, value in machine["sysctls"].items():
        if Path(path).exists():  # A kernel without IPv6, say, lacks some.
            Path(path).write_text(value)
    _mount(None, "/", flags=_MS_REC | _MS_SHARED)  # So that a container may ask for mounts that come later.
    socket.sethostname(machine["hostname"])
    os.chdir("/")


def _own_sysfs() -> None:
    """A sysfs shows the network devices of the namespace that mounted it; the host's control groups go back in."""
    Path("/run/.cgroup").mkdir()
    _bind("/sys/fs/cgroup", "/run/.cgroup", _MS_REC)
    _mount("sysfs", "/sys", "sysfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount("/run/.cgroup", "/sys/fs/cgroup", flags=_MS_MOVE)


def _keep(path: str, handle: int) -> None:
    """Bring a folder back to its place where one of our mounts has hidden it."""
    place = Path(path)
    if place.exists() and os.path.samestat(place.stat(), os.fstat(handle)):
        return
    place.mkdir(parents=True, exist_ok=True)
    _bind(f"/proc/self/fd/{handle}", path)


def _seem(values: Mapping[str, str]) -> None:
    """Let kernel settings that the kubelet insists on seem to be set. They are the whole host's, and stay untouched."""
    stand_ins = Path("/run/.seeming")
    stand_ins.mkdir()
    for number, (path, value) in enumerate(values.items()):
        if Path(path).exists():
            stand_in = stand_ins / str(number)
            stand_in.write_text(f"{value}\n")
            _bind(str(stand_in), path)


def _bind(source: str, target: str, flags: int = 0) -> None:
    _mount(source, target, flags=_MS_BIND | flags)


def _mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]):
        number = ctypes.get_errno()
        raise OSError(number, f"{source or kind or 'nothing new'} can't be mounted on {target}: {os.strerror(number)}")
