"""One dataset goes wrong and is put right again, on real servers: nothing that the best copy has is lost.

What the planner alone decides is tried on the newest line, what servers do on each.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.dataplane import datasets
from tests.dataplane.datasets import FIRST, SECOND, THIRD, Dataset, Writer, spec_of
from tests.dataplane.scenes import Told
from tests.dataplane.servers import NEWEST, PORT, new_address
from valkeyctl.dataplane import errors
from valkeyctl.dataplane.replication.converge import converge
from valkeyctl.dataplane.replication.steps import Demote, Promote
from valkeyctl.dataplane.rounds import Round

SNAPSHOTS = {"save": "3600 1000000"}
LOG = {"appendonly": "yes", "appendfsync": "always"}


def test_when_the_primary_is_killed_every_write_that_a_replica_acknowledged_is_kept(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        datasets.run_fresh(dataset)
        dataset.spec = spec_of(2, formed=True, last_primary=0)
        with Writer(dataset, wait=True) as writer:
            writer.await_more()
            dataset.kill(FIRST)
            # Its Pod comes back without its data, and waits as a replica until it is told whom to follow.
            dataset.start(FIRST)
            primary = datasets.primary_of(dataset, datasets.run(dataset))
            writer.await_more()
        assert primary != FIRST
        assert not writer.lost(primary)


def test_a_primary_that_comes_back_with_its_log_is_not_ahead_of_who_followed_it_to_the_end(line: str) -> None:
    """A log may lack what was written in the last two seconds, and a replica has acknowledged it."""
    with Dataset(spec_of(2), line, {"appendonly": "yes"}) as dataset:
        datasets.run_fresh(dataset)
        keys = dataset.write(FIRST, "a", 200)
        dataset.kill(FIRST)
        dataset.resume(FIRST)
        dataset.follow(FIRST, FIRST)
        dataset.spec = spec_of(2, formed=True, persistent=True, last_primary=0)
        assert datasets.primary_of(dataset, datasets.run(dataset)) != FIRST
        assert all(dataset.holds(member, keys) for member in dataset.spec.members)


def test_who_is_behind_is_not_promoted() -> None:
    with Dataset(spec_of(2), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        first = dataset.write(FIRST, "a")
        dataset.servers[SECOND].freeze()
        with dataset.client(FIRST) as client:
            client.set("b", "1")
            assert client.wait(1, 5000) >= 1
        dataset.kill(FIRST)
        # What the primary had sent to it is still in its socket, so that it is made to drop it before it goes on.
        dataset.kill(SECOND)
        dataset.start(SECOND)
        dataset.start(FIRST)
        dataset.spec = spec_of(2, formed=True)
        primary = datasets.primary_of(dataset, datasets.run(dataset))
        assert primary == THIRD
        assert all(dataset.holds(member, {**first, "b": "1"}) for member in dataset.spec.members)


@pytest.mark.parametrize(("options", "known"), [(SNAPSHOTS, False), (LOG, True)], ids=["snapshots", "log"])
def test_all_come_back_from_their_disks_with_all_that_the_primary_had(
    line: str, options: dict[str, str], *, known: bool
) -> None:
    """Also where the replicas' disks are older than its own, and where servers forget their places in the stream."""
    with Dataset(spec_of(2), line, options) as dataset:
        datasets.run_fresh(dataset)
        keys = dataset.write(FIRST, "a")
        if options is SNAPSHOTS:
            for member in (SECOND, THIRD):
                dataset.ask(member, "SAVE")
            keys |= dataset.write(FIRST, "b")
            dataset.ask(FIRST, "SAVE")
        for member in dataset.spec.members:
            # As the agent renders them: whoever was last the primary, as far as it knows.
            dataset.servers[member].options = {
                **dataset.servers[member].options,
                "replicaof": f"{dataset.servers[FIRST].host} {PORT}",
            }
        dataset.kill(*dataset.spec.members)
        dataset.resume(*dataset.spec.members)
        dataset.spec = spec_of(2, formed=True, persistent=True, last_primary=0 if known else None)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == FIRST
        assert all(dataset.holds(member, keys) for member in dataset.spec.members)


def test_empty_disks_of_a_dataset_that_had_keys_need_a_persons_consent() -> None:
    with Dataset(spec_of(1), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        dataset.write(FIRST, "a")
        dataset.kill(FIRST, SECOND)
        dataset.start()
        dataset.spec = spec_of(1, formed=True, persistent=True)
        error = datasets.blocked(dataset)
        assert "every disk came back empty" in error.what
        assert "allowDataLoss" in error.remedy
        dataset.spec = spec_of(1, formed=True, persistent=True, accept_data_loss=True)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == FIRST


def test_an_empty_server_that_started_as_primary_steps_back_for_who_has_the_data(line: str) -> None:
    """Its replica was cut off when it came back, or it would have copied the emptiness at once (report F4)."""
    with Dataset(spec_of(1), line) as dataset:
        datasets.run_fresh(dataset)
        keys = dataset.write(FIRST, "a")
        dataset.kill(FIRST)
        dataset.follow(SECOND, SECOND)
        dataset.start(FIRST, replicaof=None)
        dataset.spec = spec_of(1, formed=True, last_primary=0)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == SECOND
        assert dataset.holds(FIRST, keys)


def test_a_replica_promoted_by_hand_is_attached_again_and_it_is_told_what_that_drops(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        datasets.run_fresh(dataset)
        keys = dataset.write(FIRST, "a")
        dataset.ask(SECOND, "REPLICAOF", "NO", "ONE")
        dataset.ask(SECOND, "SET", "stray", "1")
        keys |= dataset.write(FIRST, "b")
        what = datasets.what_next(dataset)
        assert isinstance(what, Round)
        (step,) = what.actions
        assert isinstance(step, Demote)
        assert "ARE DROPPED" in step.describe()
        told = Told()
        assert datasets.primary_of(dataset, datasets.run(dataset, told=told)) == FIRST
        waiting = [line for progress in told.lines for line in progress.waiting]
        assert any(line.startswith("about to: s0-1: stop being a second primary") for line in waiting)
        assert dataset.holds(SECOND, keys)
        assert dataset.ask(SECOND, "EXISTS", "stray") == 0


def test_of_two_primaries_with_writes_of_their_own_the_recorded_one_stays_or_a_person_decides() -> None:
    """The former primary was frozen while its replica was promoted, and comes back with what it had told nobody."""
    with Dataset(spec_of(1), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        dataset.write(FIRST, "a")
        dataset.ask(SECOND, "REPLICAOF", "NO", "ONE")
        newer = dataset.write(SECOND, "b")
        dataset.write(FIRST, "c")
        error = datasets.blocked(dataset)
        assert "s0-0 and s0-1 are primaries" in error.what
        assert not error.done
        dataset.spec = spec_of(1, formed=True, last_primary=1)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == SECOND
        assert dataset.holds(FIRST, newer)


def test_a_second_primary_with_other_data_is_left_to_a_person_and_the_rest_is_healed() -> None:
    with Dataset(spec_of(2), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        dataset.write(FIRST, "a")
        dataset.kill(SECOND)
        dataset.start(SECOND, replicaof=None)
        other = dataset.write(SECOND, "other")
        dataset.follow(THIRD, THIRD)
        dataset.spec = spec_of(2, formed=True, last_primary=0)
        error = datasets.blocked(dataset)
        assert "s0-1 is a second primary and holds 20 keys" in error.what
        assert dataset.holds(SECOND, other)
        dataset.await_link(THIRD, to=FIRST)


def test_replicas_that_follow_a_replica_nobody_or_an_address_are_pointed_to_the_primary(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        datasets.run_fresh(dataset)
        dataset.write(FIRST, "a")
        dataset.follow(THIRD, SECOND)
        dataset.await_link(THIRD, to=SECOND)
        told = Told()
        assert datasets.primary_of(dataset, datasets.run(dataset, told=told)) == FIRST
        assert told.done == ("s0-2: replicate s0-0",)
        dataset.ask(SECOND, "REPLICAOF", "127.0.0.1", 1)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == FIRST


def test_a_run_that_stopped_after_any_step_of_a_failover_is_gone_on_with(line: str) -> None:
    spec = spec_of(2, formed=True, patience_s=0.0)
    with Dataset(spec, line) as dataset:
        datasets.run(dataset, spec_of(2)) if dataset.servers else datasets.run_fresh(dataset)
        keys: dict[str, str] = {}
        taken = steps = 0
        while taken == steps:
            steps += 1
            primary = datasets.primary_of(dataset, datasets.run(dataset))
            keys |= dataset.write(primary, f"round {steps}")
            dataset.kill(primary)
            dataset.start(primary)
            taken = datasets.take_steps(dataset, steps)
            after = datasets.primary_of(dataset, datasets.run(dataset))
            assert after != primary
            assert all(dataset.holds(member, keys) for member in dataset.spec.members)
        assert steps > 3


def test_nobody_is_promoted_while_others_reach_the_primary() -> None:
    """It doesn't answer us, and serves its clients: a second primary would be our doing."""
    with Dataset(spec_of(1), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        dataset.write(FIRST, "a")
        spec = spec_of(1, formed=True, patience_s=0.0)
        endpoints = dataset.directory()
        ours = {**endpoints, FIRST: replace(endpoints[FIRST], address=new_address())}
        with pytest.raises(errors.DeadlineExceeded) as raised:
            converge(
                spec,
                lambda: ours,
                dataset.dialer,
                deadline_s=1.0,
                progress=Told(),
                may_go_on=lambda: None,
            )
        assert "others reach it, so it may be the primary" in raised.value.what
        assert dataset.told(SECOND)["role"] == "slave"


def test_a_disk_of_unknown_age_is_not_promoted_while_others_may_be_newer() -> None:
    """The replica came back with an old snapshot and has followed nobody since; the primary's Pod is still away."""
    with Dataset(spec_of(1), NEWEST, SNAPSHOTS) as dataset:
        datasets.run_fresh(dataset)
        old = dataset.write(FIRST, "old")
        dataset.ask(SECOND, "SAVE")
        keys = {**old, **dataset.write(FIRST, "new")}
        dataset.ask(FIRST, "SAVE")
        dataset.kill(FIRST, SECOND)
        dataset.resume(SECOND)
        away = spec_of(1, formed=True, persistent=True, patience_s=0.0)
        what = datasets.what_next(dataset, away)
        assert isinstance(what, Round)
        assert not any(isinstance(step, Promote) for step in what.actions)
        assert any("its data may be newer" in line for line in what.describe())
        dataset.resume(FIRST)
        assert datasets.primary_of(dataset, datasets.run(dataset, away), away) == FIRST
        assert dataset.holds(SECOND, keys)


def test_the_converge_waits_for_a_pod_that_is_away_and_serves_meanwhile() -> None:
    with Dataset(spec_of(2), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        dataset.kill(FIRST)
        began = time.monotonic()
        with pytest.raises(errors.DeadlineExceeded) as raised:
            converge(
                spec_of(2, formed=True),
                dataset.directory,
                dataset.dialer,
                deadline_s=2.0,
                progress=Told(),
                may_go_on=lambda: None,
            )
        assert time.monotonic() - began < 10
        assert "s0-0: wait until it has a running Pod" in raised.value.what
        roles = [dataset.told(member)["role"] for member in (SECOND, THIRD)]
        assert sorted(map(str, roles)) == ["master", "slave"]
