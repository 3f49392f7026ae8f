"""Asks every Valkey node what it is and knows, and judges whether the instance is Ready, by means of the tests' own.

It reaches nodes from inside their Pods' networks and shares no code with the product, so that no error there can hide
here.
"""

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.e2e.harness import direct
from tests.e2e.harness.kube import Kube, Object, eventually

SLOTS = 16384
PORT = 6379
# Reads the password where the server's start script leaves it, so that it is in no argument list.
_LOGIN = r"""
password=$(cat /run/valkey/password; printf x)
password=${password%x}
export REDISCLI_AUTH="$password" VALKEYCLI_AUTH="$password"
"""
_QUESTIONS = ("CLUSTER MYID", "CLUSTER INFO", "CLUSTER NODES", "INFO replication", "INFO server", "INFO memory")


@dataclass(frozen=True)
class Line:
    """One line of CLUSTER NODES: how one node sees another. `slots` are single numbers, `open_slots` as on the wire."""

    node_id: str
    ip: str
    hostname: str
    flags: frozenset[str]
    primary_id: str | None
    linked: bool
    slots: frozenset[int]
    open_slots: tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """One Pod's node: its Pod, and all that it says."""

    pod: str
    ip: str
    shard: int
    node_id: str
    cluster: Mapping[str, str]
    replication: Mapping[str, str]
    server: Mapping[str, str]
    memory: Mapping[str, str]
    view: Mapping[str, Line]

    @property
    def is_primary(self) -> bool:
        return self.replication.get("role") == "master"

    @property
    def slots(self) -> frozenset[int]:
        """What the node says that it owns itself."""
        return self.view[self.node_id].slots


class SilentError(Exception):
    """A Pod's node gave no answer."""


def ask(kube: Kube, namespace: str, instance: str) -> dict[str, Node]:
    """What the node of every Pod of the instance says, by Pod name. Raises SilentError when one does not answer."""
    found: dict[str, Node] = {}
    for node in _ask(kube, namespace, instance):
        if isinstance(node, SilentError):
            raise node
        found[node.pod] = node
    return found


def ask_those_that_answer(kube: Kube, namespace: str, instance: str) -> dict[str, Node]:
    """As `ask`, of the nodes that answer: some Pods run none."""
    return {node.pod: node for node in _ask(kube, namespace, instance) if isinstance(node, Node)}


def command(kube: Kube, namespace: str, pod: str, text: str) -> str:
    """Give a node a command by hand; AssertionError when it answers with an error, or not."""
    found = kube.get("pods", namespace, pod)
    assert found is not None, f"there is no Pod {pod}"
    try:
        with direct.talk(found) as server:
            return server.ask(*shlex.split(text))
    except direct.UnreachableError as error:
        raise AssertionError(f"{pod}: {text}: {error}") from None


def cli(kube: Kube, namespace: str, pod: str, arguments: str, *, timeout_s: int) -> str:
    """Run `valkey-cli` in a Pod, for what is of the tool itself; AssertionError when it fails."""
    script = _LOGIN + f"timeout {timeout_s} valkey-cli -e {arguments}"
    done = kube.execute(namespace, pod, ["sh", "-c", script], timeout_s=timeout_s + 20)
    assert done.code == 0, f"{pod}: {arguments}: {done.out}{done.err}"
    return done.out


def _ask(kube: Kube, namespace: str, instance: str) -> list[Node | SilentError]:
    pods = [
        pod
        for pod in kube.items("pods", namespace, f"app.kubernetes.io/instance={instance}")
        if "deletionTimestamp" not in pod["metadata"]
    ]
    at = direct.processes(direct.SERVER)

    def one(pod: Object) -> Node | SilentError:
        name, ip = pod["metadata"]["name"], pod["status"].get("podIP")
        try:
            with direct.talk(pod, at=at) as server:
                my_id, cluster, view, *infos = [server.ask(*question.split()) for question in _QUESTIONS]
        except (direct.UnreachableError, direct.RefusedError) as error:
            return SilentError(f"{name}: {error}")
        if not ip:
            return SilentError(f"{name} had no address yet")
        replication, about, memory = map(parse_info, infos)
        return Node(
            pod=name,
            ip=ip,
            shard=int(re.fullmatch(rf"{re.escape(instance)}-s(\d+)-\d+", name)[1]),  # type: ignore[index]
            node_id=my_id.strip(),
            cluster=parse_info(cluster),
            replication=replication,
            server=about,
            memory=memory,
            view={line.node_id: line for line in map(parse_line, filter(str.strip, view.splitlines()))},
        )

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, pods))


def faults(
    nodes: Mapping[str, Node], instance: str, shards: int, replicas: int, *, any_shard: bool = False
) -> list[str]:
    """Everything that is not as a Ready instance has it, in words; empty for a Ready one.

    `any_shard`: the names of Pods say nothing about who replicates whom, as in a cluster that was made by hand.
    """
    declared = {f"{instance}-s{shard}-{ordinal}" for shard in range(shards) for ordinal in range(replicas + 1)}
    wrong = [f"no Pod {name}" for name in sorted(declared - set(nodes))]
    wrong += [f"{name} is not declared" for name in sorted(set(nodes) - declared)]
    ids = {node.node_id: node for node in nodes.values()}
    for node in nodes.values():
        wrong += [f"{node.pod}: {text}" for text in _faults_of_view(node, ids)]
        wrong += [f"{node.pod}: {text}" for text in _faults_of_role(node, ids, any_shard=any_shard)]
    wrong += _faults_of_slots(nodes, shards, replicas, any_shard=any_shard)
    return wrong


def assert_ready(kube: Kube, namespace: str, instance: str, shards: int = 3, replicas: int = 1) -> dict[str, Node]:
    """The instance is Ready now, not soon: `up` returns only then. Returns what the nodes say."""
    nodes = ask(kube, namespace, instance)
    wrong = faults(nodes, instance, shards, replicas)
    assert not wrong, "\n".join([f"{instance} is not Ready:", *wrong])
    return nodes


def eventually_ready(
    kube: Kube, namespace: str, instance: str, shards: int = 3, replicas: int = 1, *, timeout_s: float
) -> dict[str, Node]:
    """What the nodes say, once the instance is Ready without anybody's help."""

    def ready() -> dict[str, Node] | None:
        try:
            nodes = ask(kube, namespace, instance)
        except (SilentError, KeyError):
            return None
        return None if faults(nodes, instance, shards, replicas) else nodes

    return eventually("it is Ready by itself", ready, timeout_s=timeout_s)


def layout(nodes: Mapping[str, Node]) -> dict[int, frozenset[int]]:
    """Slots by shard number, as the primaries themselves say."""
    return {node.shard: node.slots for node in nodes.values() if node.is_primary}


def primary_of(nodes: Mapping[str, Node], shard: int) -> Node:
    return next(node for node in nodes.values() if node.shard == shard and node.is_primary)


def replica_of(nodes: Mapping[str, Node], shard: int) -> Node:
    return next(node for node in nodes.values() if node.shard == shard and not node.is_primary)


def _faults_of_view(node: Node, ids: Mapping[str, Node]) -> list[str]:
    wrong: list[str] = []
    expected = {
        "cluster_state": "ok",
        "cluster_slots_assigned": str(SLOTS),
        "cluster_slots_ok": str(SLOTS),
        "cluster_known_nodes": str(len(ids)),
    }
    wrong += [f"{key}:{node.cluster.get(key)}" for key, value in expected.items() if node.cluster.get(key) != value]
    wrong += [f"does not know {ids[missing].pod}" for missing in set(ids) - set(node.view)]
    wrong += [f"knows a stranger {other}" for other in set(node.view) - set(ids)]
    for line in node.view.values():
        other = ids.get(line.node_id)
        bad = line.flags & {"fail", "fail?", "handshake", "noaddr", "nofailover"}
        if bad or not line.linked:
            wrong.append(f"sees {other.pod if other else line.node_id} as {sorted(line.flags)}, linked={line.linked}")
        if other and line.ip != other.ip:
            wrong.append(f"knows {other.pod} at {line.ip}, which is at {other.ip}")
        if other and line.slots != ids[line.node_id].slots:
            wrong.append(f"sees other slots of {other.pod} than that itself")
        wrong += [f"open slot {slot}" for slot in line.open_slots]
    return wrong


def _faults_of_role(node: Node, ids: Mapping[str, Node], *, any_shard: bool) -> list[str]:
    if node.is_primary:
        return []
    said = node.view[node.node_id].primary_id
    primary = ids.get(said or "")
    wrong: list[str] = []
    if primary is None or not primary.is_primary or (primary.shard != node.shard and not any_shard):
        wrong.append(f"replicates {primary.pod if primary else said}")
    elif node.replication.get("master_link_status") != "up":
        wrong.append(f"master_link_status:{node.replication.get('master_link_status')}")
    if node.replication.get("master_sync_in_progress") != "0":
        wrong.append("a sync is in progress")
    return wrong


def _faults_of_slots(nodes: Mapping[str, Node], shards: int, replicas: int, *, any_shard: bool) -> list[str]:
    wrong: list[str] = []
    primaries = [node for node in nodes.values() if node.is_primary]
    for shard, count in Counter(node.shard for node in primaries).items():
        if count != 1 and not any_shard:
            wrong.append(f"shard {shard} has {count} primaries")
    if len(primaries) != shards:
        wrong.append(f"{len(primaries)} primaries for {shards} shards")
    for node in primaries:
        attached = int(node.replication.get("connected_slaves", "0"))
        if attached != replicas:
            wrong.append(f"{node.pod}: connected_slaves:{attached}")
    owners = Counter(slot for node in primaries for slot in node.slots)
    if len(owners) != SLOTS or max(owners.values(), default=0) > 1:
        wrong.append(f"{len(owners)} slots are owned, the most owned one by {max(owners.values(), default=0)}")
    return wrong


def spread(nodes: Mapping[str, Node]) -> list[int]:
    """Numbers of slots, smallest first."""
    return sorted(len(slots) for slots in layout(nodes).values())


def parse_line(text: str) -> Line:
    """One line of CLUSTER NODES."""
    node_id, address, flags, primary, _ping, _pong, _epoch, link, *slots = text.split()
    endpoint, _, extras = address.partition(",")
    taken: set[int] = set()
    for entry in slots:
        if not entry.startswith("["):
            first, _, last = entry.partition("-")
            taken |= set(range(int(first), int(last or first) + 1))
    return Line(
        node_id=node_id,
        ip=endpoint.rsplit(":", 1)[0],
        hostname=extras.split(",")[0],
        flags=frozenset(flags.split(",")),
        primary_id=None if primary == "-" else primary,
        linked=link == "connected",
        slots=frozenset(taken),
        open_slots=tuple(entry for entry in slots if entry.startswith("[")),
    )


def parse_info(text: str) -> dict[str, str]:
    """INFO and CLUSTER INFO: `key:value` lines."""
    return dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
