"""Slots change hands when who takes them knows of the giver what there is to know, and nobody's epoch is in dispute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.test_moves import formed, target
from tests.unit.dataplane.views import change, change_peers
from valkeyctl.dataplane import Member, SlotSet, Spec, Steps, View, plan, planned_layout
from valkeyctl.dataplane.steps import Action, MigrateSlots, MoveKeys, Remind
from valkeyctl.dataplane.view import Peer

THREE = Spec("t", 3, 0, planned_layout(3), formed=True)
GIVER, OTHER, TAKER = Member(0, 0), Member(1, 0), Member(3, 0)
Move = MigrateSlots | MoveKeys


def ready(*, since_9: bool) -> tuple[Spec, View]:
    """A scale-out whose new member is ready to take slots from all others."""
    world = formed(THREE, since_9=since_9)
    world.become(target(4, 0, THREE.layout))
    while not any(isinstance(step, Move) for step in actions(world.spec, world.view())):
        for step in actions(world.spec, world.view()):
            world.take(step)
        world.settle()
    return world.spec, world.view()


def actions(spec: Spec, view: View) -> tuple[Action, ...]:
    what = plan(spec, view)
    assert isinstance(what, Steps)
    return what.actions


def givers(done: tuple[Action, ...]) -> set[Member]:
    return {step.member for step in done if isinstance(step, Move)}


@pytest.mark.parametrize("since_9", [False, True], ids=["by keys", "atomic"])
@pytest.mark.parametrize("lacks", ["the slots", "some slots", "the epoch"])
def test_nobody_takes_slots_of_a_giver_that_it_has_not_heard(lacks: str, since_9: bool) -> None:  # noqa: FBT001
    """To such a server nobody owns the slot, and it turns keys and clients away; or its own claim may be the older."""
    spec, view = ready(since_9=since_9)
    assert givers(actions(spec, view)) == {GIVER, OTHER, Member(2, 0)}

    def unheard(peer: Peer) -> Peer:
        if lacks == "the epoch":
            return replace(peer, config_epoch=peer.config_epoch - 1)
        return replace(peer, slots=SlotSet() if lacks == "the slots" else peer.slots - SlotSet.span(4096, 4100))

    late = change_peers(view, view.nodes[GIVER].node_id, [TAKER], unheard)
    done = actions(spec, late)
    assert givers(done) == {OTHER, Member(2, 0)}, "others give what it knows to be theirs"
    assert Remind(GIVER, TAKER) in done


def test_nobody_gives_slots_away_whose_epoch_another_one_has() -> None:
    """One of the two raises its own when it hears of that, and its claim may then outweigh the taker's."""
    spec, view = ready(since_9=True)
    one, other = view.nodes[GIVER], view.nodes[OTHER]
    newest = max(one, other, key=lambda node: node.node_id)
    gives_way = min(one, other, key=lambda node: node.node_id)
    done = actions(spec, change(view, OTHER, config_epoch=one.config_epoch))
    assert givers(done) == {Member(2, 0)}
    assert [step for step in done if isinstance(step, Remind)] == [Remind(newest.member, gives_way.member)]
