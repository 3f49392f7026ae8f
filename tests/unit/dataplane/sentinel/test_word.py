"""The Sentinels' word for who is the primary, and what they monitor altogether."""

from __future__ import annotations

from tests.unit.dataplane.sentinel.test_plan_rules import SPEC, STRANGER, monitoring, silent_sentinel, with_sentinel
from tests.unit.dataplane.sentinel.world import address, formed, member
from valkeyctl.dataplane.sentinel import wire
from valkeyctl.dataplane.sentinel.word import Word, word_of


def test_at_the_goal_they_name_the_primary() -> None:
    assert word_of(SPEC, formed().view().outcomes) == Word(decides=True, primary=member(0))


def test_the_newest_configuration_counts() -> None:
    view = monitoring(formed().view(), 2, address=address(1), config_epoch=7)
    assert word_of(SPEC, view.outcomes) == Word(decides=True, primary=member(1))


def test_a_stranger_is_nobody_and_yet_it_is_theirs_to_say() -> None:
    view = monitoring(formed().view(), 0, address=STRANGER, config_epoch=9)
    assert word_of(SPEC, view.outcomes) == Word(decides=True, primary=None)


def test_those_who_monitor_nothing_decide_nothing() -> None:
    view = formed().view()
    for ordinal in range(3):
        view = with_sentinel(view, ordinal, lambda told: told.__class__(told.endpoint, told.sentinel_id, told.version))
    assert word_of(SPEC, view.outcomes) == Word(decides=False)


def test_a_few_who_monitor_nothing_are_not_all() -> None:
    view = formed().view()
    view = with_sentinel(view, 0, lambda told: told.__class__(told.endpoint, told.sentinel_id, told.version))
    view = silent_sentinel(silent_sentinel(view, 1), 2)
    assert word_of(SPEC, view.outcomes) == Word(decides=True, primary=None)


def test_those_who_are_silent_may_decide_without_being_heard() -> None:
    view = formed().view()
    for ordinal in range(3):
        view = silent_sentinel(view, ordinal)
    assert word_of(SPEC, view.outcomes) == Word(decides=True, primary=None)


def test_the_names_that_a_sentinel_monitors() -> None:
    info = (
        b"# Sentinel\r\nsentinel_masters:2\r\nsentinel_tilt:0\r\n"
        b"master0:name=a.orders,status=ok,address=10.0.0.1:6379,slaves=2,sentinels=3\r\n"
        b"master1:name=b.carts,status=odown,address=10.0.0.2:6379,slaves=0,sentinels=3\r\n"
    )
    assert wire.names(info) == {"a.orders": True, "b.carts": False}
    assert wire.names(b"# Sentinel\r\nsentinel_masters:0\r\n") == {}
