"""Members that are out of reach while they leave: forgotten once their shard has given all it had, and not before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.test_moves import formed, target
from tests.unit.dataplane.test_properties import finish
from tests.unit.dataplane.views import change_all, change_peers
from tests.unit.dataplane.world import World
from valkeyctl.dataplane import Done, Member, Spec, Steps, Unreachable, Why, plan, planned_layout
from valkeyctl.dataplane.knowledge import PATIENCE_S
from valkeyctl.dataplane.slots import EMPTY
from valkeyctl.dataplane.steps import Forget, MigrateSlots
from valkeyctl.dataplane.view import View

THREE = Spec("t", 3, 1, planned_layout(3), formed=True)
AWAY = Member(2, 1)


def without_one() -> World:
    """A scale-in whose leaving shard has lost a replica's server, but not its Pod."""
    world = formed(THREE)
    world.become(target(2, 1, THREE.layout))
    world.remove(AWAY)
    world.settle()
    return world


def test_is_forgotten_by_all_after_its_shard_has_given_all_it_had() -> None:
    world = without_one()
    what = plan(world.spec, world.view())
    assert isinstance(what, Steps)
    assert any(isinstance(step, MigrateSlots) for step in what.actions)
    assert not any(isinstance(step, Forget) for step in what.actions)
    gone = next(node.node_id for node in world.nodes.values() if node.member == AWAY)
    assert finish(world) == Done()
    assert not any(gone in node.known for node in world.nodes.values() if node.alive)
    world.check_served()


def test_is_not_forgotten_while_slots_are_open_to_it() -> None:
    """A scale-out that was killed while keys were sent, and reverted: they may be where nobody answers now."""
    three = Spec("t", 3, 0, planned_layout(3), formed=True)
    world = formed(three, since_9=False)
    world.become(target(4, 0, three.layout))
    world.phases = lambda: 3
    taker = Member(3, 0)
    while not world.at(taker).importing:
        what = plan(world.spec, world.view())
        assert isinstance(what, Steps)
        for step in what.actions:
            world.take(step)
        world.settle()
    world.become(three)
    seen = world.view()
    silent = Unreachable(seen.nodes[taker].endpoint, Why.NO_ANSWER, "silent", for_s=PATIENCE_S)
    view = View({**seen.outcomes, taker: silent})
    lost = world.at(taker).node_id
    missed = change_peers(view, lost, three.members, lambda peer: replace(peer, linked=False, failed=True))
    what = plan(world.spec, missed)
    assert isinstance(what, Steps)
    assert not [step for step in what.actions if isinstance(step, Forget)]
    assert "slots are open between the two" in "; ".join(what.describe())
    closed = change_all(missed, migrating={}, importing={})
    what = plan(world.spec, closed)
    assert isinstance(what, Steps)
    assert {step.member for step in what.actions if isinstance(step, Forget)} == set(three.members)


def test_one_that_the_others_reach_is_awaited_for_a_while_and_then_left() -> None:
    world = without_one()
    assert finish(world) == Done()
    view = world.view()
    one = view.nodes[Member(0, 0)]
    former = next(node for node in world.nodes.values() if node.member == AWAY)
    alive = replace(one, peers={**one.peers, former.node_id: world._peer(former)})
    for for_s, waits in ((0.0, True), (PATIENCE_S, False)):
        away = replace(world.view(for_s=for_s).missing[AWAY])
        what = plan(world.spec, View({**view.outcomes, Member(0, 0): alive, AWAY: away}))
        assert isinstance(what, Steps) is waits
        assert not (isinstance(what, Steps) and what.actions)


@pytest.mark.parametrize("who", ["the one that stays", "the one that leaves"])
def test_nobody_leaves_while_it_is_being_introduced(who: str) -> None:
    """A scale-out that was stopped just after it began, and reverted: who is met would be known again."""
    world = formed(THREE)
    world.become(Spec("t", 4, 0, planned_layout(4)))
    world.become(replace(THREE, leaving=()))
    leaver, stays = Member(3, 0), Member(0, 0)
    view = world.view()
    assert plan(world.spec, view) == Done()
    one, other = (stays, leaver) if who == "the one that stays" else (leaver, stays)
    met = replace(world._peer(world.at(other)), node_id="f" * 40, handshake=True, linked=False, slots=EMPTY)
    node = view.nodes[one]
    what = plan(world.spec, View({**view.outcomes, one: replace(node, peers={**node.peers, met.node_id: met})}))
    assert isinstance(what, Steps)
    assert what.actions == ()
    assert "s3-0: wait until nobody is being introduced to it any more" in what.describe()
