"""What is waited for before all members stop, and what is none of a pause's business."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.views import S00, S01, S10, S11, S20, S21, SPEC, absent, change, change_peers, formed
from valkeyctl.dataplane import Done, Member, Plan, Steps, View
from valkeyctl.dataplane.holding import disk_trouble
from valkeyctl.dataplane.plan_pause import in_sync_with_primary, plan_pause, serving_primaries
from valkeyctl.dataplane.view import Peer, ReplicaLink

ALL = frozenset(SPEC.members)
DOWN = ReplicaLink(up=False, syncing=False, was_up=True)


def decided(view: View, members: frozenset[Member] = ALL, *, exactly: bool = False) -> Plan:
    return plan_pause(SPEC, view, members=members, exactly=exactly)


def waits(view: View, members: frozenset[Member] = ALL, *, exactly: bool = False) -> tuple[str, ...]:
    what = decided(view, members, exactly=exactly)
    assert isinstance(what, Steps), what
    assert what.actions == (), "nothing is done"
    return what.describe()


def test_one_that_is_whole_may_stop() -> None:
    view = formed().view()
    assert decided(view) == Done()
    assert serving_primaries(SPEC, view) == (S00, S10, S20)
    assert in_sync_with_primary(SPEC, view) == ALL


@pytest.mark.parametrize("gone", [False, True], ids=["its link is down", "it doesn't answer"])
def test_a_replica_that_lacks_something_is_waited_for(gone: bool) -> None:  # noqa: FBT001
    view = formed().view()
    view = absent(view, S11) if gone else change(view, S11, link=DOWN)
    assert waits(view) == ("s1-1: wait until it has all that s1-0, its primary, has",)
    assert in_sync_with_primary(SPEC, view) == ALL - {S11}
    assert decided(view, ALL - {S11}) == Done(), "unless it was given up"


def test_under_writes_a_little_may_be_under_way_and_in_the_end_nothing() -> None:
    view = formed().view()
    view = change(view, S00, offset=view.nodes[S01].offset + 1)
    assert decided(view) == Done()
    assert waits(view, exactly=True) == ("s0-1: wait until it has all that s0-0, its primary, has",)
    assert decided(change(view, S01, offset=view.nodes[S00].offset), exactly=True) == Done()


def test_a_shard_without_its_primary_is_waited_for_once() -> None:
    world = formed()

    def failed(peer: Peer) -> Peer:
        return replace(peer, failed=True, linked=False)

    lost = change_peers(world.view(), world.at(S20).node_id, ALL - {S20}, failed)
    view = change(absent(lost, S20), S21, link=DOWN)
    assert waits(view) == ("s2-0: wait until shard 2 has one primary that answers",)
    assert serving_primaries(SPEC, view) == (S00, S10)


def test_shards_that_have_stopped_before_are_not_missed() -> None:
    view = absent(formed().view(), S00, S01, S10, S11)
    assert decided(view, frozenset({S20, S21}), exactly=True) == Done()


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ("aof_enabled:1\r\naof_last_write_status:ok\r\nrdb_last_bgsave_status:err\r\n", ""),
        ("aof_enabled:1\r\naof_last_write_status:err\r\n", "the append-only file couldn't be written to"),
        ("aof_enabled:0\r\nrdb_last_bgsave_status:err\r\n", "the last snapshot couldn't be written"),
        ("aof_enabled:0\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:err\r\n", ""),
        ("", ""),
    ],
)
def test_a_disk_that_takes_nothing_is_told_of(info: str, told: str) -> None:
    assert disk_trouble(info) == told
