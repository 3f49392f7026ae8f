"""What real servers leave on their disks when they are killed, as the start guard reads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise

import pytest

from tests.dataplane.scenes import layout_of, look, primaries, run_fresh, spec_of, write
from tests.dataplane.servers import READY_S, Fleet
from valkeyctl.agent.disk import read_disk
from valkeyctl.agent.guard import Hold, Start, decide
from valkeyctl.agent.tale import Kind, Server, Tale
from valkeyctl.agent.worth import Scale
from valkeyctl.dataplane.model import Member, member_of_host
from valkeyctl.dataplane.view import Role

SPEC = spec_of(3, 1)
LOGGED: Mapping[str, str] = {"appendonly": "yes", "appendfsync": "always"}


def told(fleet: Fleet, member: Member, *, appendonly: bool = False) -> Tale:
    return read_disk(
        fleet.servers[member].directory,
        member,
        lambda host: member_of_host(fleet.spec.instance, host),
        appendonly=appendonly,
        always=appendonly,
    )


def await_known(fleet: Fleet, member: Member, node_id: str) -> None:
    """Return once a server knows a node, past their introduction."""
    deadline = time.monotonic() + READY_S
    while f"{node_id} " not in str(fleet.ask(member, "CLUSTER", "NODES")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_node_table_of_a_killed_server_is_what_it_told(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        view = run_fresh(fleet)
        fleet.stop(*SPEC.members)
        for member, node in view.nodes.items():
            tale = told(fleet, member)
            assert (tale.node_id, tale.role, tale.primary_id) == (node.node_id, node.role, node.primary_id)
            assert (tale.slots, tale.config_epoch, tale.current_epoch) == (
                node.slots,
                node.config_epoch if node.role is Role.PRIMARY else tale.config_epoch,
                node.current_epoch,
            )
            owners = {owner.member: owner for owner in tale.owners}
            assert {m: o.slots for m, o in owners.items()} == {
                m: n.slots for m, n in view.nodes.items() if n.slots and m != member
            }
            assert all(owner.node_id == view.nodes[m].node_id for m, owner in owners.items() if m is not None)
            shard = node.primary_id or node.node_id
            assert {one.member for one in tale.followers} == {
                m for m, n in view.nodes.items() if n.primary_id == shard and m != member
            }


def test_a_snapshot_has_a_place_in_the_stream_that_its_copy_has_too(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        view = run_fresh(fleet)
        first, second = Member(0, primaries(view)[0].ordinal), Member(0, 1 - primaries(view)[0].ordinal)
        slots = layout_of(view)[0]
        write(fleet, first, slots, 5)
        fleet.ask(first, "SAVE")
        write(fleet, first, slots, 20)
        fleet.ask(second, "SAVE")
        end = look(fleet).nodes[second]
        fleet.stop(first, second)
        left, copy = told(fleet, first), told(fleet, second)
        assert left.data.kind is copy.data.kind is Kind.SNAPSHOT
        assert left.data.replication_id == copy.data.replication_id == end.replication_id
        assert left.data.offset is not None
        assert copy.data.offset is not None
        assert 0 < left.data.offset < copy.data.offset <= end.offset
        assert isinstance(decide(left, {second: copy}, 0.0), Hold)
        # The replica loads what it had, and goes on from there in the same stream.
        fleet.resume(second)
        again = look(fleet).nodes[second]
        assert (again.replication_id, again.offset) == (copy.data.replication_id, copy.data.offset)


def test_offsets_go_on_counting_from_run_to_run_of_a_primary_with_snapshots(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        view = run_fresh(fleet)
        first, slots = primaries(view)[0], layout_of(view)[0]
        places: list[tuple[str, int]] = []
        for _ in range(3):
            write(fleet, first, slots, 10)
            fleet.ask(first, "SAVE")
            fleet.stop(first)
            data = told(fleet, first).data
            assert data.offset is not None
            places.append((data.replication_id, data.offset))
            fleet.servers[first].start()  # at its old address: the others find it again by themselves
            fleet.servers[first].await_answer()
            fleet.await_state_ok(first)
        assert len({stream for stream, _ in places}) == 3
        assert all(earlier < later for (_, earlier), (_, later) in pairwise(places))


def test_a_log_is_read_where_the_server_loads_one(line: str) -> None:
    with Fleet(SPEC, line, LOGGED) as fleet:
        view = run_fresh(fleet)
        first, slots = primaries(view)[0], layout_of(view)[0]
        second = Member(0, 1 - first.ordinal)
        write(fleet, first, slots)
        fleet.stop(first, second)
        left, copy = told(fleet, first, appendonly=True), told(fleet, second, appendonly=True)
        assert left.data.kind is copy.data.kind is Kind.FULL_LOG
        assert left.data.offset is None
        assert not Scale([copy]).is_ahead(copy, left)
        assert isinstance(decide(left, {second: copy}, 0.0), Start)
        assert told(fleet, first).data.kind is Kind.NOTHING, "without appendonly a server loads no log"


@pytest.mark.parametrize("options", [{}, LOGGED], ids=["nothing kept", "log"])
def test_a_server_that_never_followed_anybody_has_nothing(line: str, options: Mapping[str, str]) -> None:
    with Fleet(SPEC, line, options) as fleet:
        fleet.start(Member(0, 0), Member(0, 1))
        fleet.meet(Member(0, 0), Member(0, 1))
        new = told(fleet, Member(0, 0), appendonly=bool(options))
        assert (new.role, bool(new.slots), new.server) == (Role.PRIMARY, False, Server.DOWN)
        assert isinstance(decide(new, {}, 0.0), Start)
        primary_id = fleet.ids()[Member(0, 0)]
        await_known(fleet, Member(0, 1), primary_id)
        fleet.servers[Member(0, 0)].freeze()
        fleet.ask(Member(0, 1), "CLUSTER", "REPLICATE", primary_id)
        fleet.stop(Member(0, 1))
        orphan = told(fleet, Member(0, 1), appendonly=bool(options))
        assert (orphan.role, orphan.primary_id) == (Role.REPLICA, primary_id)
        assert orphan.data.kind is Kind.NOTHING


def test_a_primary_that_was_replaced_while_it_was_away_finds_its_heir(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        view = run_fresh(fleet)
        first = primaries(view)[0]
        second = Member(0, 1 - first.ordinal)
        fleet.stop(first)
        fleet.ask(second, "CLUSTER", "FAILOVER", "TAKEOVER")
        fleet.await_state_ok(second)
        fleet.stop(second)
        left, heir = told(fleet, first), told(fleet, second)
        assert heir.role is Role.PRIMARY
        assert heir.config_epoch > left.config_epoch
        assert heir.slots == left.slots
        # Its heir begins, and only when that doesn't come up it serves what it has.
        verdict = decide(left, {second: heir}, 0.0)
        assert isinstance(verdict, Hold)
        assert "newer epoch" in verdict.why
        assert isinstance(decide(heir, {first: left}, 0.0), Start)
        assert isinstance(decide(left, {second: heir}, verdict.until_s), Start)
