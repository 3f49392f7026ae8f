"""How members are talked with: bounded in number and time, and what goes wrong is told in our words."""

from __future__ import annotations

import ssl
import threading
import time

import pytest
from valkey import exceptions as theirs

from tests.unit.dataplane.views import S00, S01, S10, endpoint
from valkeyctl.dataplane import Credentials, DirectDialer, Member, SlotSet, errors, steps
from valkeyctl.dataplane.apply import COMMANDS_NEEDED, _commands
from valkeyctl.dataplane.fanout import fan_out
from valkeyctl.dataplane.progress import Progress, Teller
from valkeyctl.dataplane.translate import ours, translated


def test_fans_out_bounded_in_number() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(key: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return key * 2

    results = fan_out(range(30), work, max_parallel=4, timeout_s=5, late=lambda _: -1)
    assert results == {key: key * 2 for key in range(30)}
    assert list(results) == list(range(30))
    assert 1 < most <= 4


def test_who_is_late_is_given_up_and_holds_up_nobody() -> None:
    release, given_up = threading.Event(), list[int]()

    def work(key: int) -> str:
        if key < 2:
            release.wait(20)
        return "done"

    def late(key: int) -> str:
        given_up.append(key)
        return "late"

    began = time.monotonic()
    results = fan_out(range(8), work, max_parallel=2, timeout_s=0.2, late=late)
    assert time.monotonic() - began < 5
    release.set()
    assert results == {key: "late" if key < 2 else "done" for key in range(8)}
    assert sorted(given_up) == [0, 1]


def test_nothing_to_do_is_done_at_once() -> None:
    assert fan_out(list[int](), lambda key: key, max_parallel=4, timeout_s=1, late=lambda key: key) == {}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (theirs.AuthenticationError("invalid username-password pair"), errors.AuthFailed),
        (theirs.ResponseError("WRONGPASS invalid"), errors.AuthFailed),
        (theirs.ResponseError("NOAUTH Authentication required."), errors.AuthFailed),
        (theirs.NoPermissionError("User x has no permissions to run the 'info' command"), errors.RightMissing),
        (theirs.BusyLoadingError("loading"), errors.Loading),
        (theirs.ResponseError("ERR unknown command"), errors.ErrorReply),
        (theirs.TimeoutError("Timeout reading from socket"), errors.NoAnswer),
        (TimeoutError("timed out"), errors.NoAnswer),
        (theirs.ConnectionError("Error 111 connecting"), errors.ConnectFailed),
        (ConnectionResetError("reset"), errors.ConnectFailed),
        (ssl.SSLCertVerificationError("self-signed certificate"), errors.ConnectFailed),
        (theirs.InvalidResponse("Protocol Error"), errors.NotUnderstood),
        (ValueError("invalid literal"), errors.NotUnderstood),
    ],
)
def test_translates_errors_and_keeps_their_cause(error: Exception, kind: type[errors.ValkeyctlError]) -> None:
    with pytest.raises(kind) as caught, translated(endpoint(S00, "10.0.0.1")):
        raise error
    assert caught.value.__cause__ is error
    assert "t-s0-0 (10.0.0.1:6379)" in str(caught.value)


def test_our_own_errors_pass_and_long_texts_are_cut() -> None:
    mine = errors.Blocked("needs a person", remedy="Ask one.")
    with pytest.raises(errors.Blocked) as caught, translated(endpoint(S00, "10.0.0.1")):
        raise mine
    assert caught.value is mine
    assert str(mine) == "needs a person. Ask one."
    assert len(str(ours(OSError("x" * 5000), endpoint(S00, "10.0.0.1")))) < 300


def test_credentials_never_show_the_password() -> None:
    credentials = Credentials("operator", "hunter2")
    assert "hunter2" not in f"{credentials!r} {credentials} {DirectDialer(credentials)!r}"
    assert "operator" in repr(credentials)


ALL_STEPS = [
    steps.SetEpoch(S00, 1),
    steps.AssignSlots(S00, SlotSet.parse("0-5,9"), raise_epoch=True),
    steps.DropSlots(S00, SlotSet.parse("0-5,9")),
    steps.Introduce(S00, S01),
    steps.Remind(S00, S01),
    steps.Replicate(S01, S00, "a" * 40),
    steps.Detach(S01),
    steps.Promote(S01),
    steps.Forget(S00, "a" * 40, "s0-1"),
    steps.CloseSlot(S00, 5),
    steps.SetNodeTimeout(S00, 500),
]


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: type(step).__name__)
def test_every_step_says_where_and_what_and_needs_a_listed_right(step: steps.Action) -> None:
    assert step.describe().startswith(f"{step.member}: ")
    where = {member: endpoint(member, f"10.0.0.{member.ordinal}") for member in (S00, S01)}
    for name, *arguments in _commands(step, where):
        assert f"{name}|{arguments[0]}".lower() in COMMANDS_NEEDED


def test_addresses_come_from_the_directory_alone() -> None:
    where = {S01: endpoint(S01, "10.0.0.9")}
    assert _commands(steps.Introduce(S00, S01), where) == [("CLUSTER", "MEET", "10.0.0.9", 6379, 16379)]


def test_many_steps_of_a_kind_are_one_line() -> None:
    few = [steps.Introduce(S00, S01), steps.SetEpoch(S10, 3)]
    assert steps.describe_all(few) == ("s0-0: meet s0-1", "s1-0: set config epoch 3")
    many = [steps.Replicate(Member(shard, 1), Member(shard, 0), "") for shard in range(12)]
    assert steps.describe_all(many) == (
        "attach to their primaries s0-1, s1-1, s2-1, s3-1, s4-1, s5-1, s6-1, s7-1 and 4 more",
    )


def test_tells_changes_only() -> None:
    told: list[Progress] = []
    teller = Teller(told.append)
    teller.say("forming", ("a",), new=("s0-0: meet s0-1",))
    teller.say("forming", ("a",))
    teller.say("forming", ("b",))
    teller.say("forming", ("b",), new=("s0-0: meet s1-0",))
    assert [(line.new, line.waiting) for line in told] == [
        (("s0-0: meet s0-1",), ("a",)),
        ((), ("b",)),
        (("s0-0: meet s1-0",), ("b",)),
    ]
    assert told[-1].done == ("s0-0: meet s0-1", "s0-0: meet s1-0")
