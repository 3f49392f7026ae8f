"""On which nodes and in which zones Pods are, as far as one may know."""

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import Object, pod, unschedulable
from valkeyctl.dataplane import Member
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiError
from valkeyctl.kube.nodes import Placement, placement_of
from valkeyctl.kube.pods import PodFacts, facts_of

ZONE = "topology.kubernetes.io/zone"
NODES = {Member(0, 0): "node1", Member(1, 0): "node2", Member(2, 0): "node3"}


def facts(*pods: Object) -> list[PodFacts]:
    return [facts_of(Member(shard, 0), one, None) for shard, one in enumerate(pods)]


def put_node(fake: FakeApi, name: str, zone: str = "") -> None:
    fake.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE: zone} if zone else {}}})


def asked(fake: FakeApi) -> list[str]:
    return sorted(path for _, path in fake.seen if "/nodes/" in path)


def test_nodes_tell_their_zones_once_each_and_some_tell_none(api: Api, fake: FakeApi) -> None:
    put_node(fake, "node1", zone="north")
    put_node(fake, "node2")
    two = [*facts(pod(0), pod(1), pod(2)), facts_of(Member(0, 1), pod(0, 1), None)]
    assert placement_of(api, two) == Placement({**NODES, Member(0, 1): "node1"}, {"node1": "north"}), "node3 has gone"
    assert asked(fake) == [f"/api/v1/nodes/node{number}" for number in (1, 2, 3)]


def test_a_pod_without_a_node_is_nowhere(api: Api, fake: FakeApi) -> None:
    put_node(fake, "node2", zone="south")
    placed = placement_of(api, facts(unschedulable(0, 0, "Insufficient cpu"), pod(1)))
    assert placed == Placement({Member(1, 0): "node2"}, {"node2": "south"})


def test_pods_that_carry_the_zone_spare_the_right_to_read_nodes(api: Api, fake: FakeApi) -> None:
    fake.fault = lambda _method, path: 403 if "/nodes/" in path else None
    labelled = [pod(shard) for shard in range(3)]
    for shard, one in enumerate(labelled):
        one["metadata"]["labels"][ZONE] = f"zone{shard}"
    zones = {"node1": "zone0", "node2": "zone1", "node3": "zone2"}
    assert placement_of(api, facts(*labelled)) == Placement(NODES, zones)
    assert asked(fake) == []


def test_without_that_right_only_names_of_nodes_are_known(api: Api, fake: FakeApi) -> None:
    fake.fault = lambda _method, path: 403 if "/nodes/" in path else None
    assert placement_of(api, facts(pod(0), pod(1), pod(2))) == Placement(NODES, {}, may_read=False)


def test_that_nodes_cannot_be_asked_now_is_no_word_on_their_zones(api: Api, fake: FakeApi) -> None:
    fake.fault = lambda _method, path: 500 if "/nodes/" in path else None
    with pytest.raises(ApiError):
        placement_of(api, facts(pod(0)))
