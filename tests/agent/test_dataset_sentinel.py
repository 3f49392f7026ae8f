"""Agents of a dataset that Sentinels watch, with real servers and Sentinels."""

from __future__ import annotations

from tests.agent.dataset_pods import FIRST, SECOND, THIRD, eventually, seconds_until
from tests.agent.dataset_sentinels import watched


def test_clients_follow_a_failover_and_the_former_primary_comes_back_as_a_replica(line: str) -> None:
    with watched(line) as (pods, watching):
        keys = pods.fill()
        pods.pods[FIRST].kill_server()
        took_s = seconds_until(lambda: pods.rw() != (pods.pods[FIRST].name,), pods, 30)
        assert took_s < 15
        eventually(lambda: pods.settled(watching.named()), pods, 40)
        assert watching.named() in (SECOND, THIRD)
        assert all(pods.held_by(member, keys) for member in (FIRST, SECOND, THIRD))
