"""What arbiters tell one another."""

from __future__ import annotations

import pytest

from tests.unit.agent.primacy.servers import Server
from tests.unit.agent.primacy.world import endpoint_of
from valkeyctl.agent.primacy.choice import choose, view_of
from valkeyctl.agent.primacy.word import Word, decode, facts_of
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.model import ReplicationSpec

ZERO, ONE, TWO = (Member(0, ordinal) for ordinal in range(3))
SPEC = ReplicationSpec("t", 2, formed=True, last_primary=0)


def word(server: Server, *, kept: bool = True) -> Word:
    pairs = (line.partition(":") for line in server.info.decode().splitlines())
    return Word(server.member, "a", "serving", kept=kept, info=facts_of({k: v for k, _, v in pairs}), in_touch=True)


def test_there_and_back() -> None:
    told = Word(ONE, "token", "down", held=True, writable_s=1.5, asks=10.0, promises_s=3.0, holder="t-s0-1/x")
    assert decode(told.encode()) == told
    full = word(Server(TWO, "run", log=[1, 2], placed=True, replica=False))
    assert decode(full.encode()) == full
    assert full.is_primary


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"member":"x","token":""}', b'{"member":1,"token":"","info":3}'])
def test_nonsense(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not|Expecting|invalid"):
        decode(text)


def test_what_is_told_is_enough_to_compare_servers() -> None:
    server = Server(ONE, "run", log=[1, 2, 3], stream="a" * 40, second=("b" * 40, 2), placed=True)
    view = view_of(word(server), endpoint_of(ONE))
    assert view is not None
    assert (view.history.replication_id, view.history.second_id, view.keys) == ("a" * 40, "b" * 40, 3)


def replica(member: Member, writes: int, *, was_linked: bool = True) -> Server:
    return Server(member, f"r{member}", list(range(writes)), "a" * 40, placed=writes > 0, was_linked=was_linked)


def chosen(*servers: Server, kept: bool = True, persistent: bool = False) -> Member | None:
    spec = ReplicationSpec("t", 2, formed=True, last_primary=0, persistent=persistent)
    return choose(spec, {one.member: word(one, kept=kept) for one in servers}, endpoint_of).heir


def test_who_has_most_is_chosen() -> None:
    assert chosen(replica(ZERO, 3), replica(ONE, 5), replica(TWO, 4)) == ONE


def test_of_equals_the_last_holder_then_the_first() -> None:
    assert chosen(replica(ZERO, 5), replica(ONE, 5)) == ZERO
    assert chosen(replica(TWO, 5), replica(ONE, 5)) == ONE


def test_an_empty_one_is_never_chosen_while_another_has_data() -> None:
    assert chosen(replica(ZERO, 0, was_linked=False), replica(TWO, 1)) == TWO


def test_data_of_this_life_is_all_that_can_be_had() -> None:
    assert chosen(replica(ONE, 5)) == ONE


def test_data_of_unknown_age_waits_for_those_who_may_have_more() -> None:
    assert chosen(replica(ONE, 5, was_linked=False), kept=False, persistent=True) is None
    everybody = [replica(member, 5, was_linked=False) for member in (ZERO, ONE, TWO)]
    assert chosen(*everybody, kept=False, persistent=True) == ZERO


def test_a_primary_is_not_overruled() -> None:
    assert chosen(replica(ZERO, 9), Server(ONE, "r", [1], "b" * 40, placed=True, replica=False)) == ONE


def test_a_link_to_who_does_not_answer_counts_for_nothing() -> None:
    """It is of a primary whose time is over, and that may still have its connections."""
    one = replica(ONE, 5)
    one.upstream, one.linked = ZERO, True
    assert chosen(one, replica(TWO, 5)) == ONE
