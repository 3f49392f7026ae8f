"""Who is behind the Services of a dataset: chosen, written as one, and never over what somebody else wrote."""

from __future__ import annotations

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.kube.access import Api
from valkeyctl.kube.endpoints import (
    ensure_endpoints,
    filled,
    members_in,
    remove_endpoints,
    slice_path,
    wanted,
    write_endpoints,
)
from valkeyctl.kube.errors import ApiConflict, ApiNotFound

OWNER = "acme/valkey/prod/sessions"
RW, RO = slice_path("valkey", "sessions-rw"), slice_path("valkey", "sessions-ro")


def at(ordinal: int) -> Endpoint:
    return Endpoint(Member(0, ordinal), f"sessions-s0-{ordinal}", f"host-{ordinal}", f"10.0.0.{ordinal + 1}")


def test_writers_go_to_the_primary_and_readers_to_the_replicas() -> None:
    what = wanted(at(1), [at(2), at(1), at(0)])
    assert what.rw == (at(1),)
    assert what.ro == (at(0), at(2))


def test_readers_go_to_the_primary_where_no_replica_is_in_sync() -> None:
    assert wanted(at(1), []).ro == (at(1),)


def test_without_a_known_primary_nothing_changes(fake: FakeApi, api: Api) -> None:
    ensure_endpoints(api, "valkey", "sessions", OWNER, architecture="replica")
    write_endpoints(api, "valkey", "sessions", wanted(at(0), [at(1)]))
    before = dict(fake.objects)
    assert write_endpoints(api, "valkey", "sessions", wanted(None, [at(1)])) == ()
    assert fake.objects == before


def test_slices_are_made_once_and_written_only_where_they_differ(fake: FakeApi, api: Api) -> None:
    with pytest.raises(ApiNotFound):
        write_endpoints(api, "valkey", "sessions", wanted(at(0), []))
    service = {"spec": {"ipFamilies": ["IPv6"]}}
    fake.put("/api/v1/namespaces/valkey/services/sessions-ro", service)
    for _ in range(2):
        ensure_endpoints(api, "valkey", "sessions", OWNER, architecture="replica")
    assert fake.objects[RW]["addressType"] == "IPv4"
    assert fake.objects[RO]["addressType"] == "IPv6"
    assert fake.objects[RW]["metadata"]["labels"]["kubernetes.io/service-name"] == "sessions-rw"
    assert write_endpoints(api, "valkey", "sessions", wanted(at(0), [at(1)])) == (
        "sessions-rw: s0-0",
        "sessions-ro: s0-1",
    )
    assert write_endpoints(api, "valkey", "sessions", wanted(at(0), [at(1)])) == ()
    assert members_in(fake.objects[RW]) == ("sessions-s0-0",)
    assert fake.objects[RW]["ports"] == [{"name": "valkey", "port": 6379, "protocol": "TCP"}]


def test_a_pod_with_another_address_is_another_entry() -> None:
    first = filled({"metadata": {"namespace": "valkey"}}, [at(0)])
    assert first is not None
    assert filled(first, [at(0)]) is None
    moved = Endpoint(at(0).member, at(0).pod, at(0).host, "10.9.9.9")
    again = filled(first, [moved])
    assert again is not None
    assert again["endpoints"][0]["addresses"] == ["10.9.9.9"]


def test_what_the_api_server_adds_is_no_difference() -> None:
    known = filled({"metadata": {"namespace": "valkey"}}, [at(0)])
    assert known is not None
    known["endpoints"][0]["nodeName"] = "node"
    known["ports"][0]["appProtocol"] = None
    assert filled(known, [at(0)]) is None


def test_who_was_frozen_between_looking_and_writing_is_refused(fake: FakeApi, api: Api) -> None:
    ensure_endpoints(api, "valkey", "sessions", OWNER, architecture="replica")

    def somebody_writes(method: str, path: str) -> None:
        if method == "PUT" and path == RW:
            fake.fault = lambda _method, _path: None
            fake.put(RW, {**fake.objects[RW], "metadata": dict(fake.objects[RW]["metadata"])})

    fake.fault = somebody_writes
    with pytest.raises(ApiConflict):
        write_endpoints(api, "valkey", "sessions", wanted(at(0), []))
    assert members_in(fake.objects[RW]) == ()


def test_only_the_owner_s_slices_are_removed(fake: FakeApi, api: Api) -> None:
    ensure_endpoints(api, "valkey", "sessions", OWNER, architecture="replica")
    remove_endpoints(api, "valkey", "sessions", "somebody/else")
    assert {RW, RO} <= fake.objects.keys()
    remove_endpoints(api, "valkey", "sessions", OWNER)
    remove_endpoints(api, "valkey", "sessions", OWNER)
    assert not {RW, RO} & fake.objects.keys()
