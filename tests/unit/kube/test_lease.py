"""The Lease: one holder at a time, stale ones taken over safely, a lost one noticed."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.kube.fake_api import FakeApi
from valkeyctl.dataplane.errors import Interrupted
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import ApiError, ApiNotFound, LeaseHeld
from valkeyctl.kube.holder import Holder, started_at, this_process
from valkeyctl.kube.lease import (
    HOLDER_ANNOTATION,
    WISH_ANNOTATION,
    AgentTurn,
    Claim,
    Lease,
    Timing,
    acquire,
    ensure_lease,
    hold,
)

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
    """Its duration counts from before the request that renewed it last, however slow the machine is."""
    before = time.monotonic()
    lease = taken(api)
    fake.fault = lambda method, _path: 503 if method == "PUT" else None
    refused_since = time.monotonic()
    asked = list[float]()

    def check() -> None:
        asked.append(time.monotonic())
        lease.check()

    with pytest.raises(Interrupted, match="could not be renewed for 1 s"):
        _until(check)
    assert time.monotonic() >= before + FAST.duration_s
    assert all(at < refused_since + FAST.duration_s for at in asked[:-1]), "none of those said no"
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
    _until(lease.check)


def _until(check: Callable[[], None]) -> None:
    for _ in range(500):
        check()
        time.sleep(0.02)


# --- agents ---------------------------------------------------------------------------------------------------------

AGENTS = replace(FAST, duration_s=5)


def turn(api: Api, pod: str = "sessions-s0-0") -> AgentTurn:
    return AgentTurn(api, "valkey", "sessions", pod=pod, timing=AGENTS)


def test_an_agent_takes_a_lease_that_up_made_and_leaves_its_owner(api: Api, fake: FakeApi) -> None:
    ensure_lease(api, "valkey", "sessions", OWNER)
    ensure_lease(api, "valkey", "sessions", "somebody else")
    lease = turn(api).take(after_others=True)
    assert lease is not None
    lease.check()
    assert "agent sessions-s0-0" in str(spec(fake)["holderIdentity"])
    assert fake.objects[PATH]["metadata"]["annotations"]["valkeyctl/owner"] == OWNER
    lease.release()
    assert not spec(fake)["holderIdentity"]


def test_an_agent_makes_no_lease(api: Api) -> None:
    with pytest.raises(ApiNotFound):
        turn(api).take(after_others=True)


def test_an_agent_never_waits_for_a_holder_and_outlives_a_dead_one(api: Api, fake: FakeApi) -> None:
    foreign(fake, duration_s=1)
    mine = turn(api)
    began = time.monotonic()
    assert mine.take(after_others=True) is None
    lease = None
    while lease is None:
        lease = mine.take(after_others=True)
        time.sleep(0.02)
    assert time.monotonic() - began >= 1.0
    lease.release()


def test_of_agents_that_look_in_turn_one_attends(api: Api, fake: FakeApi) -> None:
    ensure_lease(api, "valkey", "sessions", OWNER)
    one, other = turn(api), turn(api, "sessions-s1-0")

    def attends(agent: AgentTurn) -> bool:
        lease = agent.take(after_others=False)
        if lease is not None:
            lease.release()
        return lease is not None

    assert attends(other)
    assert attends(one), "its first look: it doesn't know of the other's"
    assert not attends(other), "another one has attended meanwhile"
    assert attends(other), "and nobody has since"


def test_an_agent_gives_way_to_an_up_that_wishes(api: Api, fake: FakeApi) -> None:
    ensure_lease(api, "valkey", "sessions", OWNER)
    agent = turn(api).take(after_others=True)
    assert agent is not None
    told, stopped = list[str](), list[str]()

    def work() -> None:
        while True:
            try:
                agent.check()
            except Interrupted as error:
                stopped.append(str(error))
                agent.release()
                return
            time.sleep(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    lease = taken(api, told=told)
    thread.join()
    assert "gives way to" in stopped[0]
    assert "up of prod" in stopped[0]
    assert told[0].endswith("and was asked to give way")
    assert spec(fake)["holderIdentity"] == lease.holder.identity
    assert WISH_ANNOTATION not in fake.objects[PATH]["metadata"]["annotations"]
    lease.check()
    lease.release()


def test_an_agent_leaves_a_lease_that_somebody_wishes_for(
    api: Api, fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valkeyctl.kube.lease.WISH_KEPT_S", 0.5)
    ensure_lease(api, "valkey", "sessions", OWNER)
    api.merge(PATH, {"metadata": {"annotations": {WISH_ANNOTATION: "ann@laptop"}}})
    mine = turn(api)
    began = time.monotonic()
    assert mine.take(after_others=True) is None
    lease = None
    while lease is None:  # The wisher has died.
        lease = mine.take(after_others=True)
        time.sleep(0.02)
    assert time.monotonic() - began >= 0.5
    lease.check()
    lease.release()


def test_an_agent_that_does_not_stop_is_named_and_its_own_wish_is_no_sign_of_life(api: Api, fake: FakeApi) -> None:
    ensure_lease(api, "valkey", "sessions", OWNER)
    agent = turn(api).take(after_others=True)
    assert agent is not None
    with pytest.raises(LeaseHeld, match="agent sessions-s0-0"):
        taken(api, timing=replace(FAST, agent_patience_s=0.5))
    agent.release()
    # A dead agent's Lease: nothing but our wish changes it, and it runs out.
    ensure_lease(api, "valkey", "sessions", OWNER)
    dead = this_process("agent sessions-s1-1")
    dead = Holder(dead.user, dead.host, 1, dead.purpose, "another boot/1", "1", "abc")
    fake.objects[PATH]["metadata"]["annotations"][HOLDER_ANNOTATION] = dead.as_json()
    fake.objects[PATH]["spec"] = {"holderIdentity": dead.identity, "leaseDurationSeconds": 1}
    began = time.monotonic()
    lease = taken(api, timing=replace(FAST, agent_patience_s=0.2))
    assert time.monotonic() - began >= 1.0
    lease.release()


def test_two_ups_never_wish(api: Api, fake: FakeApi) -> None:
    lease = taken(api)
    with pytest.raises(LeaseHeld):
        taken(api, holder=this_process("up of staging"))
    assert WISH_ANNOTATION not in fake.objects[PATH]["metadata"]["annotations"]
    lease.check()
    lease.release()


def test_a_wish_that_comes_with_the_release_does_not_keep_it(api: Api, fake: FakeApi) -> None:
    ensure_lease(api, "valkey", "sessions", OWNER)
    mine = AgentTurn(api, "valkey", "sessions", pod="sessions-s0-0", timing=replace(AGENTS, heartbeat_s=60))
    agent = mine.take(after_others=True)
    assert agent is not None
    api.merge(PATH, {"metadata": {"annotations": {WISH_ANNOTATION: "ann@laptop"}}})
    agent.release()
    assert not spec(fake)["holderIdentity"]
    assert fake.objects[PATH]["metadata"]["annotations"][WISH_ANNOTATION] == "ann@laptop"
