"""What a host must have left for a cluster."""

import pytest

from local.cluster import preflight
from local.errors import LocalError


def test_a_host_with_enough_is_let_pass() -> None:
    assert preflight.check(watchers=1) is None


def test_a_host_without_enough_is_told_which_limit_and_what_to_do() -> None:
    with pytest.raises(LocalError, match=r"sysctl -w fs\.inotify\.max_user_instances") as told:
        preflight.check(watchers=500_000)
    assert "500000" in str(told.value)


def test_asking_uses_nothing_up() -> None:
    for _ in range(50):
        preflight.check(watchers=3)
