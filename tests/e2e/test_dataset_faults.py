"""Servers that are killed, Pods that are deleted, and wrong things made by hand: nobody runs `up`, and all is healed.

How long writes stop is measured in `bench/`; here it is only bounded loosely.
"""

import time

from tests.e2e.harness import dataset_probe, probe
from tests.e2e.harness.client import service
from tests.e2e.harness.dataset import GAP_MS, IN_FLIGHT, RW, Dataset
from tests.e2e.harness.dataset_probe import ROLE
from tests.e2e.harness.sandbox import INSTANCE

#: Long enough for each way of failing over.
WATCHED_S = 20


# --- by hand --------------------------------------------------------------------------------------------------------


def test_a_replica_promoted_by_hand_follows_again(dataset: Dataset) -> None:
    seen = dataset.ready()
    with dataset.writing() as records:
        probe.command(dataset.kube, dataset.namespace, seen.replicas[0].pod, "REPLICAOF NO ONE")
        time.sleep(5)
        after = dataset.healed()
    assert after.primary.pod == seen.primary.pod
    assert dataset.missing(records) == []


def test_a_role_label_endpoints_and_what_a_sentinel_knew_are_written_again(dataset: Dataset) -> None:
    seen = dataset.healed()
    dataset.kube.by_hand(dataset.namespace, "label", "pod", seen.primary.pod, f"{ROLE}-")
    for name in (RW, f"{INSTANCE}-ro"):
        dataset.kube.patch("endpointslices", dataset.namespace, name, {"endpoints": [], "ports": []})
    for watcher in list(seen.sentinels)[:1]:
        dataset_probe.command_to_sentinel(
            dataset.kube, dataset.namespace, watcher, f"SENTINEL REMOVE {dataset.namespace}.{INSTANCE}"
        )
    after = dataset.healed()
    assert after.primary.pod == seen.primary.pod
    written = dataset.client.write(service(RW), 100, first=7_000_000)
    assert dataset.client.lost(service(RW), written) == []


# --- killed and deleted ---------------------------------------------------------------------------------------------


def test_a_killed_primary_is_followed_by_a_replica_with_all_the_data(dataset: Dataset) -> None:
    before = dataset.client.write(service(RW), 1000)
    was = dataset.ready().primary.pod
    with dataset.writing() as records:
        time.sleep(3)
        dataset.kill_server(was)
        time.sleep(WATCHED_S)
    seen = dataset.healed()
    assert seen.primary.pod != was, "it came back empty, and is not believed"
    assert all(record.gap_ms < GAP_MS for record in records), records
    assert len(dataset.missing(records)) <= IN_FLIGHT * len(records), records
    assert dataset.client.lost(service(RW), before) == []


def test_a_deleted_primary_hands_over_first(dataset: Dataset) -> None:
    was = dataset.ready().primary.pod
    with dataset.writing() as records:
        time.sleep(2)
        dataset.delete([was])
        time.sleep(5)
    seen = dataset.healed()
    assert seen.primary.pod != was
    assert all(record.gap_ms < GAP_MS for record in records), records
    assert dataset.missing(records) == []


def test_all_pods_deleted_at_once_are_a_dataset_again(dataset: Dataset) -> None:
    # Without volumes the data is gone with them; what there is must serve all the same.
    seen = dataset.ready()
    dataset.delete([*seen.servers, *seen.sentinels], grace_s=0)
    after = dataset.healed()
    assert {server.uid for server in after.servers.values()}.isdisjoint(one.uid for one in seen.servers.values())
    assert {pod: one.my_id for pod, one in after.sentinels.items()} == {
        pod: one.my_id for pod, one in seen.sentinels.items()
    }
    for way in dataset.ways:
        written = dataset.client.write(way, 300)
        assert dataset.client.lost(way, written) == []
    assert dataset.stack.run("preview", "--expect-no-changes").changes() == {}
