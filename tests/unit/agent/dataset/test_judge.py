"""What the own server's view means in a dataset, and what its state says."""

from __future__ import annotations

import time

import pytest

from valkeyctl.agent.dataset.judge import judge
from valkeyctl.agent.dataset.state import DATASET_LOOK, DatasetState
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.resp import Nonsense
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.dataplane.model import Member, member_of_host
from valkeyctl.dataplane.view import Role

ME, SECOND, THIRD = (Member(0, ordinal) for ordinal in range(3))
ALL = (ME, SECOND, THIRD)
PLACE = Environment("t-s0-0", "n", "t", "10.0.0.1", "t-s0-0.t-headless.n.svc", ME)
COMMON = {
    "run_id": "1" * 40,
    "valkey_version": "9.1.0",
    "loading": "0",
    "master_replid": "a" * 40,
    "master_replid2": "0" * 40,
    "master_repl_offset": "1000",
    "second_repl_offset": "-1",
}


def state(announces: str = PLACE.host, **told: str) -> ServerState:
    info = "\r\n".join(f"{name}:{value}" for name, value in {**COMMON, **told}.items())
    now = time.monotonic()
    replies = [info.encode(), [b"replica-announce-ip", announces.encode()]]
    return DATASET_LOOK.read(ServerState(1, Phase.SERVING, now, now), replies)


def primary(*replicas: tuple[int, str]) -> ServerState:
    listed = {
        f"slave{number}": f"ip=t-s0-{ordinal}.t-headless.n.svc,port=6379,state={how},offset=1000,lag=0"
        for number, (ordinal, how) in enumerate(replicas)
    }
    return state(role="master", connected_slaves=str(len(replicas)), **listed)


def replica(ordinal: int | None, link: str = "up", syncing: str = "0", **told: str) -> ServerState:
    host = "127.0.0.1" if ordinal is None else f"t-s0-{ordinal}.t-headless.n.svc"
    port = "1" if ordinal is None else "6379"
    given = {"master_host": host, "master_port": port, "master_link_status": link, "master_sync_in_progress": syncing}
    return state(role="slave", slave_repl_offset="1000", **given, **told)


def troubles(looked: ServerState, decided: Member | None = None, seen: tuple[str, ...] = ()) -> tuple[str, ...]:
    found = judge(PLACE, looked, ALL, member_at=lambda host: member_of_host("t", host), primary=decided, seen=seen)
    return found.troubles


@pytest.mark.parametrize(
    ("looked", "decided", "expected"),
    [
        (primary((1, "online"), (2, "online")), None, ()),
        (primary((1, "online"), (2, "online")), ME, ()),
        (primary((1, "online"), (2, "online")), SECOND, ("it is a primary beside s0-1",)),
        (primary((1, "online")), None, ("s0-2 does not follow it",)),
        (primary((1, "online"), (2, "wait_bgsave")), None, ("s0-2 is not yet in sync",)),
        (primary((1, "online"), (2, "online"), (4, "online")), None, ("s0-4 is not declared",)),
        (replica(1), None, ()),
        (replica(1), SECOND, ()),
        (replica(1), THIRD, ("it follows s0-1, and s0-2 is the primary",)),
        (replica(4), None, ("it follows s0-4, which is not declared",)),
        (replica(1, "down"), None, ("its link to its primary is not up",)),
        (replica(1, syncing="1"), None, ("its link to its primary is not up",)),
        (replica(None, "down"), None, ("it follows nobody of this instance", "its link to its primary is not up")),
    ],
)
def test_what_is_off(looked: ServerState, decided: Member | None, expected: tuple[str, ...]) -> None:
    assert troubles(looked, decided) == expected


def test_what_others_have_seen_counts_too() -> None:
    assert troubles(replica(1), seen=("a Sentinel forgot it",)) == ("a Sentinel forgot it",)


def test_one_that_announces_another_name_is_put_right() -> None:
    looked = state(announces="", role="master")
    assert "it doesn't announce its name" in troubles(looked)


def test_nothing_is_known_while_the_server_doesn_t_tell() -> None:
    now = time.monotonic()
    found = judge(PLACE, ServerState(1, Phase.DOWN, now, now), ALL, member_at=lambda _host: None, primary=None)
    assert (found.troubles, found.role) == ((), None)


def test_turns_are_by_ordinals_and_pass_over_who_is_gone() -> None:
    named = lambda host: member_of_host("t", host)  # noqa: E731
    found = judge(PLACE, replica(1, "down"), ALL, member_at=named, primary=None)
    assert found.alive == {ME, THIRD}
    assert found.role is Role.REPLICA
    found = judge(PLACE, primary((2, "online")), ALL, member_at=named, primary=None)
    assert found.alive == {ME, THIRD}
    assert found.role is Role.PRIMARY


@pytest.mark.parametrize(
    ("looked", "why"),
    [
        (primary(), ""),
        (replica(1), ""),
        (replica(1, "down"), "without its primary"),
        (replica(None, "down"), "without its primary"),
        (replica(1, syncing="1"), "not yet in sync"),
    ],
)
def test_ready_is_a_primary_and_a_replica_in_sync(looked: ServerState, why: str) -> None:
    assert isinstance(looked, DatasetState)
    assert why in looked.not_ready
    assert bool(why) is bool(looked.not_ready)


def test_an_answer_of_another_kind_is_nonsense() -> None:
    now = time.monotonic()
    with pytest.raises(Nonsense):
        DATASET_LOOK.read(ServerState(1, Phase.SERVING, now, now), [b"role:master", b"?"])
