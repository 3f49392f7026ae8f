"""The primary's role moves as planned, under clients that write: nothing that was acknowledged is lost."""

from __future__ import annotations

import pytest

from tests.dataplane import datasets
from tests.dataplane.datasets import FIRST, SECOND, THIRD, Dataset, Writer, spec_of
from tests.dataplane.scenes import Told
from tests.dataplane.servers import PORT
from valkeyctl.dataplane.replication.apply import apply
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.steps import AbortHandOver, HandOver
from valkeyctl.dataplane.replication.view import Handover
from valkeyctl.dataplane.rounds import Round


def test_the_role_goes_to_who_is_wished_for_and_no_acknowledged_write_is_lost(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        datasets.run_fresh(dataset)
        with Writer(dataset) as writer:
            for wished in (SECOND, THIRD, FIRST):
                writer.await_more()
                dataset.spec = spec_of(2, formed=True, primary=wished.ordinal)
                told = Told()
                assert datasets.primary_of(dataset, datasets.run(dataset, told=told)) == wished
                assert sum("hand the primary's role over" in step for step in told.done) == 1
            writer.await_more()
        assert not writer.lost(FIRST)


def test_a_run_that_stopped_after_any_step_of_a_handover_is_gone_on_with(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        datasets.run_fresh(dataset)
        taken = steps = 0
        keys = dataset.write(FIRST, "a")
        while taken == steps:
            steps += 1
            spec = spec_of(2, formed=True, primary=steps % 3)
            taken = datasets.take_steps(dataset, steps, spec)
            primary = datasets.primary_of(dataset, datasets.run(dataset, spec), spec)
            assert primary.ordinal == steps % 3
            keys |= dataset.write(primary, f"round {steps}")
            assert all(dataset.holds(member, keys) for member in spec.members)
        assert steps > 1


def test_a_handover_asked_for_twice_is_one(line: str) -> None:
    with Dataset(spec_of(1), line) as dataset:
        datasets.run_fresh(dataset)
        spec = spec_of(1, formed=True, primary=1)
        dataset.await_listing(FIRST, SECOND)
        what = datasets.what_next(dataset, spec)
        assert isinstance(what, Round)
        (step,) = what.actions
        assert isinstance(step, HandOver)
        for _ in range(3):
            apply(step, dataset.directory(), dataset.dialer)
        assert datasets.primary_of(dataset, datasets.run(dataset, spec), spec) == SECOND


def test_a_replica_that_is_not_in_sync_gets_no_role(line: str) -> None:
    with Dataset(spec_of(1), line) as dataset:
        datasets.run_fresh(dataset)
        dataset.ask(SECOND, "REPLICAOF", "127.0.0.1", 1)
        what = datasets.what_next(dataset, spec_of(1, formed=True, primary=1))
        assert isinstance(what, Round)
        assert not any(isinstance(step, HandOver) for step in what.actions)


@pytest.mark.parametrize("by", ["us", "itself"])
def test_a_handover_that_does_not_end_is_given_up(line: str, by: str) -> None:
    """By hand, without a timeout, to a replica that stopped: the primary would take no writes for ever."""
    with Dataset(spec_of(1), line) as dataset:
        datasets.run_fresh(dataset)
        keys = dataset.write(FIRST, "a")
        dataset.servers[SECOND].freeze()
        dataset.ask(FIRST, "SET", "not sent", "1")
        timeout = ["TIMEOUT", 300] if by == "itself" else []
        dataset.ask(FIRST, "FAILOVER", "TO", dataset.servers[SECOND].host, PORT, *timeout)
        view = datasets.look(dataset)
        assert view.nodes[FIRST].handover is Handover.WAITING
        what = plan(dataset.spec, view)
        assert isinstance(what, Round)
        assert what.actions == (AbortHandOver(FIRST),)
        if by == "us":
            apply(what.actions[0], dataset.directory(), dataset.dialer)
        assert dataset.ask(FIRST, "SET", "b", "1")
        dataset.servers[SECOND].thaw()
        assert datasets.primary_of(dataset, datasets.run(dataset)) == FIRST
        apply(AbortHandOver(FIRST), dataset.directory(), dataset.dialer)
        assert dataset.holds(SECOND, {**keys, "b": "1"})
