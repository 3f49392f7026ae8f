"""The directory of an agent: Pods read by name, no more often than needed, and never somebody else's."""

import pytest

from tests.unit.kube.fake_api import FakeApi
from tests.unit.kube.pods_made import PODS, SETS, pod, unschedulable, waiting, workload
from valkeyctl.dataplane import Member
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiBusy
from valkeyctl.kube.named_directory import MISSING_S, SETTLED_S, NamedDirectory
from valkeyctl.kube.pods import pod_facts

MEMBERS = [Member(shard, ordinal) for shard in range(2) for ordinal in range(2)]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory(api: Api, fake: FakeApi, clock: Clock) -> NamedDirectory:
    for member in MEMBERS:
        fake.put(f"{PODS}/sessions-{member}", pod(member.shard, member.ordinal))
    return NamedDirectory(api, "valkey", "sessions", MEMBERS, 6379, now=clock)


def test_every_pod_with_an_address_is_where_its_member_is(directory: NamedDirectory) -> None:
    found = directory()
    assert {member: endpoint.address for member, endpoint in found.items()} == {
        Member(0, 0): "10.0.0.1",
        Member(0, 1): "10.0.0.2",
        Member(1, 0): "10.0.1.1",
        Member(1, 1): "10.0.1.2",
    }
    assert found[Member(1, 0)].host == "sessions-s1-0.sessions-headless.valkey.svc"


def test_pods_are_read_by_name_and_not_again_before_they_are_old(
    directory: NamedDirectory, fake: FakeApi, clock: Clock
) -> None:
    del fake.objects[f"{PODS}/sessions-s1-1"]
    assert Member(1, 1) not in directory()
    assert {path for _, path in fake.seen} == {f"{PODS}/sessions-{member}" for member in MEMBERS}
    fake.seen.clear()
    directory()
    assert fake.seen == []
    clock.now += MISSING_S
    directory()
    assert fake.seen == [("GET", f"{PODS}/sessions-s1-1")], "one that is missing is looked for again soon"
    clock.now += SETTLED_S
    directory()
    assert len(fake.seen) == 1 + len(MEMBERS)


def test_a_pod_that_came_back_is_found_at_its_new_address(
    directory: NamedDirectory, fake: FakeApi, clock: Clock
) -> None:
    directory()
    del fake.objects[f"{PODS}/sessions-s0-1"]
    clock.now += SETTLED_S
    assert Member(0, 1) not in directory()
    fake.put(f"{PODS}/sessions-s0-1", pod(0, 1, podIP="10.9.9.9", containerStatuses=[]))
    clock.now += MISSING_S
    assert directory()[Member(0, 1)].address == "10.9.9.9", "before Kubernetes has noticed that its server runs"


def test_pods_that_go_or_are_somebody_elses_are_nobody(directory: NamedDirectory, fake: FakeApi) -> None:
    going, foreign = pod(0, 0), pod(1, 0)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    foreign["metadata"]["ownerReferences"] = []
    fake.put(f"{PODS}/sessions-s0-0", going)
    fake.put(f"{PODS}/sessions-s1-0", foreign)
    assert sorted(directory()) == [Member(0, 1), Member(1, 1)]


def test_an_api_server_that_fails_is_an_error_and_no_empty_directory(
    directory: NamedDirectory, fake: FakeApi, clock: Clock
) -> None:
    fake.fault = lambda _method, _path: 500
    with pytest.raises(ApiBusy):
        directory()
    fake.fault = lambda _method, _path: None
    assert len(directory()) == len(MEMBERS)


def test_a_large_instance_is_read_slowly(api: Api, fake: FakeApi, clock: Clock) -> None:
    many = [Member(shard, 0) for shard in range(100)]
    for member in many:
        fake.put(f"{PODS}/sessions-{member}", pod(member.shard))
    directory = NamedDirectory(api, "valkey", "sessions", many, now=clock)
    assert len(directory()) == 100
    clock.now += SETTLED_S
    directory()
    assert len(fake.seen) == 100
    clock.now += SETTLED_S
    directory()
    assert len(fake.seen) == 200


def test_it_tells_what_is_wrong_with_pods_without_reading_events(
    directory: NamedDirectory, fake: FakeApi, clock: Clock
) -> None:
    fake.put(f"{SETS}/sessions-s0", workload(0))
    fake.put(f"{SETS}/sessions-s1", workload(1, revision="r2"))
    fake.put(f"{PODS}/sessions-s0-0", pod(0, 0, podIP=None, containerStatuses=waiting("ImagePullBackOff", "none")))
    fake.put(f"{PODS}/sessions-s0-1", unschedulable(0, 1, "too full"))
    del fake.objects[f"{PODS}/sessions-s1-1"]
    fake.fault = lambda _method, path: 403 if "/events" in path else None
    facts = {fact.pod: fact for fact in pod_facts(directory, MEMBERS)}
    assert facts["sessions-s0-0"].reason == "ImagePullBackOff"
    assert facts["sessions-s0-1"].message == "too full"
    assert facts["sessions-s1-0"].outdated
    assert (facts["sessions-s1-1"].phase, facts["sessions-s1-1"].reason) == ("Absent", "")
