"""When an agent imports what is heavy: not while servers start and `up` forms them, and never too late to heal."""

import pytest

from valkeyctl.agent.main import HELD_S, UNDECLARED_S, are_due


@pytest.mark.parametrize("declared", [False, True])
def test_not_before_the_server_serves(declared: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert not are_due(serving=False, held_s=0.0, declared=declared, up_s=UNDECLARED_S + 1)


def test_a_start_that_is_held_needs_the_api_server() -> None:
    assert not are_due(serving=False, held_s=HELD_S / 2, declared=True, up_s=1.0)
    assert are_due(serving=False, held_s=HELD_S + 0.1, declared=False, up_s=1.0)


def test_an_instance_that_is_being_made_is_left_to_up() -> None:
    assert not are_due(serving=True, held_s=0.0, declared=False, up_s=UNDECLARED_S - 1)
    assert are_due(serving=True, held_s=0.0, declared=False, up_s=UNDECLARED_S + 1)


def test_one_that_came_back_is_healed_at_once() -> None:
    assert are_due(serving=True, held_s=0.0, declared=True, up_s=0.1)
