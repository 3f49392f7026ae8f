"""What a host shows of local clusters, to be compared before and after."""

import subprocess
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


@dataclass(frozen=True)
class Host:
    """The host's own network, filters and settings, as far as a cluster could change them."""

    links: frozenset[str]
    routes: frozenset[str]
    firewall: str
    listening: frozenset[str]
    settings: tuple[tuple[str, str], ...]
    namespaces: frozenset[str]
    folders: frozenset[str]
    """In places where container runtimes and kubelets usually leave things."""


def look() -> Host:
    return Host(
        links=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        routes=frozenset(_lines("ip", "-4", "route", "show", "table", "all")),
        firewall="\n".join(line.partition("[")[0] for line in _lines("iptables-save") if not line.startswith("#")),
        listening=frozenset(line.split()[3] for line in _lines("ss", "-Hltn")),
        settings=tuple((name, _setting(name)) for name in SETTINGS),
        namespaces=frozenset(_lines("ip", "netns", "list")),
        folders=frozenset(_usual_folders()),
    )


def remains(state: Path, cluster_id: str) -> list[str]:
    """Everything on this machine that still belongs to the cluster with this state folder and identity."""
    found = [f"process {path.parent.name}" for path in Path("/proc").glob("[0-9]*/cmdline") if _names(path, state)]
    found += [f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(state) in line]
    found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"**/{cluster_id}")]
    return found + [f"file {path}" for path in state.rglob("*")]


def processes_of(cluster_id: str) -> set[int]:
    """The host's ids of all processes of a cluster: those in its control groups."""
    groups = Path("/sys/fs/cgroup").glob(f"**/{cluster_id}/**/cgroup.procs")
    return {int(pid) for group in groups for pid in group.read_text().split()}


def _names(cmdline: Path, state: Path) -> bool:
    try:
        return str(state).encode() in cmdline.read_bytes()
    except OSError:
        return False


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
