"""What a person does, with kubectl and valkey-cli, who has no tool for the life of a cluster: the peer of `bench.life`.

Each function does one thing to an instance of three shards with a replica each, as quickly as a script could: it goes
on as soon as the tests' own probe finds every node right, and returns the seconds. Two rest on our agents, which bring
a Pod that comes back empty into the cluster again; scaling is done without them.
"""

import time
from typing import Any

from bench import hand
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE
from tests.e2e.test_roll import uids

SHARDS, REPLICAS = 3, 1
NEW = SHARDS


def hand_over(kube: Kube, namespace: str, shard: int) -> float:
    """`CLUSTER FAILOVER` on a shard's replica."""
    started = time.monotonic()
    pod = probe.replica_of(probe.ask(kube, namespace, INSTANCE), shard).pod
    probe.command(kube, namespace, pod, "CLUSTER FAILOVER")
    eventually(
        f"{pod} is the primary",
        lambda: "role:master" in probe.command(kube, namespace, pod, "INFO replication"),
        timeout_s=hand.GIVE_UP_S,
        pause_s=0.1,
    )
    hand.await_right(kube, namespace, INSTANCE, SHARDS, REPLICAS, started=started)
    return time.monotonic() - started


def roll(kube: Kube, namespace: str) -> float:
    """Shard by shard: delete the replica's Pod, let it take over when it is back, delete that of the former primary."""
    started = time.monotonic()
    for shard in range(SHARDS):
        nodes = probe.ask(kube, namespace, INSTANCE)
        primary, replica = probe.primary_of(nodes, shard).pod, probe.replica_of(nodes, shard).pod
        _replace(kube, namespace, replica, started)
        hand_over(kube, namespace, shard)
        _replace(kube, namespace, primary, started)
    return time.monotonic() - started


def scale_out(kube: Kube, namespace: str, objects: list[dict[str, Any]]) -> float:
    """Apply the objects of four shards, add the new nodes, and let valkey-cli give the new primary its slots."""
    started = time.monotonic()
    hand.apply(namespace, objects)
    addresses = hand.await_pods(kube, namespace, INSTANCE, (SHARDS + 1) * (REPLICAS + 1), started)
    pod, primary, replica = f"{INSTANCE}-s0-0", f"{INSTANCE}-s{NEW}-0", f"{INSTANCE}-s{NEW}-1"
    there = addresses[pod]
    hand.cli(kube, namespace, pod, f"add-node {addresses[primary]} {there}", started)
    primary_id = probe.command(kube, namespace, primary, "CLUSTER MYID").strip()

    def known() -> bool:
        """Whether all that have been introduced know the new primary."""
        nodes = probe.ask_those_that_answer(kube, namespace, INSTANCE)
        lines = [node.view.get(primary_id) for name, node in nodes.items() if name != replica]
        return all(line is not None and "handshake" not in line.flags for line in lines)

    eventually("the new primary is known", known, timeout_s=hand.GIVE_UP_S, pause_s=0.1)
    of = f"--cluster-replica --cluster-master-id {primary_id}"
    hand.cli(kube, namespace, pod, f"add-node {addresses[replica]} {there} {of}", started)
    hand.await_right(kube, namespace, INSTANCE, SHARDS + 1, REPLICAS, started=started)
    hand.cli(kube, namespace, pod, f"rebalance {there} --cluster-use-empty-masters", started)
    hand.await_right(kube, namespace, INSTANCE, SHARDS + 1, REPLICAS, started=started)
    return time.monotonic() - started


def scale_in(kube: Kube, namespace: str) -> float:
    """Let valkey-cli take the last shard's slots away and remove its nodes, then delete its StatefulSet."""
    started = time.monotonic()
    nodes = probe.ask(kube, namespace, INSTANCE)
    pod, primary, replica = f"{INSTANCE}-s0-0", probe.primary_of(nodes, NEW), probe.replica_of(nodes, NEW)
    there = f"{nodes[pod].ip}:{probe.PORT}"
    hand.cli(kube, namespace, pod, f"rebalance {there} --cluster-weight {primary.node_id}=0", started)
    for leaving in (replica, primary):
        hand.cli(kube, namespace, pod, f"del-node {there} {leaving.node_id}", started)
    hand.kubectl("delete", "-n", namespace, "statefulset", f"{INSTANCE}-s{NEW}")
    hand.await_right(kube, namespace, INSTANCE, SHARDS, REPLICAS, started=started)
    return time.monotonic() - started


def _replace(kube: Kube, namespace: str, pod: str, started: float) -> None:
    before = uids(kube, namespace)[pod]
    hand.kubectl("delete", "-n", namespace, "pod", pod)
    eventually(
        f"{pod} is a new one",
        lambda: uids(kube, namespace).get(pod) not in (None, before),
        timeout_s=hand.GIVE_UP_S,
        pause_s=0.1,
    )
    hand.await_right(kube, namespace, INSTANCE, SHARDS, REPLICAS, started=started)
