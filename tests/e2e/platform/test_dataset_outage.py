"""A node with the primary that loses power or its network, and an API server that is away: never two that take writes.

Writers on two nodes write to each server at its own address, and the times of what was taken show whether a former
primary and its successor ever took writes side by side.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest

from tests.e2e.harness.client import Client, service
from tests.e2e.harness.dataset import (
    BOTH,
    FAILOVER,
    HEALED_S,
    IN_FLIGHT,
    REPLICA,
    RW,
    Dataset,
    client_of,
    make,
    watching,
)
from tests.e2e.harness.dataset_probe import Seen, ask
from tests.e2e.harness.kube import eventually
from tests.e2e.harness.probe import SilentError
from tests.e2e.harness.sandbox import INSTANCE, Sandbox
from tests.e2e.harness.writer import Rivals, Taken
from tests.e2e.platform.platform import local

pytestmark = [pytest.mark.usefixtures("repaired"), pytest.mark.timeout(600)]
#: Longer than a Lease, and than what Sentinels take.
WATCHED_S = 45
both = pytest.mark.parametrize("architecture", BOTH)


def faults(*command: str) -> None:
    done = local(*command)
    assert done.code == 0, done.err


def node_of(dataset: Dataset, pod: str) -> str:
    return (dataset.kube.get("pods", dataset.namespace, pod) or {})["spec"]["nodeName"]


def other_node(dataset: Dataset, *nodes: str) -> str:
    found = [node["metadata"]["name"] for node in dataset.kube.request("GET", "/api/v1/nodes")["items"]]
    return next(name for name in found if name not in nodes)


@contextmanager
def rivals_from(clients: Iterable[Client], seen: Seen) -> Iterator[list[Rivals]]:
    """Writers from each of these clients to each server's own address."""
    hosts = [server.ip for server in seen.servers.values()]
    with ExitStack() as stack:
        yield [
            stack.enter_context(client.rivalling(hosts, first=10_000_000 * (number + 1)))
            for number, client in enumerate(clients)
        ]


def side_by_side(found: Iterable[Rivals]) -> list[str]:
    """Which server took a write that was sent when its successor had acknowledged one already, in words."""
    taken: dict[str, list[Taken]] = {}
    for rivals in found:
        for host, writes in rivals.taken.items():
            taken.setdefault(host, []).extend(writes)
    began = {host: min(each.acknowledged_s for each in writes) for host, writes in taken.items() if writes}
    assert len(began) > 1, f"nobody took over: {began}"
    wrong: list[str] = []
    for former, successor in pairwise(sorted(began, key=began.__getitem__)):
        late = [each for each in taken[former] if each.sent_s > began[successor]]
        if late:
            spent = max(each.sent_s for each in late) - began[successor]
            wrong.append(f"{former} took {len(late)} writes in the {spent:.2f} s after {successor} had taken over")
    return wrong


@both
def test_the_node_of_the_primary_loses_power_and_comes_back(sandbox: Sandbox, architecture: str) -> None:
    dataset = make(sandbox, architecture)
    was = dataset.ready()
    lost = node_of(dataset, was.primary.pod)
    safe = client_of(sandbox, dataset.stack, name="safe", node=other_node(dataset, lost))
    before = safe.write(service(RW), 1000)
    with safe.writing(service(RW)) as record:
        time.sleep(2)
        faults("node", "kill", lost.removeprefix("node"))
        time.sleep(WATCHED_S)
    assert record.gap_ms < WATCHED_S * 1000, record
    missing = safe.lost(service(RW), record.acknowledged)
    assert len(missing) <= IN_FLIGHT, (missing, record)
    assert safe.lost(service(RW), before) == []

    faults("node", "start", lost.removeprefix("node"))
    seen = dataset.healed()
    assert seen.primary.pod != was.primary.pod
    assert safe.lost(service(RW), before) == []


@both
def test_an_isolated_primary_takes_no_write_beside_its_successor(sandbox: Sandbox, architecture: str) -> None:
    # Beside Sentinels it is the server that stops, as the user has it: before they call it down.
    fence = {"minReplicasToWrite": 1, "minReplicasMaxLagSeconds": 1}
    watched = {**fence, "sentinel": watching(downAfterMilliseconds=5000)}
    dataset = make(sandbox, architecture, **(watched if architecture == FAILOVER else {}))
    was = dataset.ready()
    cut_off = node_of(dataset, was.primary.pod)
    inside = client_of(sandbox, dataset.stack, name="inside", node=cut_off)
    outside = client_of(sandbox, dataset.stack, name="outside", node=other_node(dataset, cut_off))
    before = outside.write(service(RW), 1000)
    with rivals_from([inside, outside], was) as found:
        time.sleep(3)
        faults("cut", cut_off.removeprefix("node"), "all")
        time.sleep(WATCHED_S)
        assert outside.write(service(RW), 100, first=5000), "the others serve"
        faults("heal", cut_off.removeprefix("node"), "all")
        seen = dataset.healed()
    assert seen.primary.pod != was.primary.pod
    taken = [each for rivals in found for each in rivals.taken[seen.primary.ip]]
    assert taken, "its successor took writes"
    assert side_by_side(found) == []
    lost = outside.lost(service(RW), [each.number for each in taken])
    assert lost == []
    assert outside.lost(service(RW), before) == []


@both
def test_nothing_stops_serving_while_the_api_server_is_away(sandbox: Sandbox, architecture: str) -> None:
    dataset = make(sandbox, architecture)
    was = dataset.ready()
    with dataset.writing() as records:
        faults("cut", "api", "others")
        time.sleep(WATCHED_S)
        faults("heal", "api", "others")
        eventually("Pods can be spoken to", lambda: _answers(dataset), timeout_s=HEALED_S)
    seen = dataset.healed()
    assert seen.primary.pod == was.primary.pod
    assert dataset.missing(records) == []
    assert all(record.gap_ms < 5000 for record in records), records


def test_a_primary_that_dies_while_the_api_server_is_away_is_followed(sandbox: Sandbox) -> None:
    """Sentinels need nobody. By the Lease nobody takes over meanwhile, and somebody does as soon as it is back."""
    dataset = make(sandbox, REPLICA)
    was = dataset.ready()
    before = dataset.client.write(service(RW), 1000)
    faults("cut", "api", "others")
    dataset.kill_server(was.primary.pod)
    time.sleep(WATCHED_S)
    faults("heal", "api", "others")
    seen = dataset.healed()
    assert dataset.client.lost(service(RW), before) == []
    assert seen.primary.pod != was.primary.pod


def _answers(dataset: Dataset) -> bool:
    try:
        return len(ask(dataset.kube, dataset.namespace, INSTANCE).servers) == 3
    except SilentError:
        return False
