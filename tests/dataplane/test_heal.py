"""A cluster that was right and is so no more: it heals, or is repaired, and no key is lost."""

from __future__ import annotations

import time

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import Member, Phase, Spec, View, errors, report

SPEC = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)


def formed(fleet: Fleet) -> tuple[View, dict[str, str]]:
    """Start and form a fleet and write some keys to every shard."""
    fleet.start()
    view = scenes.run(fleet)
    keys: dict[str, str] = {}
    for shard, member in scenes.primaries(view).items():
        keys |= scenes.write(fleet, member, fleet.spec.layout[shard])
    return view, keys


def fail_over(fleet: Fleet, replica: Member) -> None:
    """Have a replica take over from its living primary."""
    fleet.ask(replica, "CLUSTER", "FAILOVER")
    deadline = time.monotonic() + 10
    while "role:master" not in str(fleet.ask(replica, "INFO", "replication")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_keeps_the_roles_after_a_failover(line: str) -> None:
    """Ordinal 1 stays primary (report C7)."""
    with Fleet(SPEC, line) as fleet:
        _, keys = formed(fleet)
        fail_over(fleet, Member(1, 1))
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.primaries(view)[1] == Member(1, 1)
        before = scenes.commands_counted(fleet)
        scenes.run(fleet)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        assert scenes.read(fleet, list(keys)) == keys


def test_awaits_a_failover_and_attaches_the_empty_successor(line: str) -> None:
    """A primary's Pod comes back empty under a new id while the others elect its replica (reports C6, C15)."""
    with Fleet(SPEC, line) as fleet:
        before, keys = formed(fleet)
        fleet.replace(Member(0, 0))
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.primaries(view)[0] == Member(0, 1)
        assert view.nodes[Member(0, 1)].node_id == before.nodes[Member(0, 1)].node_id
        assert scenes.read(fleet, list(keys)) == keys


def test_attaches_a_replica_to_its_own_shards_primary(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        before, keys = formed(fleet)
        wrong = before.nodes[Member(2, 0)].node_id
        fleet.ask(Member(0, 1), "CLUSTER", "REPLICATE", wrong)
        told = scenes.Told()
        view = scenes.run(fleet, told=told)
        scenes.assert_ready(fleet, view)
        assert told.done == ("s0-1: replicate s0-0",)
        assert scenes.read(fleet, list(keys)) == keys


def test_attaches_a_replica_that_was_reset_by_hand(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        _, keys = formed(fleet)
        fleet.ask(Member(0, 1), "CLUSTER", "RESET", "SOFT")
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.primaries(view)[0] == Member(0, 0)
        assert scenes.read(fleet, list(keys)) == keys


def test_attaches_a_replica_that_was_detached_by_hand() -> None:
    with Fleet(SPEC, "9.1") as fleet:
        _, keys = formed(fleet)
        fleet.ask(Member(0, 1), "CLUSTER", "REPLICATE", "NO", "ONE")
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.primaries(view)[0] == Member(0, 0)
        assert scenes.read(fleet, list(keys)) == keys


@pytest.mark.parametrize("slots", [(5461, 6000), (5461, 10921)])
def test_assigns_slots_again_that_were_deleted_by_hand(line: str, slots: tuple[int, int]) -> None:
    """Part of a shard's slots, or all: its keys are still there, and nothing needs consent."""
    with Fleet(SPEC, line) as fleet:
        _, keys = formed(fleet)
        for member in SPEC.members:
            if member.ordinal == 0:
                fleet.ask(member, "CLUSTER", "DELSLOTSRANGE", *slots)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        assert scenes.primaries(view) == {shard: Member(shard, 0) for shard in range(3)}
        assert scenes.read(fleet, list(keys)) == keys


def test_has_a_restarted_replica_elected_that_would_not_ask_for_it(line: str) -> None:
    """A primary's volume is lost while its replica is down: to the server the replica's data is of unknown age."""
    with Fleet(SPEC, line, {"appendonly": "yes", "appendfsync": "always"}) as fleet:
        before, keys = formed(fleet)
        fleet.stop(Member(0, 0), Member(0, 1))
        fleet.resume(Member(0, 1))
        fleet.start(Member(0, 0))
        told = scenes.Told()
        view = scenes.run(fleet, told=told)
        scenes.assert_ready(fleet, view)
        assert "s0-1: ask to be elected primary, its primary is gone" in told.done
        assert scenes.primaries(view)[0] == Member(0, 1)
        assert view.nodes[Member(0, 1)].node_id == before.nodes[Member(0, 1)].node_id
        assert scenes.read(fleet, list(keys)) == keys


def test_frees_a_member_of_a_shard_all_of_which_replicate_another(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        before = scenes.run_fresh(fleet)
        keys = scenes.write(fleet, Member(0, 0), SPEC.layout[0])
        upstream = before.nodes[Member(0, 0)].node_id
        fleet.ask(Member(2, 0), "CLUSTER", "DELSLOTSRANGE", *SPEC.layout[2].ranges[0])
        for member in (Member(2, 0), Member(2, 1)):
            fleet.ask(member, "CLUSTER", "REPLICATE", upstream)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        assert scenes.read(fleet, list(keys)) == keys


def test_forgets_an_entry_of_a_node_that_is_gone(line: str) -> None:
    """On all members in one round, so that none brings it back (report C6)."""
    with Fleet(SPEC, line) as fleet:
        before, _ = formed(fleet)
        gone = before.nodes[Member(2, 1)].node_id
        fleet.replace(Member(2, 1))
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        time.sleep(2.0)  # gossip would bring it back by now
        for member in SPEC.members:
            assert gone not in str(fleet.ask(member, "CLUSTER", "NODES"))


def test_members_find_each_other_after_all_changed_their_addresses(line: str) -> None:
    """Every Pod restarts with its data under a new address: same ids, same roles, keys kept (report C1)."""
    with Fleet(SPEC, line, {"appendonly": "yes", "appendfsync": "always"}) as fleet:
        before, keys = formed(fleet)
        fleet.restart(*SPEC.members)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert {m: n.node_id for m, n in view.nodes.items()} == {m: n.node_id for m, n in before.nodes.items()}
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        assert scenes.read(fleet, list(keys)) == keys


def test_never_meets_an_address_that_now_belongs_to_another(line: str) -> None:
    """What was our member's address is another instance's now; the two don't merge (report C2)."""
    with Fleet(SPEC, line) as fleet, Fleet(Spec("u", 3, 0, scenes.spec_of(3, 0).layout), line) as other:
        formed(fleet)
        old = fleet.servers[Member(0, 1)].address
        fleet.stop(Member(0, 1))
        other.start()
        other.stop(Member(0, 0))
        other.servers[Member(0, 0)].address = old
        other.servers[Member(0, 0)].start()
        other.servers[Member(0, 0)].await_answer()
        other_view = scenes.run(other)
        fleet.start(Member(0, 1))
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        scenes.assert_ready(other, other_view)
        ours, theirs = set(fleet.ids().values()), set(other.ids().values())
        assert not any(node in str(fleet.ask(m, "CLUSTER", "NODES")) for node in theirs for m in fleet.directory())
        assert not any(node in str(other.ask(m, "CLUSTER", "NODES")) for node in ours for m in other.directory())


def test_asks_for_consent_before_lost_slots_go_to_an_empty_node(line: str) -> None:
    """A shard of a formed instance has lost every copy: nothing is given away until a person agrees."""
    spec = scenes.spec_of(3, 0, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)
    with Fleet(spec, line) as fleet:
        _, keys = formed(fleet)
        fleet.replace(Member(1, 0))
        error = scenes.blocked_reason(fleet)
        assert "shard 1: t-s1-0" in str(error)
        assert "every copy of its data" in str(error)
        assert "allowDataLoss" in error.remedy
        assert error.view is not None
        assert report(spec, error.view).phase is Phase.FAILED
        assert fleet.ask(Member(1, 0), "DBSIZE") == 0
        consenting = scenes.spec_of(3, 0, node_timeout_ms=NODE_TIMEOUT_MS, formed=True, accept_data_loss=True)
        view = scenes.run(fleet, consenting)
        scenes.assert_ready(fleet, view, consenting)
        assert scenes.layout_of(view) == dict(enumerate(spec.layout))
        kept = {key: value for key, value in keys.items() if fleet.slot(key) not in spec.layout[1]}
        assert scenes.read(fleet, list(kept)) == kept


def test_forms_again_when_every_member_came_back_empty(line: str) -> None:
    """Nothing is left that consent could protect."""
    with Fleet(SPEC, line) as fleet:
        formed(fleet)
        fleet.stop(*SPEC.members)
        fleet.start()
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))


def test_says_that_the_majority_is_lost_for_good(line: str) -> None:
    """Two of three primaries are replaced by empty nodes at once: their replicas can't be elected (report C10)."""
    with Fleet(SPEC, line) as fleet:
        _, keys = formed(fleet)
        fleet.stop(Member(0, 0), Member(1, 0))
        fleet.start(Member(0, 0), Member(1, 0))
        error = scenes.blocked_reason(fleet)
        assert "2 of 3 primaries are gone for good" in str(error)
        assert fleet.ask(Member(0, 1), "DBSIZE") == len(keys) // 3, "the copies are kept"
        assert fleet.ask(Member(1, 1), "DBSIZE") == len(keys) // 3


def test_one_broken_shard_keeps_no_other_from_being_repaired(line: str) -> None:
    """Report C9."""
    spec = scenes.spec_of(4, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)
    with Fleet(spec, line) as fleet:
        before, _ = formed(fleet)
        fleet.stop(Member(0, 0), Member(0, 1))
        fleet.start(Member(0, 0), Member(0, 1))
        fleet.ask(Member(2, 1), "CLUSTER", "REPLICATE", before.nodes[Member(1, 0)].node_id)
        with pytest.raises(errors.Blocked, match="shard 0") as caught:
            scenes.run(fleet)
        view = caught.value.view
        assert view is not None
        assert view.nodes[Member(2, 1)].primary_id == view.nodes[Member(2, 0)].node_id
        found = report(spec, view)
        assert found.primaries == {f"s{shard}": f"t-s{shard}-0" for shard in (1, 2, 3)}


def test_closes_slots_that_were_left_open_without_moving_a_key(line: str) -> None:
    """On the primaries and on their replicas (reports C4, C18)."""
    with Fleet(SPEC, line) as fleet:
        before, keys = formed(fleet)
        one, other = before.nodes[Member(0, 0)].node_id, before.nodes[Member(1, 0)].node_id
        fleet.ask(Member(0, 0), "CLUSTER", "SETSLOT", 77, "MIGRATING", other)
        fleet.ask(Member(1, 0), "CLUSTER", "SETSLOT", 77, "IMPORTING", one)
        for member in SPEC.members[:4]:
            await_open(fleet, member)  # their replicas open the slot too
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.read(fleet, list(keys)) == keys


def test_closes_a_slot_that_only_a_replica_still_has_open(line: str) -> None:
    """It was cut off when its primary closed the slot, and a full copy doesn't tell it (report C18)."""
    with Fleet(SPEC, line, {"repl-backlog-size": "16384"}) as fleet:
        before, keys = formed(fleet)
        primary, replica = Member(0, 0), Member(0, 1)
        fleet.ask(primary, "CLUSTER", "SETSLOT", 77, "MIGRATING", before.nodes[Member(1, 0)].node_id)
        await_open(fleet, replica)
        fleet.servers[replica].freeze()
        fleet.ask(primary, "CLIENT", "KILL", "TYPE", "replica")
        fleet.ask(primary, "CLUSTER", "SETSLOT", 77, "STABLE")
        with fleet.client(primary) as client:
            for number in range(200):
                client.set(scenes.key_in(SPEC.layout[0], number % 20), "x" * 1000)
        fleet.servers[replica].thaw()
        told = scenes.Told()
        view = scenes.run(fleet, told=told)
        scenes.assert_ready(fleet, view)
        assert "s0-0: close slot 77" in told.done
        assert len(scenes.read(fleet, list(keys))) == len(keys)


def await_open(fleet: Fleet, member: Member) -> None:
    """Return once a member has a slot open."""
    deadline = time.monotonic() + 10
    while not ((node := scenes.look(fleet).nodes[member]).migrating or node.importing):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_finishes_a_half_moved_slot_and_brings_it_home(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        before, _ = formed(fleet)
        one, other = before.nodes[Member(0, 0)].node_id, before.nodes[Member(1, 0)].node_id
        slot = 77
        key = scenes.key_in(SPEC.layout[0] & scenes.SlotSet.span(slot, slot), 0)
        fleet.ask(Member(0, 0), "SET", key, "stays")
        fleet.ask(Member(0, 0), "CLUSTER", "SETSLOT", slot, "MIGRATING", other)
        fleet.ask(Member(1, 0), "CLUSTER", "SETSLOT", slot, "IMPORTING", one)
        target = fleet.servers[Member(1, 0)]
        fleet.ask(Member(0, 0), "MIGRATE", target.address, 7379, key, 0, 5000)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        assert fleet.ask(Member(0, 0), "GET", key) == "stays"
