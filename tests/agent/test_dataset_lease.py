"""Agents of a dataset that fail over by a Lease, whole: endpoints, labels, healing, and the arbiter between them."""

from __future__ import annotations

import time
from dataclasses import replace

from tests.agent.dataset_pods import FIRST, INSTANCE, OWNER, SECOND, THIRD, DatasetPods, eventually, pods_of
from tests.agent.pods import NAMESPACE
from tests.agent.test_handover import hook
from tests.dataplane.servers import PORT
from valkeyctl.kube.declared_dataset import DeclaredDataset
from valkeyctl.kube.primary_lease import appoint, wish_for

BY_LEASE = DeclaredDataset(OWNER, INSTANCE, "replica", 2, port=PORT, automatic_failover_s=5)
EVERYBODY = (FIRST, SECOND, THIRD)


def form(pods: DatasetPods) -> dict[str, str]:
    """What `up` does: start the Pods, appoint the first holder, and wait."""
    pods.start()
    assert appoint(pods.api, NAMESPACE, INSTANCE, FIRST, candidates=EVERYBODY)
    eventually(lambda: pods.settled(FIRST), pods, 20)
    pods.declare(replace(pods.declared, formed=True))
    return pods.fill()


def test_forms_and_follows_a_wish_with_its_endpoints(line: str) -> None:
    with pods_of(line, BY_LEASE) as pods:
        keys = form(pods)
        wish_for(pods.api, NAMESPACE, INSTANCE, THIRD)
        eventually(lambda: pods.settled(THIRD), pods, 20)
        assert pods.held_by(THIRD, keys)
        eventually(lambda: [pods.label(m) for m in EVERYBODY] == ["replica", "replica", "primary"], pods)


def test_after_kill_9_clients_are_led_to_a_replica_with_all_data(line: str) -> None:
    with pods_of(line, BY_LEASE) as pods:
        keys = form(pods)
        pods.pods[FIRST].kill_server()
        eventually(lambda: pods.settled() and pods.primaries() != [FIRST], pods, 20)
        assert pods.held_by(pods.primaries()[0], keys)


def test_a_pod_that_is_gone_is_replaced_and_comes_back_as_a_replica() -> None:
    with pods_of("9.1", BY_LEASE) as pods:
        keys = form(pods)
        pods.take_away(FIRST)
        eventually(lambda: pods.settled() and pods.primaries() != [FIRST], pods, 20)
        pods.begin(FIRST, empty=True)
        eventually(lambda: len(pods.pods) == 3 and pods.settled() and pods.primaries() != [FIRST], pods, 30)
        assert pods.held_by(FIRST, keys)


def test_all_pods_at_once_with_their_disks() -> None:
    persistent = replace(BY_LEASE, persistent=True)
    with pods_of("9.1", persistent, appendonly="yes", appendfsync="always") as pods:
        keys = form(pods)
        for member in EVERYBODY:
            pods.take_away(member)
        for member in EVERYBODY:
            pods.begin(member)
        eventually(pods.settled, pods, 60)
        assert pods.held_by(pods.primaries()[0], keys)


def test_all_pods_at_once_without_disks_begin_anew() -> None:
    with pods_of("9.1", BY_LEASE) as pods:
        form(pods)
        for member in EVERYBODY:
            pods.take_away(member)
        for member in EVERYBODY:
            pods.begin(member, empty=True)
        eventually(pods.settled, pods, 60)
        assert pods.fill()


def test_a_replica_that_is_promoted_by_hand_is_put_back() -> None:
    with pods_of("9.1", BY_LEASE) as pods:
        keys = form(pods)
        pods.ask(SECOND, "REPLICAOF", "NO", "ONE")
        eventually(lambda: pods.settled(FIRST), pods, 20)
        assert pods.held_by(SECOND, keys)


def test_a_primary_that_is_about_to_stop_hands_over() -> None:
    with pods_of("9.1", BY_LEASE) as pods:
        keys = form(pods)
        began = time.monotonic()
        assert "handed over" in hook(pods.pods[FIRST])
        assert pods.primaries() != [FIRST]
        assert time.monotonic() - began < 10.0
        eventually(lambda: pods.settled() and pods.primaries() != [FIRST], pods, 20)
        assert pods.held_by(pods.primaries()[0], keys)
