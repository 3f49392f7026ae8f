"""What is being deleted is gone before it is written again."""

from typing import Any

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiError
from valkeyctl.kube.leaving import leaving, wait_until_gone
from valkeyctl.kube.ownership import Wanted, find

GOING: dict[str, Any] = {
    "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
}
STAYING: dict[str, Any] = {"metadata": {}}
WORKLOAD, SERVICE = Wanted("apps/v1", "StatefulSet", "sessions-s3"), Wanted("v1", "Service", "sessions")
CLAIM = Wanted("v1", "PersistentVolumeClaim", "data-sessions-s3-0")
PATH = "/apis/apps/v1/namespaces/valkey/statefulsets/sessions-s3"


def test_what_is_being_deleted_is_leaving_and_nothing_else() -> None:
    assert leaving({}) == []
    assert leaving({WORKLOAD: STAYING, SERVICE: STAYING, CLAIM: STAYING}) == []
    assert leaving({WORKLOAD: GOING, SERVICE: STAYING}) == [WORKLOAD]


def test_a_claim_is_waited_for_once_no_pod_can_hold_it() -> None:
    # It goes with its Pod, which stays while its StatefulSet does: whoever waited for it would wait for himself.
    assert leaving({CLAIM: GOING, WORKLOAD: STAYING}) == []
    assert leaving({CLAIM: GOING, WORKLOAD: GOING}) == [WORKLOAD]
    assert leaving({CLAIM: GOING}) == [CLAIM]


def test_it_is_waited_for_and_told_and_nothing_is_written(api: Api, fake: FakeApi) -> None:
    fake.put(PATH, GOING)
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == 2:
            del fake.objects[PATH]

    wait_until_gone(api, "valkey", find(api, "valkey", [WORKLOAD, SERVICE]), tell)
    assert len(told) == 2
    assert "still being deleted: StatefulSet sessions-s3" in told[0]
    assert {method for method, _ in fake.seen} == {"GET"}


def test_after_a_while_it_says_what_to_do(api: Api, fake: FakeApi) -> None:
    fake.put(PATH, GOING)
    with pytest.raises(ApiError, match=r"to be made anew: StatefulSet sessions-s3") as raised:
        wait_until_gone(api, "valkey", {WORKLOAD: GOING}, print, wait_s=0)
    assert "kubectl -n valkey get pods" in str(raised.value)
