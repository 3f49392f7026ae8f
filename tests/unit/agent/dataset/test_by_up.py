"""How a server starts where only `up` and the leading agent decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.agent.dataset.tales import LOG, ME, NOTHING, SECOND, THIRD, down, empty, primary, replica
from valkeyctl.agent.dataset.by_up import HEARD_S, start_as
from valkeyctl.agent.dataset.deciding import StartAs, Told, Wait
from valkeyctl.agent.tale import Data
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.declared_dataset import DeclaredDataset

TWO = DeclaredDataset("o", "sessions", "replica", 2, formed=True)
ALONE = DeclaredDataset("o", "sessions", "replica", 0, formed=True)


def follow(verdict: StartAs | Wait) -> Member | None:
    assert isinstance(verdict, StartAs)
    assert not verdict.writable
    return verdict.follow


@pytest.mark.parametrize(
    ("told", "above"),
    [
        ({SECOND: primary(SECOND), THIRD: empty(THIRD)}, SECOND),
        ({SECOND: primary(SECOND), THIRD: primary(THIRD)}, None),
        ({SECOND: replica(SECOND, upstream=THIRD, linked=True)}, THIRD),
        ({SECOND: replica(SECOND, upstream=ME, linked=True), THIRD: empty(THIRD)}, None),
        ({SECOND: replica(SECOND, upstream=THIRD), THIRD: empty(THIRD)}, None),
        ({SECOND: empty(SECOND), THIRD: empty(THIRD)}, None),
    ],
)
@pytest.mark.parametrize("data", [NOTHING, LOG])
def test_it_follows_who_is_the_primary_and_is_never_one_by_itself(told: Told, above: Member | None, data: Data) -> None:
    assert follow(start_as(TWO, down(data=data), told, 0.0, followed=False)) == above


def test_those_that_are_silent_are_waited_for_only_for_a_moment() -> None:
    assert isinstance(start_as(TWO, down(), {}, 0.0, followed=False), Wait)
    assert follow(start_as(TWO, down(), {}, HEARD_S, followed=False)) is None


def test_before_the_first_up_nobody_is_waited_for() -> None:
    assert follow(start_as(None, down(), {}, 0.0, followed=False)) is None
    assert follow(start_as(replace(TWO, formed=False), down(), {}, 0.0, followed=False)) is None


def test_the_only_member_needs_nobody() -> None:
    verdict = start_as(ALONE, down(data=LOG), {}, 0.0, followed=False)
    assert isinstance(verdict, StartAs)
    assert verdict.writable
    assert start_as(replace(ALONE, persistent=True), down(data=LOG), {}, 0.0, followed=False) == verdict
    assert start_as(ALONE, down(), {}, 0.0, followed=False) == verdict  # without a volume nothing was to be kept


def test_the_only_member_waits_for_a_person_where_its_disk_was_lost() -> None:
    assert follow(start_as(replace(ALONE, persistent=True), down(), {}, 0.0, followed=False)) is None


def test_a_replica_whose_instance_shrank_meanwhile_is_no_primary() -> None:
    assert follow(start_as(ALONE, down(data=LOG), {}, HEARD_S, followed=True)) is None
