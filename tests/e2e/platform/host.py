"""What a host shows of local clusters, to be compared before and after."""

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)

_LINK = "vk-"


@dataclass(frozen=True)
class Host:
    """The host's own network, filters and settings, as far as a cluster could change them.

    Without the one link of each cluster: others may come and go beside the one that is looked at.
    """

    links: frozenset[str]
    routes: frozenset[str]
    firewall: str
    settings: tuple[tuple[str, str], ...]
    namespaces: frozenset[str]
    folders: frozenset[str]
    """In places where container runtimes and kubelets usually leave things."""


def look() -> Host:
    return Host(
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir() if not path.name.startswith(_LINK)),
        routes=frozenset(route for route in _lines("ip", "-4", "route", "show", "table", "all") if _LINK not in route),
        firewall="\n".join(line.partition("[")[0] for line in _lines("iptables-save") if not line.startswith("#")),
        settings=tuple((name, _setting(name)) for name in SETTINGS),
        namespaces=frozenset(_lines("ip", "netns", "list")),
        folders=frozenset(_usual_folders()),
    )


def link(device: str) -> list[str]:
    """A cluster's link: the routes that lead over it. Empty when there is no such link."""
    return [route for route in _lines("ip", "-4", "route", "show", "table", "all") if f"dev {device} " in f"{route} "]


def in_host_namespaces(pids: Iterable[int]) -> list[str]:
    """Those of the processes that share the host's network, mounts or processes."""
    return [
        f"{pid} {kind} {Path(f'/proc/{pid}/cmdline').read_text()}"
        for pid in pids
        for kind in ("net", "mnt", "pid")
        if _namespace(pid, kind) == Path(f"/proc/self/ns/{kind}").readlink()
    ]


def remains(state: Path, cluster_id: str) -> list[str]:
    """Everything on this machine that still belongs to the cluster with this state folder and identity."""
    found = [f"process {path.parent.name}" for path in Path("/proc").glob("[0-9]*/cmdline") if _names(path, state)]
    found += [f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(state) in line]
    found += [f"control group {path}" for path in _groups(cluster_id)]
    return found + [f"file {path}" for path in state.rglob("*")]


def processes_of(cluster_id: str) -> set[int]:
    """The host's ids of all processes of a cluster: those in its control groups."""
    found: set[int] = set()
    for group in _groups(cluster_id):
        for folder, _, _ in os.walk(group):
            with suppress(OSError):  # A Pod's group may be gone again.
                found |= {int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()}
    return found


def running(cluster_id: str, program: str) -> set[int]:
    """The ids of those of them that run a program of this name."""
    return {pid for pid in processes_of(cluster_id) if _program(pid) == program}


def kill(pids: set[int]) -> None:
    """SIGKILL to all of them, and there must be some; one that has ended meanwhile is passed over."""
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].rpartition(b"/")[2].decode()
    except OSError:
        return ""


def _groups(cluster_id: str) -> list[Path]:
    """The cluster's own control group, in the one hierarchy of version 2 or in each of version 1."""
    root = Path("/sys/fs/cgroup")
    return [path for path in (root / cluster_id, *root.glob(f"*/{cluster_id}")) if path.is_dir()]


def _names(cmdline: Path, state: Path) -> bool:
    try:
        return str(state).encode() in cmdline.read_bytes()
    except OSError:
        return False


def _namespace(pid: int, kind: str) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/{kind}").readlink()
    except OSError:
        return None


def _setting(name: str) -> str:
    path = Path("/proc/sys", name)
    return path.read_text().strip() if path.exists() else "none"


def _usual_folders() -> list[str]:
    places = (
        "/var/lib/cni",
        "/var/lib/kubelet",
        "/var/log/pods",
        "/var/log/containers",
        "/run/netns",
        "/etc/cni/net.d",
    )
    return [str(path) for place in places for path in (Path(place), *Path(place).glob("*")) if path.exists()]


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
