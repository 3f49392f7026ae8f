"""Following one object: its changes, the ends of requests, and what an API server does in bad times."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.kube.access import connect
from valkeyctl.kube.errors import ApiForbidden, ApiUnreachable, KubeError
from valkeyctl.kube.watch import Follow

COLLECTION = "/api/v1/namespaces/valkey/configmaps"
PATH = f"{COLLECTION}/one"
SOON_S = 5.0


class Follower:
    """A Follow in its thread, and what it told."""

    def __init__(self, fake: FakeApi, lasts_s: int = 60) -> None:
        self.told: list[Any] = []
        self.failures: list[KubeError] = []
        self.recoveries = 0
        self.follow = Follow(
            connect(fake.kubeconfig, None),
            COLLECTION,
            "one",
            seen=lambda found: self.told.append(found and found["data"]["n"]),
            failed=self.failures.append,
            well=self._well,
            lasts_s=(lasts_s, lasts_s),
            pause_s=(0.05, 0.2),
        )
        self.thread = threading.Thread(target=self.follow.run, daemon=True)
        self.thread.start()

    def _well(self) -> None:
        self.recoveries += 1


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()


def requests(fake: FakeApi) -> list[dict[str, list[str]]]:
    return [parse_qs(urlsplit(path).query) for _, path in fake.seen if "watch=true" in path]


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def put(fake: FakeApi, number: int) -> None:
    fake.put(PATH, {"metadata": {}, "data": {"n": number}})


def test_it_tells_the_object_and_each_change_over_one_request(fake: FakeApi) -> None:
    put(fake, 1)
    fake.put(f"{COLLECTION}/other", {"metadata": {}, "data": {"n": 99}})
    follower = Follower(fake)
    eventually(lambda: follower.told == [1])
    put(fake, 2)
    fake.put(f"{COLLECTION}/other", {"metadata": {}, "data": {"n": 98}})
    eventually(lambda: follower.told == [1, 2])
    fake.remove(PATH)
    eventually(lambda: follower.told == [1, 2, None])
    put(fake, 3)
    eventually(lambda: follower.told == [1, 2, None, 3])
    assert len(requests(fake)) == 1
    # Kubernetes grants it by name only where it is for that very name.
    assert requests(fake)[0]["fieldSelector"] == ["metadata.name=one"]
    assert {method for method, _ in fake.seen} == {"GET"}


def test_stopping_ends_it_at_once_though_nothing_happens(fake: FakeApi) -> None:
    put(fake, 1)
    follower = Follower(fake)
    eventually(lambda: follower.told)
    began = time.monotonic()
    follower.follow.stop()
    follower.thread.join(SOON_S)
    assert not follower.thread.is_alive()
    assert time.monotonic() - began < 1
    assert follower.failures == []


def test_it_goes_on_where_a_request_ended_and_misses_nothing(fake: FakeApi) -> None:
    put(fake, 1)
    follower = Follower(fake)
    eventually(lambda: follower.told == [1])
    fake.fault = lambda _method, _path: 503
    fake.cut += 1
    eventually(lambda: follower.failures)
    put(fake, 2)
    fake.fault = lambda _method, _path: None
    eventually(lambda: follower.told == [1, 2])
    assert follower.recoveries == 1
    assert requests(fake)[-1]["resourceVersion"] == ["1"]


def test_a_version_that_is_gone_makes_it_begin_anew_without_a_word(fake: FakeApi) -> None:
    put(fake, 1)
    follower = Follower(fake)
    eventually(lambda: follower.told == [1])
    fake.fault = lambda _method, _path: 500
    fake.cut += 1
    eventually(lambda: follower.failures)
    told = len(follower.failures)
    put(fake, 2)
    put(fake, 3)
    fake.compacted = 2
    fake.fault = lambda _method, _path: None
    eventually(lambda: follower.told == [1, 3])
    assert all("resourceVersion" in query for query in requests(fake)[1:-1])
    assert "resourceVersion" not in requests(fake)[-1]
    assert not any("410" in str(error) or "too old" in str(error) for error in follower.failures[told:])


def test_an_api_server_that_is_away_is_asked_ever_more_rarely(fake: FakeApi) -> None:
    fake.fault = lambda _method, _path: 503
    follower = Follower(fake)
    time.sleep(1.5)
    # The pause is 0.05 s at first and 0.2 s at most, each a quarter more or less.
    assert 2 <= len(follower.failures) <= 15
    follower.follow.stop()


def test_one_that_is_gone_altogether_is_an_error_and_no_absence(fake: FakeApi) -> None:
    put(fake, 1)
    follower = Follower(fake)
    eventually(lambda: follower.told == [1])
    fake.close()
    eventually(lambda: any(isinstance(error, ApiUnreachable) for error in follower.failures))
    assert follower.told == [1]
    follower.follow.stop()


def test_without_the_right_it_asks_once_a_minute(fake: FakeApi) -> None:
    fake.fault = lambda _method, _path: 403
    follower = Follower(fake)
    eventually(lambda: follower.failures)
    time.sleep(0.5)
    assert [type(error) for error in follower.failures] == [ApiForbidden]
    follower.follow.stop()
    follower.thread.join(SOON_S)
    assert not follower.thread.is_alive()


def test_a_request_ends_by_itself_after_its_time(fake: FakeApi) -> None:
    put(fake, 1)
    follower = Follower(fake, lasts_s=1)
    eventually(lambda: len(requests(fake)) >= 2)
    put(fake, 2)
    eventually(lambda: follower.told == [1, 2])
    assert follower.failures == []
    follower.follow.stop()
