"""One dataset comes into being, from whatever an earlier run has left, on real servers."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.dataplane import datasets
from tests.dataplane.datasets import FIRST, SECOND, THIRD, Dataset, spec_of
from tests.dataplane.scenes import Told
from tests.dataplane.servers import NEWEST, PORT
from valkeyctl.dataplane import Credentials, Done, Member, Phase, Unreachable, Why, errors
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.replication.apply import COMMANDS_NEEDED, apply
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.replication.steps import Announce, HandOver, Promote


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_members_that_follow_nobody_become_a_primary_and_its_replicas(line: str, replicas: int) -> None:
    with Dataset(spec_of(replicas), line) as dataset:
        view = datasets.run_fresh(dataset)
        assert datasets.primary_of(dataset, view) == FIRST
        keys = dataset.write(FIRST, "a")
        assert all(dataset.holds(member, keys) for member in dataset.spec.members)
        told = Told()
        datasets.run(dataset, told=told)
        assert not told.done, "at the goal there is nothing to do"


def test_the_member_that_is_wished_for_begins(line: str) -> None:
    with Dataset(spec_of(2, primary=2), line) as dataset:
        assert datasets.primary_of(dataset, datasets.run_fresh(dataset)) == THIRD


def test_servers_that_all_started_as_primaries_are_one_dataset_afterwards(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        dataset.start(replicaof=None)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == FIRST


def test_a_run_that_stopped_after_any_step_is_gone_on_with(line: str) -> None:
    with Dataset(spec_of(2), line) as dataset:
        steps = 0
        while True:
            dataset.start()
            taken = datasets.take_steps(dataset, steps)
            assert datasets.primary_of(dataset, datasets.run(dataset)) == FIRST
            dataset.kill(*dataset.spec.members)
            if taken < steps:
                break
            steps += 1
        assert steps > 3


def test_members_come_and_go_and_the_role_leaves_before_who_has_it(line: str) -> None:
    with Dataset(spec_of(0), line) as dataset:
        datasets.run_fresh(dataset)
        keys = dataset.write(FIRST, "a")
        dataset.spec = spec_of(2, formed=True, primary=2)
        dataset.start(SECOND, THIRD)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == THIRD
        dataset.spec = spec_of(1, formed=True, leaving=(THIRD,))
        view = datasets.run(dataset)
        assert datasets.primary_of(dataset, view) == FIRST
        assert all(dataset.holds(member, keys) for member in (FIRST, SECOND))
        dataset.kill(THIRD)
        assert datasets.what_next(dataset) == Done()


def test_the_commands_named_are_enough(line: str) -> None:
    """A user with these rights alone forms a dataset and hands the role over; no server has refused it anything."""
    login = Credentials("operator", "secret")
    rights = [f"+{command}" for command in COMMANDS_NEEDED]
    with Dataset(spec_of(1), line, login=login) as dataset:
        dataset.start()
        for member in dataset.spec.members:
            dataset.ask(member, "ACL", "SETUSER", "operator", "on", ">secret", *rights)
        datasets.run(dataset)
        dataset.spec = spec_of(1, primary=1, formed=True)
        assert datasets.primary_of(dataset, datasets.run(dataset)) == SECOND
        assert [dataset.ask(member, "ACL", "LOG") for member in dataset.spec.members] == [[], []]
        dataset.ask(FIRST, "ACL", "SETUSER", "operator", "-info")
        outcome = datasets.look(dataset).outcomes[FIRST]
        assert isinstance(outcome, Unreachable)
        assert outcome.why is Why.RIGHT_MISSING


def test_a_server_in_cluster_mode_is_refused_and_left_alone() -> None:
    with Dataset(spec_of(1), NEWEST) as dataset:
        dataset.start(FIRST)
        dataset.options = {"cluster-enabled": "yes"}
        dataset.start(SECOND, replicaof=None)
        error = datasets.blocked(dataset)
        assert "s0-1 runs in cluster mode" in error.what
        assert not error.done
        assert dataset.told(FIRST)["role"] == "slave"


def test_a_silent_member_is_unreachable_and_not_absent() -> None:
    with Dataset(spec_of(1), NEWEST) as dataset:
        datasets.run_fresh(dataset)
        dataset.servers[SECOND].freeze()
        view = datasets.look(dataset)
        outcome = view.outcomes[SECOND]
        assert isinstance(outcome, Unreachable)
        assert outcome.why is Why.NO_ANSWER
        found = report(spec_of(1, formed=True), view)
        assert (found.phase, found.primary) == (Phase.DEGRADED, "t-s0-0")
        assert found.condition("MembersPresent").reason == "NoAnswer"
        dataset.servers[SECOND].thaw()
        assert datasets.primary_of(dataset, datasets.run(dataset)) == Member(0, 0)


@pytest.mark.parametrize("missing", COMMANDS_NEEDED)
def test_each_of_the_commands_named_is_needed(missing: str) -> None:
    """Without it a server refuses something, and that alone."""
    login = Credentials("operator", "secret")
    rights = [f"+{command}" for command in COMMANDS_NEEDED if command != missing]
    with Dataset(spec_of(1, primary=1), NEWEST, login=login) as dataset:
        dataset.start(FIRST, replicaof=None)
        dataset.start(SECOND, replicaof=dataset.servers[FIRST].host)
        dataset.await_link(SECOND, to=FIRST)
        dataset.await_listing(FIRST, SECOND)
        steps = (
            HandOver(FIRST, SECOND, Address(dataset.servers[SECOND].host, PORT)),
            Announce(SECOND),
            Promote(SECOND),
        )
        for member in dataset.spec.members:
            dataset.ask(member, "ACL", "SETUSER", "operator", "on", ">secret", *rights)
        datasets.look(dataset)
        for step in steps:
            with suppress(errors.RightMissing):
                apply(step, dataset.directory(), dataset.dialer)
        refused = [entry for member in dataset.spec.members for entry in dataset.refusals(member)]
        assert set(refused) == {missing}
