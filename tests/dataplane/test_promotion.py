"""What the start guard relies on, by real servers: elections at once, takeovers without votes, and what follows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tests.dataplane.scenes import layout_of, look, primaries, read, run_fresh, spec_of, write
from tests.dataplane.servers import NODE_TIMEOUT_MS, READY_S, Fleet
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.view import Role

SPEC = spec_of(3, 1)


def formed(fleet: Fleet) -> tuple[list[Member], list[Member], Mapping[str, str]]:
    """Each shard's primary and replica, and keys that are written to all of them."""
    view = run_fresh(fleet)
    firsts = [primaries(view)[shard] for shard in range(SPEC.shards)]
    keys: dict[str, str] = {}
    for shard, first in enumerate(firsts):
        keys |= write(fleet, first, layout_of(view)[shard], 10)
    return firsts, [Member(first.shard, 1 - first.ordinal) for first in firsts], keys


def failover(fleet: Fleet, how: str, *members: Member) -> None:
    for member in members:
        fleet.ask(member, "CLUSTER", "FAILOVER", how)


def await_role(fleet: Fleet, role: Role, members: Sequence[Member], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not all(m in (view := look(fleet)).nodes and view.nodes[m].role is role for m in members):
        assert time.monotonic() < deadline, {str(m): node.role for m, node in view.nodes.items()}
        time.sleep(0.02)


def test_a_forced_election_does_not_wait_for_the_node_timeout(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        firsts, seconds, keys = formed(fleet)
        fleet.stop(firsts[0])
        failover(fleet, "FORCE", seconds[0])
        await_role(fleet, Role.PRIMARY, seconds[:1], NODE_TIMEOUT_MS / 1000)
        assert read(fleet, list(keys)) == keys


def test_without_a_majority_only_a_takeover_helps_and_the_empty_primaries_follow(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        firsts, seconds, keys = formed(fleet)
        fleet.stop(*firsts)
        failover(fleet, "FORCE", *seconds)
        time.sleep(2.0)
        assert all(look(fleet).nodes[second].role is Role.REPLICA for second in seconds)
        failover(fleet, "TAKEOVER", *seconds)
        await_role(fleet, Role.PRIMARY, seconds, 1.0)
        # As their containers would, with their node tables and nothing else.
        for first in firsts:
            fleet.servers[first].start()
        for first in firsts:
            fleet.servers[first].await_answer()
        await_role(fleet, Role.REPLICA, firsts, READY_S)
        for member in (*firsts, *seconds):
            fleet.await_state_ok(member)
        assert read(fleet, list(keys)) == keys
        view = look(fleet)
        owners = [view.nodes[second] for second in seconds]
        assert len({owner.config_epoch for owner in owners}) == len(owners), "collisions of epochs are settled"


def test_an_empty_primary_that_starts_before_its_replica_was_promoted_is_copied(line: str) -> None:
    # What the guard is for: were this to change, it would be needed no more.
    with Fleet(SPEC, line) as fleet:
        firsts, seconds, _ = formed(fleet)
        assert look(fleet).nodes[seconds[0]].keys == 10
        fleet.stop(firsts[0])
        fleet.servers[firsts[0]].start()
        deadline = time.monotonic() + READY_S
        while (node := look(fleet).nodes.get(seconds[0])) is None or node.keys:
            assert time.monotonic() < deadline
            time.sleep(0.05)
