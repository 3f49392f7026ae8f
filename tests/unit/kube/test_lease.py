"""The Lease: one holder at a time, stale ones taken over safely, a lost one noticed."""

import os
import subprocess
import sys
import threading
import time

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.dataplane.errors import Interrupted
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiError, LeaseHeld
from valkeyctl.kube.holder import Holder, started_at, this_process
from valkeyctl.kube.lease import HOLDER_ANNOTATION, Claim, Lease, Timing, acquire, hold

PATH = "/apis/coordination.k8s.io/v1/namespaces/valkey/leases/sessions"
OWNER = "acme/valkey/prod/sessions"
FAST = Timing(duration_s=1, heartbeat_s=0.1, patience_s=0.3, poll_s=0.02)


def taken(api: Api, *, timing: Timing = FAST, holder: Holder | None = None, told: list[str] | None = None) -> Lease:
    claim = Claim("valkey", "sessions", OWNER, holder or this_process("up of prod"), timing)
    lines = told if told is not None else []
    return acquire(api, claim, progress=lines.append)


def spec(fake: FakeApi) -> dict[str, object]:
    return fake.objects[PATH]["spec"]


def foreign(fake: FakeApi, *, holder: str = "ann@laptop pid 7, up [x]", duration_s: int = 1) -> None:
    body = {
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration_s, "acquireTime": "2026-01-01T00:00:00Z"}
    }
    fake.put(PATH, body)


def renewing(fake: FakeApi, stop: threading.Event) -> threading.Thread:
    def beat() -> None:
        while not stop.wait(0.05):
            fake.put(PATH, fake.objects[PATH])

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    return thread


def test_an_absent_lease_is_created_and_says_who_holds_it_for_what(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    lease.check()
    assert spec(fake)["holderIdentity"] == lease.holder.identity
    assert f"pid {os.getpid()}, up of prod" in lease.holder.identity
    assert fake.objects[PATH]["metadata"]["annotations"]["valkeyctl/owner"] == OWNER
    lease.release()


def test_a_released_lease_is_free_at_once_and_counts_its_transitions(api: Api, fake: FakeApi) -> None:
    taken(api).release()
    assert not spec(fake)["holderIdentity"]
    began = time.monotonic()
    lease = taken(api)
    assert time.monotonic() - began < 0.2
    assert spec(fake)["leaseTransitions"] == 1
    lease.release()


def test_releasing_twice_writes_once(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    lease.release()
    version = fake.objects[PATH]["metadata"]["resourceVersion"]
    lease.release()
    assert fake.objects[PATH]["metadata"]["resourceVersion"] == version


def test_a_live_holder_keeps_it_and_is_named(api: Api, fake: FakeApi) -> None:
    foreign(fake)
    stop, told = threading.Event(), list[str]()
    thread = renewing(fake, stop)
    with pytest.raises(LeaseHeld) as refused:
        taken(api, told=told)
    stop.set()
    thread.join()
    assert "ann@laptop pid 7" in str(refused.value)
    assert "2026-01-01T00:00:00Z" in str(refused.value)
    assert told == ["waiting for ann@laptop pid 7, up [x], which holds sessions since 2026-01-01T00:00:00Z"]
    assert spec(fake)["holderIdentity"] == "ann@laptop pid 7, up [x]"


def test_a_silent_holder_is_outwaited_by_our_own_clock(api: Api, fake: FakeApi) -> None:
    # Its renewTime lies far in the future, by a clock that is wrong: only whether it changes counts.
    foreign(fake)
    fake.objects[PATH]["spec"]["renewTime"] = "2099-01-01T00:00:00.000000Z"
    began = time.monotonic()
    lease = taken(api)
    assert 1.0 <= time.monotonic() - began < 2.0
    assert spec(fake)["holderIdentity"] == lease.holder.identity
    lease.release()


def test_a_holder_that_was_killed_on_this_machine_is_replaced_at_once(api: Api, fake: FakeApi) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    mine = this_process("up")
    dead = Holder(mine.user, mine.host, sleeper.pid, "up", mine.machine, started_at(sleeper.pid), "abc")
    fake.put(
        PATH,
        {
            "metadata": {"annotations": {HOLDER_ANNOTATION: dead.as_json()}},
            "spec": {"holderIdentity": dead.identity, "leaseDurationSeconds": 60},
        },
    )
    assert not dead.is_gone()
    sleeper.kill()
    sleeper.wait()
    assert dead.is_gone()
    began = time.monotonic()
    lease = taken(api)
    assert time.monotonic() - began < 0.5
    lease.release()


def test_a_later_process_with_the_same_pid_is_not_the_holder() -> None:
    mine = this_process("up")
    assert not mine.is_gone()
    assert Holder(mine.user, mine.host, mine.pid, "up", mine.machine, "1", "abc").is_gone()


def test_a_holder_on_another_machine_is_never_called_dead() -> None:
    mine = this_process("up")
    assert not Holder(mine.user, mine.host, 999_999_999, "up", "another boot/1", "1", "abc").is_gone()


def test_a_dead_holder_whose_annotation_belongs_to_another_identity_is_waited_for(api: Api, fake: FakeApi) -> None:
    mine = this_process("up")
    dead = Holder(mine.user, mine.host, mine.pid, "up", mine.machine, "1", "abc")
    foreign(fake)
    fake.objects[PATH]["metadata"]["annotations"] = {HOLDER_ANNOTATION: dead.as_json()}
    began = time.monotonic()
    taken(api).release()
    assert time.monotonic() - began >= 1.0


def test_of_many_that_race_one_holds_at_a_time(api: Api, fake: FakeApi) -> None:
    inside, most, order = 0, 0, list[str]()
    lock = threading.Lock()
    timing = Timing(duration_s=5, heartbeat_s=0.2, patience_s=20, poll_s=0.005)

    def work(number: int) -> None:
        nonlocal inside, most
        with hold(api, "valkey", "sessions", owner=OWNER, purpose=f"up {number}", timing=timing) as lease:
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.02)
            lease.check()
            with lock:
                inside -= 1
                order.append(lease.holder.token)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert most == 1
    assert len(set(order)) == 8
    assert spec(fake)["leaseTransitions"] == 7


def test_the_heartbeat_renews_it(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    first = spec(fake)["renewTime"]
    time.sleep(0.4)
    assert spec(fake)["renewTime"] != first
    lease.check()
    lease.release()


def test_one_that_somebody_annotated_is_still_held(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    api.merge(PATH, {"metadata": {"annotations": {"note": "by hand"}}})
    time.sleep(0.5)
    lease.check()
    before = spec(fake)["renewTime"]
    time.sleep(0.3)
    assert spec(fake)["renewTime"] != before
    lease.release()
    assert fake.objects[PATH]["metadata"]["annotations"]["note"] == "by hand"


def test_one_that_was_taken_over_stops_the_work_and_is_not_given_back(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    foreign(fake, holder="bob@desk")
    with pytest.raises(Interrupted, match="taken over by bob@desk"):
        _until_lost(lease)
    lease.release()
    assert spec(fake)["holderIdentity"] == "bob@desk"


def test_one_that_was_deleted_stops_the_work(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    del fake.objects[PATH]
    with pytest.raises(Interrupted, match="deleted"):
        _until_lost(lease)
    lease.release()
    assert PATH not in fake.objects


def test_one_that_cannot_be_renewed_stops_the_work_after_its_duration(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    fake.fault = lambda method, _path: 503 if method == "PUT" else None
    began = time.monotonic()
    with pytest.raises(Interrupted, match="could not be renewed for 1 s"):
        _until_lost(lease)
    assert 0.7 < time.monotonic() - began < 1.5
    fake.fault = lambda _method, _path: None
    lease.release()


def test_waiting_ends_when_the_work_may_not_go_on(api: Api, fake: FakeApi) -> None:
    foreign(fake, duration_s=60)

    def gone() -> None:
        raise Interrupted("nobody waits for this")

    with (
        pytest.raises(Interrupted, match="nobody"),
        hold(api, "valkey", "sessions", owner=OWNER, purpose="up", timing=FAST, may_go_on=gone),
    ):
        pass


def test_without_its_namespace_there_is_no_lease(api: Api, fake: FakeApi) -> None:
    fake.put("/api/v1/namespaces/other", {})
    with pytest.raises(ApiError, match="namespace valkey does not exist"):
        taken(api)


def _until_lost(lease: Lease) -> None:
    for _ in range(150):
        lease.check()
        time.sleep(0.02)
