"""Servers are killed and Pods deleted under a writer, and nobody runs `up`: what was acknowledged and copied stays.

How long writes stop is measured in `bench/`; here it is only bounded loosely.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import inside
from tests.e2e.harness.breakable import Breakable
from tests.e2e.harness.client import Client
from tests.e2e.harness.inside import AGENT
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE

#: Writes that a primary had acknowledged and not yet sent when it was killed: what is in flight, at one each 5 ms.
IN_FLIGHT = 5
HEALED_S = 120
NODE_TIMEOUT_MS = 2000
SNAPSHOTS = {"config": {"appendonly": "no", "save": "1 1"}, "persistence": {"size": "64Mi"}}


@dataclass(frozen=True)
class Watched(Breakable):
    """A cluster with a client, whose members are killed."""

    client: Client

    def healed(self) -> None:
        """The instance becomes Ready by itself, on every node, and the API server calls all its Pods ready."""
        eventually("the instance is Ready by itself", self.whole, timeout_s=HEALED_S)


@pytest.fixture
def watched(shared: Callable[..., Formed], kube: Kube) -> Callable[..., Watched]:
    def get(**config: object) -> Watched:
        settings = {"cluster-node-timeout": NODE_TIMEOUT_MS, **dict(config.pop("config", {}))}  # type: ignore[call-overload]
        formed = shared(config=settings, **config)
        return Watched(kube, formed.namespace, formed.client)

    return get


#: One cluster each, which has healed when a test ends.
PLAIN = pytest.mark.xdist_group("agent_failover")
WITH_SNAPSHOTS = pytest.mark.xdist_group("agent_failover_snapshots")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({}, marks=PLAIN, id="without a disk"),
        pytest.param(SNAPSHOTS, marks=WITH_SNAPSHOTS, id="with snapshots older than the last writes"),
    ],
)
@pytest.mark.parametrize("wait", [0, 1], ids=["acknowledged", "confirmed by a replica"])
def test_a_killed_primary_is_not_believed_when_it_comes_back(
    watched: Callable[..., Watched], config: dict[str, object], wait: int
) -> None:
    cluster = watched(**config)
    before = cluster.client.write(INSTANCE, 1000)
    with cluster.client.writing(INSTANCE, wait=wait) as record:
        time.sleep(3)
        cluster.kill(cluster.primaries()[:1])
        time.sleep(8)
    lost = cluster.client.lost(INSTANCE, record.acknowledged)
    assert len(lost) <= (0 if wait else IN_FLIGHT), (lost, record)
    assert record.gap_ms < 10_000, record
    assert cluster.client.lost(INSTANCE, before) == []
    cluster.healed()
    assert cluster.client.lost(INSTANCE, before) == []


@PLAIN
@pytest.mark.parametrize("count", [2, 3])
def test_several_primaries_killed_at_once(watched: Callable[..., Watched], count: int) -> None:
    # No majority votes any more: only what the agents agree on goes on.
    cluster = watched()
    before = cluster.client.write(INSTANCE, 1000)
    with cluster.client.writing(INSTANCE) as record:
        time.sleep(2)
        cluster.kill(cluster.primaries()[:count])
        time.sleep(10)
    cluster.healed()
    lost = cluster.client.lost(INSTANCE, record.acknowledged)
    assert len(lost) <= IN_FLIGHT * count, (lost, record)
    assert cluster.client.lost(INSTANCE, before) == []


@PLAIN
def test_all_servers_killed_at_once_serve_again(watched: Callable[..., Watched]) -> None:
    cluster = watched()
    cluster.kill(cluster.nodes())
    cluster.healed()
    written = cluster.client.write(INSTANCE, 300)
    assert cluster.client.lost(INSTANCE, written) == []


def test_all_servers_killed_at_once_keep_what_their_disks_hold(watched: Callable[..., Watched]) -> None:
    cluster = watched(persistence={"size": "64Mi"})
    before = {pod: node.node_id for pod, node in cluster.nodes().items()}
    written = cluster.client.write(INSTANCE, 1000)
    cluster.kill(cluster.nodes())
    cluster.healed()
    assert cluster.client.lost(INSTANCE, written) == []
    assert {pod: node.node_id for pod, node in cluster.nodes().items()} == before


@pytest.mark.parametrize(
    "config", [pytest.param({}, marks=PLAIN, id="9.1"), pytest.param({"version": "8.1"}, id="8.1")]
)
def test_a_deleted_primary_hands_over_first(watched: Callable[..., Watched], config: dict[str, object]) -> None:
    cluster = watched(**config)
    with cluster.client.writing(INSTANCE) as record:
        time.sleep(2)
        cluster.delete(cluster.primaries()[1:2])
        time.sleep(8)
    assert cluster.client.lost(INSTANCE, record.acknowledged) == []
    assert record.gap_ms < 3000, record
    cluster.healed()
    assert cluster.client.lost(INSTANCE, record.acknowledged) == []


@PLAIN
def test_a_frozen_agent_keeps_nobody_from_serving(watched: Callable[..., Watched], thaw: list[inside.Process]) -> None:
    cluster = watched()
    agents = inside.find(cluster.namespace, AGENT)
    assert len(agents) == 6
    first = cluster.primaries()[0]
    thaw.append(agents[first])
    agents[first].freeze()
    with cluster.client.writing(INSTANCE) as record:
        time.sleep(5)
        # The primary whose agent is frozen dies, too: the others elect, as the server itself does it.
        cluster.kill([first])
        time.sleep(10)
    assert record.gap_ms < NODE_TIMEOUT_MS + 6000, record
    assert len(cluster.client.lost(INSTANCE, record.acknowledged)) <= IN_FLIGHT
    agents[first].thaw()
    cluster.healed()
