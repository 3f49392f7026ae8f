"""A forming that was interrupted after any step, with a node lost on top of that, is completed by the next run."""

from __future__ import annotations

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import Member, View, errors

SPEC = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS)
# Steps that forming 3 shards with a replica each takes when they are taken one by one: 3 config epochs, 3 assignments,
# 15 introductions, 3 attachments, and some to tell slots; tested until after the last one that is always there.
STEPS = range(26)
# The steps are the same for the older line; every other one is enough to see that its servers take them alike.
CASES = [*(("9.1", steps) for steps in STEPS), *(("8.1", steps) for steps in STEPS[::2])]


def write_where_safe(fleet: Fleet, view: View, dropped: Member) -> dict[str, str]:
    """Write keys to every primary that serves already, but not where the node to be dropped is to be the only copy."""
    keys: dict[str, str] = {}
    for member, node in view.nodes.items():
        only_copy = member == dropped and not scenes.replicas_of(view, node)
        if node.slots and node.state_ok and not only_copy:
            keys |= scenes.write(fleet, member, node.slots, 5)
    return keys


@pytest.mark.parametrize(("line", "steps"), CASES)
def test_completes_what_was_interrupted_and_lost_a_node(line: str, steps: int) -> None:
    dropped = SPEC.members[steps * 5 % len(SPEC.members)]
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        scenes.take_steps(fleet, steps)
        keys = write_where_safe(fleet, scenes.look(fleet), dropped)
        ids = fleet.ids()
        fleet.replace(dropped)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        kept = {member: node.node_id for member, node in view.nodes.items() if member != dropped}
        assert kept == {member: node_id for member, node_id in ids.items() if member != dropped}
        assert view.nodes[dropped].node_id != ids[dropped]
        assert scenes.read(fleet, list(keys)) == keys


@pytest.mark.parametrize(("line", "rounds"), [("9.1", 1), ("8.1", 3), ("9.1", 4), ("8.1", 6), ("9.1", 8)])
def test_completes_what_was_interrupted_between_rounds(line: str, rounds: int) -> None:
    left = iter(range(rounds))

    def may_go_on() -> None:
        if next(left, None) is None:
            raise errors.Interrupted("the parent process is gone")

    with Fleet(SPEC, line) as fleet:
        fleet.start()
        with pytest.raises(errors.Interrupted, match="parent process"):
            scenes.run(fleet, may_go_on=may_go_on)
        ids = fleet.ids()
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert fleet.ids() == ids


def test_completes_nodes_that_know_different_parts(line: str) -> None:
    """Two halves that have met only among themselves, slots assigned in one, a replica attached in the other."""
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        one, other = SPEC.members[:3], SPEC.members[3:]
        for half in (one, other):
            for member in half[1:]:
                fleet.meet(half[0], member)
        fleet.ask(Member(0, 0), "CLUSTER", "ADDSLOTSRANGE", 0, 5460)
        fleet.ask(Member(2, 1), "CLUSTER", "ADDSLOTSRANGE", 10922, 16383)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        assert scenes.primaries(view) == {0: Member(0, 0), 1: Member(1, 0), 2: Member(2, 1)}


def test_assigns_what_is_left_of_a_shards_slots(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        fleet.ask(Member(1, 0), "CLUSTER", "ADDSLOTSRANGE", 5461, 6000, 7000, 7000)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))


def test_attaches_to_the_member_that_owns_the_slots_whatever_its_ordinal(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        fleet.ask(Member(1, 1), "CLUSTER", "ADDSLOTSRANGE", 5461, 10921)
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.primaries(view)[1] == Member(1, 1)
        assert view.nodes[Member(1, 0)].primary_id == view.nodes[Member(1, 1)].node_id


def test_goes_on_without_a_pod_that_never_comes() -> None:
    """The rest is completed; what is missing is named in the end (report C12)."""
    with Fleet(SPEC, "9.1") as fleet:
        fleet.start(*(member for member in SPEC.members if member != Member(2, 1)))
        with pytest.raises(errors.DeadlineExceeded, match="s2-1: wait until it has a running Pod") as caught:
            scenes.run(fleet, deadline_s=14)
        view = caught.value.view
        assert view is not None
        assert scenes.layout_of(view) == dict(enumerate(SPEC.layout))
        assert all(node.state_ok for node in view.nodes.values())
        fleet.start(Member(2, 1))
        scenes.assert_ready(fleet, scenes.run(fleet))
