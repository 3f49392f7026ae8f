"""The Lease that says who may take writes: what is read out of it, and written into it."""

from __future__ import annotations

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.access import Api, connect
from valkeyctl.kube.errors import ApiConflict
from valkeyctl.kube.primary_lease import (
    PrimaryLease,
    Seat,
    appoint,
    drop_wish,
    ensure_primacy,
    handed_to,
    parse_primacy,
    path_of_primacy,
    read_primacy,
    wish_for,
)

ZERO, ONE, TWO = (Member(0, ordinal) for ordinal in range(3))
ALL = (ZERO, ONE, TWO)
PATH = path_of_primacy("valkey", "sessions")


@pytest.fixture
def api(fake: FakeApi) -> Api:
    api = connect(fake.kubeconfig, None)
    ensure_primacy(api, "valkey", "sessions", "acme/valkey/prod/sessions", duration_s=7)
    return api


def read(api: Api) -> PrimaryLease:
    lease = read_primacy(api, "valkey", "sessions")
    assert lease is not None
    return lease


def test_made_it_is_held_by_nobody(api: Api) -> None:
    lease = read(api)
    assert (lease.holder, lease.yielding, lease.candidates, lease.duration_s) == (None, None, frozenset(), 7)
    ensure_primacy(api, "valkey", "sessions", "somebody else")
    assert read(api) == lease


def test_where_there_is_none(fake: FakeApi) -> None:
    api = connect(fake.kubeconfig, None)
    assert read_primacy(api, "valkey", "sessions") is None
    assert not appoint(api, "valkey", "sessions", ZERO, candidates=ALL)


def test_the_first_holder_is_appointed_once(api: Api) -> None:
    assert appoint(api, "valkey", "sessions", ONE, candidates=ALL)
    lease = read(api)
    assert lease.holder == Seat(ONE)
    assert lease.candidates == frozenset(ALL)
    assert appoint(api, "valkey", "sessions", ONE, candidates=ALL)
    assert not appoint(api, "valkey", "sessions", TWO, candidates=ALL)
    assert read(api) == lease


def test_of_two_that_write_one_is_refused(api: Api) -> None:
    lease = read(api)
    api.replace(PATH, handed_to(lease, Seat(ZERO, "a"), candidates=ALL))
    with pytest.raises(ApiConflict):
        api.replace(PATH, handed_to(lease, Seat(ONE, "b"), candidates=ALL))
    assert read(api).holder == Seat(ZERO, "a")


def test_who_yields_is_named_until_it_has(api: Api) -> None:
    api.replace(PATH, handed_to(read(api), Seat(ZERO, "a"), candidates=ALL))
    api.replace(PATH, handed_to(read(api), Seat(ONE, "b"), candidates=ALL, yielding=Seat(ZERO, "a")))
    lease = read(api)
    assert (lease.holder, lease.yielding, lease.transitions) == (Seat(ONE, "b"), Seat(ZERO, "a"), 2)
    api.replace(PATH, handed_to(lease, Seat(ONE, "b"), candidates=(ONE,)))
    lease = read(api)
    assert (lease.yielding, lease.candidates, lease.transitions) == (None, frozenset({ONE}), 2)


def test_a_wish_is_gone_with_another_holder(api: Api) -> None:
    api.replace(PATH, handed_to(read(api), Seat(ZERO, "a"), candidates=ALL))
    wish_for(api, "valkey", "sessions", TWO)
    assert read(api).wish == TWO
    api.replace(PATH, handed_to(read(api), Seat(ZERO, "a"), candidates=ALL))
    assert read(api).wish == TWO
    api.replace(PATH, handed_to(read(api), Seat(TWO, "c"), candidates=ALL))
    assert read(api).wish is None
    wish_for(api, "valkey", "sessions", None)
    assert read(api).wishes_any
    drop_wish(api, "valkey", "sessions")
    assert not read(api).wishes_any


def test_what_is_not_ours_is_nobody() -> None:
    told = {"metadata": {"annotations": None}, "spec": {"holderIdentity": "other-s0-1/x"}}
    assert parse_primacy(told, "sessions").holder is None
    assert parse_primacy({}, "sessions") == PrimaryLease("sessions", None)
