"""Members that some have forgotten and ban for a minute: no slot is given to them, however it looks at the moment."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.dataplane import scenes
from tests.dataplane.follower import writing
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from tests.dataplane.test_scale import assert_kept, become, declared, fill
from valkeyctl.dataplane import Done, Member, Plan, Spec, Steps, View, converge, plan, planned_layout
from valkeyctl.dataplane.plan_introduce import knows
from valkeyctl.dataplane.steps import Leave

FOUR = declared(4)
LEAVES = Member(3, 0)
WATCHED_S = NODE_TIMEOUT_MS / 1000
"""Twice as long as the pings of those that ban somebody take to reach everybody."""
AGAIN_S = 30.0
"""Less than the minute for which servers ban."""


def drain(fleet: Fleet, spec: Spec) -> None:
    """Scale in until nothing is left but to let go of who leaves."""

    def decide(spec: Spec, view: View) -> Plan:
        what = plan(spec, view)
        return Done() if isinstance(what, Steps) and Leave(LEAVES) in what.actions else what

    converge(
        spec,
        fleet.directory,
        fleet.dialer,
        deadline_s=scenes.DEADLINE_S,
        progress=scenes.Told(),
        may_go_on=lambda: None,
        decide=decide,
    )
    assert scenes.layout_of(scenes.look(fleet, spec)).keys() == set(range(spec.shards))


def introduce_until_known(fleet: Fleet, member: Member) -> None:
    """Have all others meet a member, again and again, and return when all know it, and it them, by links that stand."""
    deadline, met_at = time.monotonic() + AGAIN_S, 0.0
    while True:
        nodes = scenes.look(fleet, FOUR).nodes
        one, others = nodes[member], [node for node in nodes.values() if node.member != member]
        if all(knows(node, one) and knows(one, node) for node in others):
            return
        assert time.monotonic() < deadline, "a ban turns introductions away"
        if time.monotonic() - met_at > 0.3:
            for node in others:
                fleet.meet(node.member, member)
            met_at = time.monotonic()
        time.sleep(0.01)


def watch(fleet: Fleet) -> None:
    """Every member goes on to know all slots' owners, for as long as a ban takes to show."""
    until = time.monotonic() + WATCHED_S
    while time.monotonic() < until:
        assert all("cluster_slots_ok:16384" in str(fleet.ask(m, "CLUSTER", "INFO")) for m in fleet.directory())
        time.sleep(0.05)


@pytest.mark.parametrize("moment", ["forgotten", "known again"])
def test_who_is_banned_takes_slots_under_a_new_id(line: str, moment: str) -> None:
    """Who is introduced again, by itself or by somebody, is known to all until the next pings."""
    with Fleet(FOUR, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        drain(fleet, become(fleet, declared(3, 0, planned_layout(3, FOUR.layout))))
        banned_id = fleet.ids()[LEAVES]
        fleet.ask(Member(0, 0), "CLUSTER", "FORGET", banned_id)
        with writing(fleet) as written:
            if moment == "known again":
                introduce_until_known(fleet, LEAVES)
            view = scenes.run(fleet, FOUR)
            scenes.assert_ready(fleet, view, FOUR)
            watch(fleet)
        assert fleet.ids()[LEAVES] != banned_id
        assert_kept(fleet, written, keys)


def test_a_scale_in_that_was_stopped_while_it_let_go_is_reverted_at_once(line: str) -> None:
    """After each single step of it: nobody who lives is banned then, and the way back takes no longer than any."""
    with Fleet(FOUR, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        with writing(fleet) as written:
            for count in itertools.count(1):
                spec = become(fleet, declared(3, 0, planned_layout(3, FOUR.layout)))
                drain(fleet, spec)
                taken = scenes.take_steps(fleet, count, spec)
                view = scenes.run(fleet, FOUR, deadline_s=AGAIN_S)
                scenes.assert_ready(fleet, view, FOUR)
                watch(fleet)
                if taken < count:
                    break
        assert count > 2, "it leaves, and then the others forget its former id"
        assert_kept(fleet, written, keys)
