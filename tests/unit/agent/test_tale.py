"""What a member tells travels as JSON, and nonsense is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, SLOTS, SlotSet
from valkeyctl.dataplane.view import Role

_members = st.builds(Member, st.integers(0, 127), st.integers(0, 5))
_ids = st.one_of(st.just(""), st.text("0123456789abcdef", min_size=40, max_size=40))
_epochs = st.integers(0, 2**63)
_slots = st.builds(SlotSet.of, st.lists(st.integers(0, SLOTS - 1), max_size=4))
_tales = st.builds(
    Tale,
    member=_members,
    server=st.sampled_from(Server),
    held=st.booleans(),
    node_id=_ids,
    role=st.sampled_from(Role),
    primary_id=_ids,
    slots=_slots,
    config_epoch=_epochs,
    current_epoch=_epochs,
    data=st.builds(
        Data,
        st.sampled_from(Kind),
        _ids,
        st.none() | st.integers(-1, 2**63),
        st.none() | st.floats(0, 4e9, allow_nan=False),
    ),
    synced=st.none() | st.booleans(),
    owners=st.lists(st.builds(Owner, _ids, st.none() | _members, _epochs, _slots), max_size=3).map(tuple),
    followers=st.lists(st.builds(Follower, _ids, st.none() | _members, _ids), max_size=3).map(tuple),
)


@settings(deadline=None)
@given(_tales)
def test_a_tale_arrives_as_it_was_told(tale: Tale) -> None:
    assert Tale.decode(tale.encode()) == tale


def test_keys_of_other_versions_are_passed_over_and_missing_ones_have_their_defaults() -> None:
    assert Tale.decode(b'{"member": "s2-1", "mood": "good", "data": {"colour": 1}}') == Tale(Member(2, 1))


def test_the_default_claims_nothing_and_promises_nothing() -> None:
    tale = Tale(Member(0, 0))
    assert not tale.held
    assert not tale.running
    assert tale.data.kind is Kind.NOTHING
    assert tale.claims == ()


def test_a_server_that_loads_runs() -> None:
    assert Tale(Member(0, 0), server=Server.LOADING).running


def test_claims_are_its_own_and_those_it_knows() -> None:
    other = Owner("b" * 40, Member(1, 0), 2, SlotSet.span(10, 19))
    tale = Tale(Member(0, 0), node_id="a" * 40, slots=SlotSet.span(0, 9), config_epoch=1, owners=(other,))
    assert tale.claims == (Owner("a" * 40, Member(0, 0), 1, SlotSet.span(0, 9)), other)
    assert Tale(Member(0, 1), node_id="c" * 40, slots=EMPTY, owners=(other,)).claims == (other,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"member": "sessions-s0-0"}',
        '{"member": "s0-0", "held": "yes"}',
        '{"member": "s0-0", "held": 1}',
        '{"member": "s0-0", "server": "gone"}',
        '{"member": "s0-0", "slots": "0-99999"}',
        '{"member": "s0-0", "config_epoch": true}',
        '{"member": "s0-0", "config_epoch": 1.5}',
        '{"member": "s0-0", "data": []}',
        '{"member": "s0-0", "data": {"offset": "7"}}',
        '{"member": "s0-0", "synced": 0}',
        '{"member": "s0-0", "owners": {}}',
        '{"member": "s0-0", "owners": [7]}',
        '{"member": "s0-0", "followers": [{"member": "x"}]}',
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (json's own errors are ValueErrors too)
        Tale.decode(text.encode())


def test_what_travels_is_plain_json() -> None:
    told = json.loads(Tale(Member(0, 0), data=Data(Kind.SNAPSHOT, "a" * 40, 7)).encode())
    assert told["data"] == {"kind": "snapshot", "offset": 7, "replication_id": "a" * 40, "written_at": None}
