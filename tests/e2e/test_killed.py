"""SIGKILL in every step of `up`, of pulumi itself and of the process with our providers: the next `up` finishes."""

import re
import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.processes import all_processes, command_line, session_of
from tests.e2e.harness.program import PROVIDER, PulumiError, Running, Stack
from tests.e2e.harness.quota import allow_pods
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small, unattended

FORMED = unattended()
# Moments of an `up` from nothing, in their order: a mark as a pattern, and which of those that fit.
POINTS: dict[str, tuple[str, int]] = {
    "namespace made": (r"end (create|same) Namespace", 1),
    "before the first resource": (r"start (create|same) .*Prepare", 1),
    "prepared": (r"end (create|same) .*Prepare", 1),
    "password made": (r"end (create|same) Password", 1),
    "first object begun": (r"start (create|same) (Service|ConfigMap|PodDisruptionBudget|NetworkPolicy)", 1),
    "some objects made": (r"end (create|same) (Service|ConfigMap|PodDisruptionBudget|NetworkPolicy)", 3),
    "first shard begun": (r"start (create|same) StatefulSet", 1),
    "first shard made": (r"end (create|same) StatefulSet", 1),
    "all shards made": (r"end (create|same) StatefulSet", 3),
    "guards made": (r"end (create|same) ShardGuard", 3),
    "topology begun": (r"start (create|same) Topology", 1),
    "topology says its 1st word": (r"say Topology", 1),
    "topology says its 2nd word": (r"say Topology", 2),
    "topology says its 3rd word": (r"say Topology", 3),
    "topology says its 4th word": (r"say Topology", 4),
    "topology made": (r"end (create|same) Topology", 1),
}
# Before the topology has its turn, a kill leaves Kubernetes objects half made, and the next `up` goes on from there: so
# one instance stands all of a row, each `up` killed later than the one before. Replicas would add nothing.
ROWS = {
    "pulumi": [
        ["namespace made", "before the first resource", "first object begun", "first shard begun", "all shards made"],
        ["prepared", "password made", "some objects made", "first shard made", "guards made"],
    ],
    # From the first dynamic resource to the last there is a provider's process to kill.
    "provider": [["before the first resource", "prepared", "password made", "first shard made"]],
}
WORDS = [point for point in POINTS if point.startswith("topology says")]
IN_TOPOLOGY = ["topology begun", *WORDS]


def _nth(pattern: str, number: int) -> Callable[[str], bool]:
    seen = 0

    def wanted(mark: str) -> bool:
        nonlocal seen
        seen += bool(re.match(pattern, mark))
        return seen >= number

    return wanted


def _killed(stack: Stack, victim: str, point: str) -> bool:
    """An `up` whose `victim` is killed at a point. The next one comes at once: no pause may give what is left time.

    False where it came to its end, a good one, and never to the point.
    """
    running = stack.start("up", "--yes", "--skip-preview")
    try:
        running.until(_nth(*POINTS[point]))
    except PulumiError:
        stack.finish(running)
        return False
    if victim == "pulumi":
        running.kill()
        # It leaves its lock in a file backend; the documentation names this command.
        stack.cancel()
    else:
        running.kill_provider()
        stack.finish(running, expect=-1, timeout_s=60)
    return True


def _finishes(stack: Stack, kube: Kube, sandbox: Sandbox, replicas: int) -> None:
    """The next `up` brings what was declared, and says nothing that frightens."""
    result = stack.up()
    assert "Traceback" not in result.output
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE, replicas=replicas)
    assert probe.spread(nodes) == [5461, 5461, 5462]


@pytest.mark.parametrize(("victim", "row"), [(victim, row) for victim, rows in ROWS.items() for row in rows])
def test_killed_again_and_again_on_the_way(sandbox: Sandbox, kube: Kube, victim: str, row: list[str]) -> None:
    stack = sandbox.stack(config=small(replicas=0))
    came = {point: _killed(stack, victim, point) for point in row}
    assert all(came.values()), came
    _finishes(stack, kube, sandbox, replicas=0)


@pytest.mark.parametrize("victim", ["pulumi", "provider"])
@pytest.mark.parametrize("row", [IN_TOPOLOGY[::2], IN_TOPOLOGY[1::2]], ids=["1st, 3rd, 5th", "2nd, 4th"])
def test_killed_in_the_topology(sandbox: Sandbox, kube: Kube, victim: str, row: list[str]) -> None:
    stack = sandbox.stack(config=small())
    # What those before have formed isn't formed again, so that a later one may end before it comes to its point.
    came = [_killed(stack, victim, point) for point in row]
    assert came[0]
    _finishes(stack, kube, sandbox, replicas=1)


def test_killed_when_all_is_made(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=small())
    assert _killed(stack, "pulumi", "topology made")
    _finishes(stack, kube, sandbox, replicas=1)


@pytest.mark.xdist_group("killed_while_it_heals")
@pytest.mark.parametrize("victim", ["pulumi", "provider"])
@pytest.mark.parametrize("point", WORDS[:3])
def test_killed_while_it_heals_a_cluster_with_data(formed: Formed, kube: Kube, victim: str, point: str) -> None:
    nodes = formed.emptied()
    stack, client = formed.stack, formed.client
    written = client.write(INSTANCE, 1500)
    for node in nodes.values():
        probe.command(kube, formed.namespace, node.pod, "CLUSTER DELSLOTSRANGE 0 99 5500 5999 16000 16383")
    probe.command(kube, formed.namespace, probe.replica_of(nodes, 1).pod, "CLUSTER RESET SOFT")

    assert _killed(stack, victim, point)
    stack.up()
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert probe.layout(after) == probe.layout(nodes)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert client.lost(INSTANCE, written) == []


def test_converge_of_a_killed_pulumi_stops(sandbox: Sandbox, kube: Kube) -> None:
    # With one Pod that cannot exist the converge would wait for its whole deadline, beside the next `up`.
    kube.create_namespace(sandbox.namespace)
    allow_pods(kube, sandbox.namespace, 5)
    stack = sandbox.stack(config=small())
    running = stack.start("up", "--yes", "--skip-preview")
    running.until(_nth(r"start create Topology", 1))
    time.sleep(2)
    assert _providers(running)
    running.kill()
    eventually("the orphaned provider ends", lambda: not _providers(running), timeout_s=15)


def _providers(running: Running) -> list[int]:
    return [pid for pid in all_processes() if session_of(pid) == running.process.pid and PROVIDER in command_line(pid)]
