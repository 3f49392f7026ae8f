"""From properties to typed values, and what counts as a change."""

from typing import Any

import pytest
from pulumi.runtime import rpc

from valkeyctl.lifecycle.props import changed, declaration_of, is_unknown, place_of

PROPS: dict[str, Any] = {
    "namespace": "valkey",
    "instance": "sessions",
    "owner": "o/p/s/sessions",
    "context": None,
    "kubeconfig": "apiVersion: v1\nusers: [{user: {token: very-secret}}]\n",
    "transport": "direct",
    "shards": 3.0,
    "replicas": 1.0,
    "layout": {"s0": "0-5460", "s1": "5461-10921", "s2": "10922-16383"},
    "port": 6379.0,
    "timeout_s": 90.0,
    "node_timeout_ms": 5000.0,
    "credentials": {"user": None, "secretName": "sessions-auth", "key": "password"},
}


def test_floats_become_whole_numbers() -> None:
    declaration = declaration_of(PROPS)
    assert (declaration.shards, declaration.replicas, declaration.port) == (3, 1, 6379)
    assert isinstance(declaration.shards, int)
    assert [len(slots) for slots in declaration.layout] == [5461, 5461, 5462]
    assert not declaration.explicit
    assert declaration.timeout_s == 90.0
    assert declaration.node_timeout_ms == 5000
    assert isinstance(declaration.node_timeout_ms, int)


def test_what_is_missing_has_its_default() -> None:
    declaration = declaration_of({k: PROPS[k] for k in ("shards", "replicas", "layout")})
    assert (declaration.port, declaration.timeout_s, declaration.credentials) == (6379, 600.0, None)
    assert not declaration.spread_primaries
    assert not declaration.prefer_ordinal_zero
    assert declaration.node_timeout_ms is None, "a running server's timeout is then left alone"
    assert place_of({}).transport == "portForward"


def test_no_kubeconfig_is_ever_shown() -> None:
    declaration = declaration_of(PROPS)
    assert declaration.place.kubeconfig is not None
    assert "very-secret" not in f"{declaration}{declaration!r}{declaration.place}"


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        (3, 3.0, False),
        (None, None, False),
        ({"a": 1, "b": None}, {"a": 1.0}, False),
        ([1, {"x": None}], [1.0, {}], False),
        (3, 4.0, True),
        (None, {"0": "0-1"}, True),
        ("a", rpc.UNKNOWN, True),
        ({"a": ["x"]}, {"a": [rpc.UNKNOWN]}, True),
    ],
)
def test_what_counts_as_a_change(old: object, new: object, differs: bool) -> None:  # noqa: FBT001 - a table
    assert bool(changed({"key": old}, {"key": new}, ["key"])) is differs


def test_only_declared_keys_are_compared() -> None:
    assert changed({"phase": "Ready", "shards": 3}, {"shards": 3.0}, ["shards"]) == []


def test_unknown_is_found_at_any_depth() -> None:
    assert is_unknown({"a": [{"b": rpc.UNKNOWN}]})
    assert not is_unknown({"a": [{"b": "known", "c": None}]})
