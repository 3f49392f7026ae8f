"""Agents of a dataset without automatic failover, with real servers."""

from __future__ import annotations

from tests.agent.dataset_pods import FIRST, INSTANCE, OWNER, SECOND, THIRD, eventually, pods_of
from tests.dataplane.servers import PORT
from valkeyctl.kube.declared_dataset import DeclaredDataset

TWO_REPLICAS = DeclaredDataset(OWNER, INSTANCE, "replica", 2, port=PORT)


def test_comes_up_read_only_until_up_says_who_is_the_primary(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        assert pods.primaries() == []
        pods.up()
        eventually(lambda: pods.settled(FIRST), pods, 20)
        keys = pods.fill()
        assert all(pods.held_by(member, keys) for member in (FIRST, SECOND, THIRD))
        eventually(lambda: [pods.label(m) for m in (FIRST, SECOND, THIRD)] == ["primary", "replica", "replica"], pods)


def test_after_kill_9_of_the_primary_one_with_all_data_takes_writes_again(line: str) -> None:
    with pods_of(line, TWO_REPLICAS) as pods:
        pods.start()
        pods.up()
        eventually(lambda: pods.settled(FIRST), pods, 20)
        keys = pods.fill()
        pods.pods[FIRST].kill_server()
        eventually(lambda: pods.settled() and pods.held_by(pods.primaries()[0], keys), pods, 40)
        assert all(pods.held_by(member, keys) for member in (FIRST, SECOND, THIRD))
