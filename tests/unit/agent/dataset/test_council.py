"""What the Sentinels say together."""

from __future__ import annotations

from valkeyctl.agent.dataset.council import Council, Word
from valkeyctl.dataplane.model import Address

OLD, NEW = Address("old"), Address("new")


def word(number: int, named: Address | None, epoch: int = 1, *, failing_over: bool = False) -> Word:
    return Word(Address(f"sentinel-{number}"), named, epoch, failing_over=failing_over, others=2)


def test_the_newest_configuration_counts() -> None:
    assert Council((word(0, OLD, 1), word(1, OLD, 1), word(2, NEW, 2)), 3).named == NEW


def test_two_of_the_same_age_that_differ_name_nobody() -> None:
    assert Council((word(0, OLD), word(1, NEW)), 3).named is None


def test_who_leads_a_failover_names_the_former_one_until_it_is_done() -> None:
    assert Council((word(0, OLD, 2, failing_over=True), word(1, NEW, 2)), 3).named == NEW
    assert Council((word(0, OLD, 2, failing_over=True), word(1, OLD, 1)), 3).named == OLD


def test_it_is_sure_when_so_many_know_the_name_that_no_other_majority_exists() -> None:
    assert Council((word(0, OLD), word(1, OLD)), 3).is_sure
    assert not Council((word(0, OLD), word(1, None)), 3).is_sure
    assert not Council((word(0, OLD), word(1, OLD)), 5).is_sure
    assert Council((word(0, OLD), word(1, OLD))).is_sure  # as many as they know of themselves
    assert not Council((word(0, OLD),)).is_sure
    assert not Council((), 3).is_sure
