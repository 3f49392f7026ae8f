"""Evictions and deletions of one very Pod."""

from __future__ import annotations

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, pod
from valkeyctl.kube.access import connect
from valkeyctl.kube.errors import ApiBusy, ApiForbidden
from valkeyctl.kube.eviction import delete_now, evict

PATH = f"{PODS}/sessions-s0-1"


@pytest.fixture
def uid(fake: FakeApi) -> str:
    return str(fake.put(PATH, pod(0, 1))["metadata"]["uid"])


def test_an_evicted_pod_goes(fake: FakeApi, uid: str) -> None:
    assert evict(connect(fake.kubeconfig, None), "valkey", "sessions-s0-1", uid=uid) == ""
    assert PATH not in fake.objects
    assert ("POST", f"{PATH}/eviction") in fake.seen
    assert evict(connect(fake.kubeconfig, None), "valkey", "sessions-s0-1", uid=uid) == "", "it has gone already"


def test_a_budget_that_refuses_is_named(fake: FakeApi, uid: str) -> None:
    fake.budget = lambda _path: "The disruption budget sessions needs 5 healthy pods and has 5 currently"
    told = evict(connect(fake.kubeconfig, None), "valkey", "sessions-s0-1", uid=uid)
    assert "disruption budget sessions needs 5 healthy pods" in told
    assert PATH in fake.objects


def test_another_pod_of_the_name_is_left_alone(fake: FakeApi, uid: str) -> None:
    api = connect(fake.kubeconfig, None)
    assert evict(api, "valkey", "sessions-s0-1", uid="another") == ""
    delete_now(api, "valkey", "sessions-s0-1", uid="another")
    assert PATH in fake.objects
    delete_now(api, "valkey", "sessions-s0-1", uid=uid)
    assert PATH not in fake.objects
    delete_now(api, "valkey", "sessions-s0-1", uid=uid)


@pytest.mark.parametrize(("status", "kind"), [(403, ApiForbidden), (500, ApiBusy)])
def test_other_refusals_are_errors(fake: FakeApi, uid: str, status: int, kind: type[Exception]) -> None:
    fake.fault = lambda method, _path: status if method == "POST" else None
    with pytest.raises(kind):
        evict(connect(fake.kubeconfig, None), "valkey", "sessions-s0-1", uid=uid)
