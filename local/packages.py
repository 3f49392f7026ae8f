"""What the local platform takes from the distribution: a container runtime and tools for networks and root filesystems.

A requirement is met by its programs, wherever they come from; only what is missing is installed, by the name that
Debian gives it. No service of the host is started or left enabled by that: the platform runs its own processes.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import PackagesMissingError
from .progress import Progress

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
_CNI_PLUGINS = ("host-local", "loopback", "portmap", "ptp")
_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_MARK = "# made by the local platform for the time of an installation"
_INSTALL_TIMEOUT_S = 900


@dataclass(frozen=True)
class Requirement:
    """A package by Debian's name, the programs by which its presence is known, and services that it would bring."""

    package: str
    programs: tuple[str, ...]
    services: tuple[str, ...] = ()


REQUIREMENTS = (
    Requirement("conntrack", ("conntrack",)),
    Requirement("containerd", ("containerd", "containerd-shim-runc-v2", "ctr"), services=("containerd",)),
    Requirement("containernetworking-plugins", ()),  # outside PATH: see cni_folder
    Requirement("ethtool", ("ethtool",)),
    Requirement("iproute2", ("ip",)),
    Requirement("ipset", ("ipset",)),
    Requirement("iptables", ("iptables", "iptables-save")),
    Requirement("kmod", ("modprobe",)),
    Requirement("mmdebstrap", ("mmdebstrap",)),
    Requirement("mount", ("mount",)),
    Requirement("procps", ("sysctl",)),
    Requirement("runc", ("runc",)),
    Requirement("socat", ("socat",)),
    Requirement("util-linux", ("nsenter", "unshare")),
)


def ensure(progress: Progress) -> None:
    """Install what is missing. Idempotent; milliseconds where nothing is.

    Raises PackagesMissingError, with the command to run by hand, where that takes rights or a package manager that this
    process hasn't.
    """
    _remove_leftover_policy()
    absent = missing()
    if not absent:
        return
    names = [requirement.package for requirement in absent]
    command = f"apt-get install --no-install-recommends {' '.join(names)}"
    if shutil.which("apt-get") is None:
        raise PackagesMissingError(f"these programs are missing, under Debian's names for them: {', '.join(names)}")
    if os.geteuid() != 0:
        raise PackagesMissingError(f"packages are missing and only root can install them; run: sudo {command}")
    with progress.step(f"Installing {len(names)} packages of the distribution: {', '.join(names)}"):
        _install(names)
    if still := missing():
        raise PackagesMissingError(
            f"{command} succeeded, but these are still not found: {', '.join(item.package for item in still)}"
        )


def missing(requirements: Iterable[Requirement] = REQUIREMENTS) -> list[Requirement]:
    """The requirements that this machine doesn't meet, in their order."""
    return [requirement for requirement in requirements if not _met(requirement)]


def cni_folder() -> Path | None:
    """The folder with the CNI plugins that the nodes need (`bin_dir` of containerd), or None where there is none."""
    for folder in _CNI_FOLDERS:
        if all(os.access(folder / plugin, os.X_OK) for plugin in _CNI_PLUGINS):
            return folder
    return None


def _met(requirement: Requirement) -> bool:
    if not requirement.programs:
        return cni_folder() is not None
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    return all(shutil.which(program, path=path) for program in requirement.programs)


def _install(names: list[str]) -> None:
    services = [service for item in REQUIREMENTS if item.package in names for service in item.services]
    arguments = ["install", "--yes", "--no-install-recommends", *names]
    with _services_stay_off():
        if _apt(arguments).returncode != 0:
            # A fresh machine has no package lists, an old one lists packages that are gone.
            updated = _apt(["update"])
            installed = _apt(arguments)
            if installed.returncode != 0:
                reason = installed.stdout if updated.returncode == 0 else updated.stdout + installed.stdout
                raise PackagesMissingError(f"apt-get {' '.join(arguments)} failed:\n{_tail(reason)}")
    if shutil.which("systemctl"):
        for service in services:
            subprocess.run(["systemctl", "disable", "--quiet", service], check=False, capture_output=True)


def _apt(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.run(
            ["apt-get", "-o", "DPkg::Lock::Timeout=120", *arguments],
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise PackagesMissingError(f"apt-get {' '.join(arguments)} took more than {_INSTALL_TIMEOUT_S} s") from error


@contextmanager
def _services_stay_off() -> Generator[None]:
    """Debian starts a service as soon as it is installed, unless this script says no (exit code 101)."""
    if _POLICY.exists():
        yield  # The machine has a policy of its own; it is not ours to change.
        return
    _POLICY.write_text(f"#!/bin/sh\n{_POLICY_MARK}\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def _remove_leftover_policy() -> None:
    """An installation that was killed may have left its policy behind, and with it no service would ever start."""
    if os.geteuid() == 0 and _POLICY.is_file() and _POLICY_MARK in _POLICY.read_text(errors="replace"):
        _POLICY.unlink(missing_ok=True)


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
