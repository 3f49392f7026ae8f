"""Agents of a dataset without automatic failover, with real servers."""

from __future__ import annotations

import pytest

from tests.agent.dataset_pods import FIRST, INSTANCE, OWNER, SECOND, THIRD, eventually, hand_over, pods_of
from tests.agent.pods import NAMESPACE
from tests.dataplane.servers import PORT
from valkeyctl.kube.declared_dataset import DeclaredDataset
from valkeyctl.kube.labels import ROLE_LABEL

ALL = (FIRST, SECOND, THIRD)
TWO_REPLICAS = DeclaredDataset(OWNER, INSTANCE, "replica", 2, port=PORT)
ALONE = DeclaredDataset(OWNER, INSTANCE, "replica", 0, port=PORT)
LOG = {"appendonly": "yes", "appendfsync": "always"}


def test_comes_up_read_only_until_up_says_who_is_the_primary(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        assert pods.primaries() == []
        pods.up()
        eventually(lambda: pods.settled(FIRST), pods, 90)
        keys = pods.fill()
        assert all(pods.held_by(member, keys) for member in ALL)
        eventually(lambda: [pods.label(m) for m in ALL] == ["primary", "replica", "replica"], pods)


def test_after_kill_9_of_the_primary_one_with_all_data_takes_writes_again(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        pods.up()
        eventually(lambda: pods.settled(FIRST), pods, 90)
        keys = pods.fill()
        pods.pods[FIRST].kill_server()
        eventually(lambda: pods.settled() and pods.held_by(pods.primaries()[0], keys), pods, 90)
        assert all(pods.held_by(member, keys) for member in ALL)
        # Why a StatefulSet can't create a Pod stands in its events only, which an agent may not list.
        assert {path.rpartition("/")[2] for _, path in pods.asked_without_right()} <= {"events"}


@pytest.mark.parametrize("persistent", [True, False])
def test_all_pods_at_once(line: str, *, persistent: bool) -> None:
    declared = DeclaredDataset(OWNER, INSTANCE, "replica", 2, port=PORT, persistent=persistent)
    with pods_of(line, declared, **(LOG if persistent else {})) as pods:
        pods.start()
        pods.up()
        keys = pods.fill()
        for member in ALL:
            pods.take_away(member)
        for member in ALL:
            pods.begin(member, empty=not persistent)
        eventually(pods.settled, pods, 90)
        if persistent:
            assert all(pods.held_by(member, keys) for member in ALL)


@pytest.mark.parametrize("disk", ["empty", "older"])
def test_a_former_primary_that_comes_back_joins_as_a_replica(line: str, disk: str) -> None:
    declared = DeclaredDataset(OWNER, INSTANCE, "replica", 2, port=PORT, persistent=True)
    with pods_of(line, declared, **LOG) as pods:
        pods.start()
        pods.up()
        pods.fill()
        pods.take_away(FIRST)
        eventually(lambda: pods.primaries() in ([SECOND], [THIRD]), pods, 90)
        with pods.client(pods.primaries()[0]) as client:
            client.set("since", "then")
        pods.begin(FIRST, empty=disk == "empty")
        eventually(pods.settled, pods, 90)
        assert pods.primaries() != [FIRST]
        assert all(pods.held_by(member, {"since": "then", "key 1": "value 1"}) for member in ALL)


def test_a_replica_that_was_promoted_by_hand_follows_again(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        pods.up()
        keys = pods.fill()
        pods.ask(SECOND, "REPLICAOF", "NO", "ONE")
        eventually(lambda: pods.settled(FIRST), pods, 90)
        assert all(pods.held_by(member, keys) for member in ALL)


def test_a_label_and_endpoints_that_somebody_took_away_come_back(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        pods.up()
        eventually(lambda: all(pods.label(member) for member in ALL), pods)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pods.pods[FIRST].name}"
        pods.api.merge(path, {"metadata": {"labels": {ROLE_LABEL: None}}})
        pods.empty_the_slices()
        eventually(lambda: pods.label(FIRST) == "primary" and pods.settled(FIRST), pods, 90)


def test_a_primary_that_is_to_stop_hands_over_first(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        pods.up()
        eventually(lambda: pods.settled(FIRST), pods, 90)
        keys = pods.fill()
        assert "handed over" in hand_over(pods, FIRST), pods.logs()
        assert pods.rw() == (pods.pods[pods.primaries()[0]].name,)
        eventually(lambda: pods.settled() and pods.primaries() != [FIRST], pods, 90)
        assert all(pods.held_by(member, keys) for member in ALL)


def test_a_single_member_needs_nobody(line: str) -> None:
    with pods_of(line, ALONE, **LOG) as pods:
        pods.start()
        assert pods.primaries() == []
        pods.up()
        keys = pods.fill()
        pods.fake.fault = lambda _method, _path: 503
        pods.pods[FIRST].kill_server()
        eventually(lambda: pods.primaries() == [FIRST] and pods.held_by(FIRST, keys), pods, 90)
