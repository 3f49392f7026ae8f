"""Whether a disk that comes back is a former member's: each rule by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.agent.guard_cases import node_id
from tests.unit.agent.tales import P0, P1, P2, R0, live, primary, replica, snapshot, told
from valkeyctl.agent.former import Standing, standing
from valkeyctl.agent.tale import Owner, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, SlotSet, equal_layout

LEFT, ITS_REPLICA = Member(3, 0), Member(3, 1)
SERVING = tuple(replace(primary(live(), member, server=Server.UP), knows_asker=False) for member in (P0, P1, P2))


def left(member: Member = LEFT, **changed: object) -> Tale:
    """A member of a fourth shard as its disk tells it: the other three then had other slots."""
    layout = equal_layout(4)
    owners = tuple(Owner(node_id(one), one, 9, layout[one.shard]) for one in (P0, P1, P2))
    tale = Tale(member, held=True, node_id=node_id(member), slots=layout[3], config_epoch=4, owners=owners)
    return replace(tale, data=snapshot(), **changed)


def as_replica() -> Tale:
    return replica(snapshot(), ITS_REPLICA, server=Server.DOWN, replicas=())


@pytest.mark.parametrize("me", [left(), left(slots=EMPTY), as_replica()], ids=["primary", "no slots", "replica"])
def test_who_is_known_to_nobody_while_others_serve_everything_is_a_former_member(me: Tale) -> None:
    assert standing(me, told(*SERVING)) is Standing.FORMER
    mate = replace(left(ITS_REPLICA) if me.member == LEFT else left(), followers=())
    assert standing(me, told(*SERVING, mate)) is Standing.FORMER, "its shard comes back with it"


def test_one_who_knows_it_is_enough() -> None:
    one = replace(SERVING[1], knows_asker=True)
    assert standing(left(), told(SERVING[0], one, SERVING[2])) is Standing.MEMBER
    assert standing(left(), told(one)) is Standing.MEMBER
    assert standing(left(), told(one, replace(SERVING[2], knows_asker=None))) is Standing.MEMBER


def test_one_who_could_not_be_asked_has_not_said_that_it_does_not_know_it() -> None:
    one = replace(SERVING[1], knows_asker=None)
    assert standing(left(), told(SERVING[0], one, SERVING[2])) is Standing.UNSURE
    assert standing(left(), told(one)) is Standing.UNSURE
    assert standing(left(), told(*SERVING, replica(live(), R0))) is Standing.UNSURE


def test_a_shard_that_serves_has_a_use_for_its_members() -> None:
    assert standing(replace(as_replica(), member=R0), told(*SERVING)) is Standing.MEMBER


def test_a_new_node_and_one_that_never_knew_other_shards_are_no_former_members() -> None:
    assert standing(Tale(LEFT), told(*SERVING)) is Standing.MEMBER
    assert standing(left(owners=()), told(*SERVING)) is Standing.MEMBER
    mate = Owner(node_id(ITS_REPLICA), ITS_REPLICA, 2, SlotSet.all())
    assert standing(left(owners=(mate,)), told(*SERVING)) is Standing.MEMBER


def test_an_instance_that_comes_back_as_a_whole_is_believed() -> None:
    down = tuple(replace(tale, server=Server.DOWN, knows_asker=None) for tale in SERVING)
    assert standing(left(), told(*down)) is Standing.MEMBER
    assert standing(left(), told(down[0])) is Standing.MEMBER


@pytest.mark.parametrize(
    "heard",
    [(), SERVING[:2], (replace(left(ITS_REPLICA)),), (*SERVING[:2], replace(SERVING[2], server=Server.LOADING))],
    ids=["nobody", "some", "its own shard alone", "one loads"],
)
def test_is_not_judged_by_some(heard: tuple[Tale, ...]) -> None:
    tales = tuple(replace(tale, knows_asker=None) if tale.server is Server.LOADING else tale for tale in heard)
    assert standing(left(), told(*tales)) is Standing.UNSURE
