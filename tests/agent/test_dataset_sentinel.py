"""Agents of a dataset that Sentinels watch, with real servers and Sentinels."""

from __future__ import annotations

import pytest
import valkey

from tests.agent.dataset_pods import FIRST, SECOND, THIRD, eventually, hand_over, seconds_until
from tests.agent.dataset_sentinels import NAME, watched

ALL = (FIRST, SECOND, THIRD)


def test_clients_follow_a_failover_and_the_former_primary_comes_back_as_a_replica(line: str) -> None:
    with watched(line) as (pods, watching):
        keys = pods.fill()
        pods.pods[FIRST].kill_server()
        took_s = seconds_until(lambda: pods.rw() != (pods.pods[FIRST].name,), pods, 90)
        assert took_s < 60
        eventually(lambda: pods.settled(watching.named()), pods, 90)
        assert watching.named() in (SECOND, THIRD)
        assert all(pods.held_by(member, keys) for member in ALL)
        # Why a StatefulSet can't create a Pod stands in its events only, which an agent may not list.
        assert {path.rpartition("/")[2] for _, path in pods.asked_without_right()} <= {"events"}


def test_a_primary_that_is_to_stop_hands_over_first(line: str) -> None:
    with watched(line) as (pods, watching):
        keys = pods.fill()
        assert "handed over" in hand_over(pods, FIRST), pods.logs()
        assert pods.primaries() != [FIRST]
        eventually(lambda: watching.named() is not None and pods.settled(watching.named()), pods, 90)
        assert all(pods.held_by(member, keys) for member in ALL)
        assert "is a replica" in hand_over(pods, FIRST)


@pytest.mark.parametrize("persistent", [True, False])
def test_all_pods_at_once(line: str, *, persistent: bool) -> None:
    settings = {"appendonly": "yes", "appendfsync": "always"} if persistent else {}
    with watched(line, persistent=persistent, **settings) as (pods, watching):
        keys = pods.fill()
        for member in ALL:
            pods.take_away(member)
        for member in ALL:
            pods.begin(member, empty=not persistent)
        eventually(lambda: pods.settled() and watching.named() == pods.primaries()[0], pods, 90)
        if persistent:
            assert all(pods.held_by(member, keys) for member in ALL)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("forgetful", [True, False])
def test_sentinels_and_pods_at_once(line: str, *, persistent: bool, forgetful: bool) -> None:
    settings = {"appendonly": "yes", "appendfsync": "always"} if persistent else {}
    with watched(line, persistent=persistent, **settings) as (pods, watching):
        keys = pods.fill()
        watching.kill()
        if forgetful:
            watching.forget()
        for member in ALL:
            pods.take_away(member)
        for member in ALL:
            pods.begin(member, empty=not persistent)
        watching.start()
        eventually(lambda: pods.settled() and watching.named() == pods.primaries()[0], pods, 90)
        if persistent:
            assert all(pods.held_by(member, keys) for member in ALL)


def test_a_replica_that_was_promoted_by_hand_follows_again(line: str) -> None:
    with watched(line) as (pods, watching):
        keys = pods.fill()
        pods.ask(SECOND, "REPLICAOF", "NO", "ONE")
        eventually(lambda: len(pods.primaries()) == 1 and pods.settled(watching.named()), pods, 90)
        assert pods.settled(FIRST)
        assert all(pods.held_by(member, keys) for member in ALL)


def test_a_sentinel_that_forgot_the_name_is_told_again(line: str) -> None:
    with watched(line) as (pods, watching):
        with valkey.Valkey(host=watching.addresses[1], port=26379) as client:
            client.execute_command("SENTINEL REMOVE", NAME)
        eventually(lambda: len(watching.asked().naming) == 3, pods, 90)
