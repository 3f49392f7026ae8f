"""What is waited for before members go or stop."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.dataplane.replication.test_plan_rules import SPEC, A, B, C, change, formed, gone
from valkeyctl.dataplane import Done
from valkeyctl.dataplane.replication.steps import HandOver
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Round
from valkeyctl.lifecycle.datasets.resting import in_sync, plan_pause, plan_retreat, serving_primary


def behind(view: ReplicationView, by_bytes: int) -> ReplicationView:
    """The same view with B so many bytes behind."""
    node = view.nodes[B]
    return change(view, B, history=replace(node.history, offset=node.history.offset - by_bytes))


def waits(what: object) -> list[str]:
    assert isinstance(what, Round), what
    assert what.actions == ()
    return [wait.describe() for wait in what.waits]


def test_all_may_stop_when_all_have_the_same() -> None:
    view = formed().view()
    assert plan_pause(SPEC, view, members=SPEC.members, exactly=True) == Done()
    assert serving_primary(SPEC, view) == A
    assert in_sync(SPEC, view) == {A, B, C}


def test_what_is_in_flight_is_no_matter_until_writes_are_held() -> None:
    view = behind(formed().view(), 10)
    assert plan_pause(SPEC, view, members=SPEC.members) == Done()
    assert waits(plan_pause(SPEC, view, members=SPEC.members, exactly=True)) == [
        "s0-1: wait until it has all that s0-0, the primary, has"
    ]


def test_who_is_not_to_stop_now_is_not_asked_for() -> None:
    view = gone(formed().view(), C)
    assert plan_pause(SPEC, view, members={A, B}) == Done()
    assert in_sync(SPEC, view) == {A, B}


def test_without_a_primary_nothing_may_stop_or_go() -> None:
    view = gone(formed().view(), A, for_s=1.0)
    assert waits(plan_pause(SPEC, view, members=SPEC.members)) == ["s0-0: wait until there is one primary that answers"]
    assert "it may be a member that goes" in waits(plan_retreat(SPEC, view, keep=1))[0]
    assert serving_primary(SPEC, view) is None
    assert in_sync(SPEC, view) == frozenset()


def test_a_primary_that_stays_needs_nobody() -> None:
    assert plan_retreat(SPEC, gone(formed().view(), B), keep=1) == Done()


def test_a_primary_goes_when_one_that_stays_is_in_sync() -> None:
    world = formed()
    world.take(HandOver(A, C, world.address(C)))
    world.settle()
    world.here[B].upstream = C
    world.settle()
    view = world.view()
    assert serving_primary(SPEC, view) == C
    assert plan_retreat(SPEC, view, keep=2) == Done()
    assert waits(plan_retreat(SPEC, gone(view, A), keep=1)) == ["s0-0: wait until it is in sync with s0-2, which goes"]
