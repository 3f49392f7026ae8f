"""What belongs to somebody else is refused before anything is written to any server (report C2)."""

from __future__ import annotations

import time

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import BUS_PORT, NODE_TIMEOUT_MS, PORT, Fleet
from valkeyctl.dataplane import Member, errors

SPEC = scenes.spec_of(3, 0, node_timeout_ms=NODE_TIMEOUT_MS)


def other_cluster(line: str) -> Fleet:
    """The servers of another instance, whose names end in its own domain."""
    return Fleet(scenes.other_spec(3, 0), line)


def await_text(fleet: Fleet, member: Member, text: str) -> None:
    """Return once a member knows a node whose line has this text."""
    deadline = time.monotonic() + 15
    while text not in str(fleet.ask(member, "CLUSTER", "NODES")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_refuses_a_cluster_that_another_one_was_joined_with(line: str) -> None:
    with Fleet(SPEC, line) as fleet, other_cluster(line) as other:
        fleet.start()
        other.start()
        scenes.run(fleet)
        scenes.run(other)
        stranger = other.servers[Member(0, 0)]
        fleet.ask(Member(1, 0), "CLUSTER", "DELSLOTSRANGE", 6000, 6010)  # there would be something to do
        fleet.ask(Member(0, 0), "CLUSTER", "MEET", stranger.address, PORT, BUS_PORT)
        await_text(fleet, Member(0, 0), "u-s")
        before = scenes.commands_counted(fleet)
        error = scenes.blocked_reason(fleet)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        assert "u-s" in str(error)
        assert "belongs to somebody else" in str(error)
        assert "Separate the two clusters" in error.remedy


def test_refuses_a_pod_of_ours_that_is_part_of_another_cluster(line: str) -> None:
    """A fresh instance, one Pod of which was pulled into another cluster; nothing is formed around it."""
    with Fleet(SPEC, line) as fleet, other_cluster(line) as other:
        fleet.start()
        other.start()
        scenes.run(other)
        ours = fleet.servers[Member(2, 0)]
        other.ask(Member(0, 0), "CLUSTER", "MEET", ours.address, PORT, BUS_PORT)
        await_text(fleet, Member(2, 0), "u-s")
        before, before_other = scenes.commands_counted(fleet), scenes.commands_counted(other)
        error = scenes.blocked_reason(fleet)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        scenes.assert_only_reads(before_other, scenes.commands_counted(other))
        assert "s2-0 is in one cluster with u-s" in str(error)


def test_is_not_done_beside_a_stranger_without_a_name(line: str) -> None:
    """It may be a member that hasn't told its name yet, so it is waited for; it is named in the end."""
    with Fleet(SPEC, line) as fleet, Fleet(SPEC, line, {"cluster-announce-hostname": ""}) as nameless:
        fleet.start()
        scenes.run(fleet)
        nameless.start(Member(0, 0))
        stranger = nameless.servers[Member(0, 0)].address
        stranger_id = nameless.ids()[Member(0, 0)]
        fleet.ask(Member(0, 0), "CLUSTER", "MEET", stranger, PORT, BUS_PORT)
        await_text(fleet, Member(0, 0), stranger_id)
        before = scenes.commands_counted(fleet)
        with pytest.raises(errors.DeadlineExceeded) as caught:
            scenes.run(fleet, deadline_s=3)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        assert f"hears the name of {stranger}:{PORT} (node {stranger_id[:8]})" in str(caught.value)


def test_two_strangers_with_keys_for_the_same_slots_never_meet(line: str) -> None:
    """The server would settle it by deleting one side's keys."""
    spec = scenes.spec_of(2, 0, node_timeout_ms=NODE_TIMEOUT_MS)
    with Fleet(spec, line) as fleet:
        fleet.start()
        for member in spec.members:
            fleet.ask(member, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            fleet.await_state_ok(member)
            scenes.write(fleet, member, spec.layout[0], 1)
        before = scenes.commands_counted(fleet)
        error = scenes.blocked_reason(fleet)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        assert "s0-0 and s1-0 don't know each other, both claim slots 0-16383, and both hold keys" in str(error)
        assert [fleet.ask(member, "DBSIZE") for member in spec.members] == [1, 1]


def test_an_empty_stranger_gives_way_to_the_one_that_holds_keys(line: str) -> None:
    spec = scenes.spec_of(2, 0, node_timeout_ms=NODE_TIMEOUT_MS)
    with Fleet(spec, line) as fleet:
        fleet.start()
        fleet.ask(Member(0, 0), "CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        fleet.ask(Member(1, 0), "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        fleet.await_state_ok(Member(0, 0))
        keys = scenes.write(fleet, Member(0, 0), spec.layout[0], 5)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(spec.layout))
        assert scenes.read(fleet, list(keys)) == keys
