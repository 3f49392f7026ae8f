"""Asks every server of a dataset, its Sentinels and the API server, and judges whether it is Ready by means of its own.

As `probe`, which is of clusters, it shares no code with the product.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.e2e.harness.kube import Kube, Object, eventually
from tests.e2e.harness.probe import LOGIN, SilentError, parse_info

ROLE = "valkeyctl/role"
_SERVER = LOGIN + (
    """
for command in "INFO replication" "INFO server" "INFO memory" "CONFIG GET min-replicas-to-write"; do
  timeout 5 valkey-cli $command; echo '#####'
done
"""
)
_SENTINEL_LOGIN = """
password=$(cat /etc/valkey-sentinel/operator)
export REDISCLI_AUTH="$password" VALKEYCLI_AUTH="$password"
cli() { timeout 5 valkey-cli -e -p 26379 --user _operator "$@"; }
"""
_SENTINEL = (
    _SENTINEL_LOGIN
    + """
ask() { cli "$@"; echo '#####'; }
ask SENTINEL MYID
ask SENTINEL MASTER NAME
ask SENTINEL REPLICAS NAME
ask SENTINEL SENTINELS NAME
ask SENTINEL CKQUORUM NAME
"""
)
_BAD_FLAGS = frozenset({"s_down", "o_down", "disconnected", "failover_in_progress", "none"})


@dataclass(frozen=True)
class Server:
    """One Pod's server: its Pod, and what it says. `label`: the role that its Pod bears ("" for none)."""

    pod: str
    uid: str
    ip: str
    label: str
    replication: Mapping[str, str]
    server: Mapping[str, str]

    @property
    def is_primary(self) -> bool:
        return self.replication.get("role") == "master"

    @property
    def version(self) -> str:
        return self.server["valkey_version"]

    def follows(self, other: "Server") -> bool:
        """Whether it replicates `other`, by its name or by its address."""
        host = self.replication.get("master_host", "")
        return not self.is_primary and (host == other.ip or host.startswith(f"{other.pod}."))


@dataclass(frozen=True)
class Sentinel:
    """What one Sentinel says of the dataset. Hosts are names of Pods where they are names."""

    pod: str
    my_id: str
    primary: Mapping[str, str]
    replicas: tuple[Mapping[str, str], ...]
    others: tuple[Mapping[str, str], ...]
    quorum: str


@dataclass(frozen=True)
class Seen:
    """One look at all of it. `behind`: the addresses in the slices behind the Services `rw` and `ro`."""

    servers: Mapping[str, Server]
    behind: Mapping[str, frozenset[str]]
    sentinels: Mapping[str, Sentinel]

    @property
    def primary(self) -> Server:
        """The only one. Raises StopIteration where there is none."""
        return next(server for server in self.servers.values() if server.is_primary)

    @property
    def replicas(self) -> list[Server]:
        return [server for _, server in sorted(self.servers.items()) if not server.is_primary]


def ask(kube: Kube, namespace: str, instance: str, *, monitored: bool = False) -> Seen:
    """What there is. `monitored`: with the Sentinels of its own. Raises SilentError where a Pod doesn't answer."""
    servers = _pods(kube, namespace, "valkey", instance)
    watchers = _pods(kube, namespace, "valkey-sentinel", instance) if monitored else []
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda pod: _server(kube, namespace, pod), servers)
        told = pool.map(lambda pod: _sentinel(kube, namespace, pod, f"{namespace}.{instance}"), watchers)
        return Seen(
            servers={one.pod: one for one in asked},
            behind={which: _behind(kube, namespace, f"{instance}-{which}") for which in ("rw", "ro")},
            sentinels={one.pod: one for one in told},
        )


def faults(seen: Seen, instance: str, replicas: int, sentinels: int = 0) -> list[str]:
    """Everything that is not as a Ready instance has it, in words; empty for a Ready one.

    The label isn't judged: it follows, some seconds later.
    """
    declared = {f"{instance}-s0-{ordinal}" for ordinal in range(replicas + 1)}
    wrong = [f"no Pod {name}" for name in sorted(declared - set(seen.servers))]
    wrong += [f"{name} is not declared" for name in sorted(set(seen.servers) - declared)]
    primaries = [server for server in seen.servers.values() if server.is_primary]
    if len(primaries) != 1:
        return [*wrong, f"{len(primaries)} primaries: {[one.pod for one in primaries]}"]
    primary = primaries[0]
    if (attached := primary.replication.get("connected_slaves")) != str(replicas):
        wrong.append(f"{primary.pod}: connected_slaves:{attached}")
    for server in seen.replicas:
        wrong += [f"{server.pod}: {text}" for text in _faults_of_replica(server, primary)]
    expected = {"rw": {primary.ip}, "ro": {server.ip for server in seen.replicas} or {primary.ip}}
    wrong += [
        f"behind {which}: {sorted(seen.behind[which])} instead of {sorted(addresses)}"
        for which, addresses in expected.items()
        if seen.behind[which] != addresses
    ]
    watchers = {f"{instance}-sentinel-{ordinal}" for ordinal in range(sentinels)}
    wrong += [f"no Sentinel {name}" for name in sorted(watchers - set(seen.sentinels))]
    wrong += [f"the Sentinel {name} is not declared" for name in sorted(set(seen.sentinels) - watchers)]
    for sentinel in seen.sentinels.values():
        wrong += [f"{sentinel.pod}: {text}" for text in _faults_of_sentinel(sentinel, seen, primary)]
    return wrong


def assert_ready(kube: Kube, namespace: str, instance: str, replicas: int, sentinels: int = 0) -> Seen:
    """The instance is Ready now, not soon: `up` returns only then."""
    seen = ask(kube, namespace, instance, monitored=sentinels > 0)
    wrong = faults(seen, instance, replicas, sentinels)
    assert not wrong, "\n".join([f"{instance} is not Ready:", *wrong])
    return seen


def eventually_ready(
    kube: Kube, namespace: str, instance: str, replicas: int, sentinels: int = 0, *, timeout_s: float = 90
) -> Seen:
    """It becomes Ready by itself, with the labels on its Pods right; returns what was seen then."""
    last: list[str] = []

    def ready() -> Seen | None:
        try:
            seen = ask(kube, namespace, instance, monitored=sentinels > 0)
        except SilentError as error:
            last[:] = [str(error)]
            return None
        last[:] = [*faults(seen, instance, replicas, sentinels), *faults_of_labels(seen)]
        return None if last else seen

    try:
        return eventually(f"{instance} is Ready by itself", ready, timeout_s=timeout_s, pause_s=1)
    except AssertionError as late:
        raise AssertionError("\n".join([str(late), *last])) from None


def faults_of_labels(seen: Seen) -> list[str]:
    """Pods whose label tells another role than their server has."""
    return [
        f"{server.pod} is labelled {server.label!r}"
        for server in seen.servers.values()
        if server.label != ("primary" if server.is_primary else "replica")
    ]


def command_to_sentinel(kube: Kube, namespace: str, pod: str, text: str) -> str:
    """Give a Sentinel a command by hand; AssertionError when it answers with an error."""
    done = kube.execute(namespace, pod, ["sh", "-c", f"{_SENTINEL_LOGIN}cli {text}"], container="sentinel")
    assert done.code == 0, f"{pod}: {text}: {done.out}{done.err}"
    return done.out


def _pods(kube: Kube, namespace: str, name: str, instance: str) -> list[Object]:
    selector = f"app.kubernetes.io/name={name},app.kubernetes.io/instance={instance}"
    return [pod for pod in kube.items("pods", namespace, selector) if "deletionTimestamp" not in pod["metadata"]]


def _behind(kube: Kube, namespace: str, service: str) -> frozenset[str]:
    slices = kube.items("endpointslices", namespace, f"kubernetes.io/service-name={service}")
    return frozenset(
        address for one in slices for endpoint in one.get("endpoints") or [] for address in endpoint["addresses"]
    )


def _server(kube: Kube, namespace: str, pod: Object) -> Server:
    name = pod["metadata"]["name"]
    done = kube.execute_again(namespace, name, ["sh", "-c", _SERVER])
    parts = done.out.split("#####\n")
    ip = pod["status"].get("podIP")
    if not ip or done.code or len(parts) < 4 or "role:" not in parts[0]:
        raise SilentError(f"{name}: {done.code} {done.out[:300]} {done.err[:300]}")
    return Server(
        pod=name,
        uid=pod["metadata"]["uid"],
        ip=ip,
        label=pod["metadata"]["labels"].get(ROLE, ""),
        replication=parse_info(parts[0]),
        server=parse_info(parts[1]),
    )


def _sentinel(kube: Kube, namespace: str, pod: Object, monitored: str) -> Sentinel:
    name = pod["metadata"]["name"]
    script = _SENTINEL.replace("NAME", monitored)
    done = kube.execute_again(namespace, name, ["sh", "-c", script], container="sentinel")
    parts = [part.strip() for part in done.out.split("#####\n")]
    if done.code or len(parts) < 5 or not re.fullmatch(r"[0-9a-f]{40}", parts[0]):
        raise SilentError(f"{name}: {done.code} {done.out[:300]} {done.err[:300]}")
    return Sentinel(
        pod=name,
        my_id=parts[0],
        primary=next(iter(_tables(parts[1])), {}),
        replicas=_tables(parts[2]),
        others=_tables(parts[3]),
        quorum=parts[4],
    )


def _tables(text: str) -> tuple[Mapping[str, str], ...]:
    """Lines of names and values in turn; each table begins with `name`."""
    found: list[dict[str, str]] = []
    lines = text.split("\n")
    for key, value in zip(lines[::2], lines[1::2], strict=False):
        if key == "name":
            found.append({})
        if found:
            found[-1][key] = value
    return tuple(found)


def _faults_of_replica(server: Server, primary: Server) -> list[str]:
    wrong: list[str] = []
    if not server.follows(primary):
        wrong.append(f"replicates {server.replication.get('master_host')}, and not {primary.pod}")
    for key, right in (("master_link_status", "up"), ("master_sync_in_progress", "0"), ("slave_read_only", "1")):
        if (value := server.replication.get(key)) != right:
            wrong.append(f"{key}:{value}")
    return wrong


def _faults_of_sentinel(sentinel: Sentinel, seen: Seen, primary: Server) -> list[str]:
    wrong: list[str] = []
    if _pod_of(sentinel.primary) != primary.pod:
        wrong.append(f"takes {sentinel.primary.get('ip')} for the primary, and not {primary.pod}")
    wrong += [
        f"calls {_pod_of(one)} {one.get('flags')}"
        for one in (sentinel.primary, *sentinel.replicas, *sentinel.others)
        if set(one.get("flags", "none").split(",")) & _BAD_FLAGS
    ]
    wrong += _difference("replicas", sentinel.replicas, {server.pod for server in seen.replicas})
    wrong += _difference("Sentinels", sentinel.others, set(seen.sentinels) - {sentinel.pod})
    if not sentinel.quorum.startswith("OK"):
        wrong.append(f"CKQUORUM: {sentinel.quorum}")
    return wrong


def _difference(what: str, told: Sequence[Mapping[str, str]], right: set[str]) -> list[str]:
    names = {_pod_of(one) for one in told}
    return [] if names == right and len(told) == len(right) else [f"knows the {what} {sorted(names)}"]


def _pod_of(table: Mapping[str, str]) -> str:
    return table.get("ip", "").split(".")[0]
