"""Members that answer late, never, with an error, or with nonsense: each is told apart, and none is read as absent."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet, new_address
from valkeyctl.dataplane import (
    Absent,
    Credentials,
    DirectDialer,
    Endpoint,
    Member,
    Phase,
    Unreachable,
    Why,
    errors,
    observe,
    report,
)
from valkeyctl.dataplane.view import Outcome

SPEC = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS)
ONE = scenes.spec_of(1, 0)
PORT = 7479


@contextmanager
def something_that_answers(answer: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """A listener that isn't a server; `answer` gets each connection."""
    address = new_address()
    with socket.create_server((address, PORT)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with connection:
                try:
                    answer(connection)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield Endpoint(Member(0, 0), "t-s0-0", "t-s0-0.t-headless.test.svc", address, PORT, PORT + 10000)
        listener.shutdown(socket.SHUT_RDWR)


def always(reply: bytes) -> Callable[[socket.socket], None]:
    """Answer each command of a request with these bytes."""

    def answer(connection: socket.socket) -> None:
        while request := connection.recv(65536):
            connection.sendall(reply * max(1, request.count(b"*")))

    return answer


def hangs_up(connection: socket.socket) -> None:
    connection.recv(1)


def drips(connection: socket.socket) -> None:
    """Never silent for long, and never done."""
    while True:
        connection.sendall(b"$")
        time.sleep(0.1)


def is_silent(connection: socket.socket) -> None:
    connection.recv(65536)
    time.sleep(30)


def outcome_of(endpoint: Endpoint, *, password: str | None = None) -> Unreachable:
    view = observe(ONE, {endpoint.member: endpoint}, DirectDialer(Credentials(password=password)), timeout_s=0.7)
    outcome = view.outcomes[endpoint.member]
    assert isinstance(outcome, Unreachable)
    assert "t-s0-0" in outcome.detail
    assert report(ONE, view).phase is Phase.UNREACHABLE
    return outcome


@pytest.mark.parametrize(
    ("answer", "why", "text"),
    [
        (always(b"-LOADING server is loading the dataset in memory\r\n"), Why.LOADING, "still reads its dataset"),
        (always(b"-NOAUTH Authentication required.\r\n"), Why.AUTH_FAILED, "refused to let us in"),
        (always(b"-WRONGPASS invalid username-password pair\r\n"), Why.AUTH_FAILED, "Compare the password"),
        (always(b"-NOPERM User default has no permissions\r\n"), Why.RIGHT_MISSING, "Grant the user the right"),
        (always(b"-ERR something is odd\r\n"), Why.ERROR_REPLY, "something is odd"),
        (always(b"-ERR This instance has cluster support disabled\r\n"), Why.ERROR_REPLY, "cluster support disabled"),
        (always(b"-ERR max number of clients reached\r\n"), Why.CONNECT_FAILED, "max number of clients"),
        (always(b"+OK\r\n"), Why.NOT_UNDERSTOOD, "doesn't speak like a server of a cluster"),
        (always(b":1\r\n"), Why.NOT_UNDERSTOOD, "doesn't speak like a server of a cluster"),
        (always(b"$-1\r\n"), Why.NOT_UNDERSTOOD, "doesn't speak like a server of a cluster"),
        (always(b"*0\r\n"), Why.NOT_UNDERSTOOD, "doesn't speak like a server of a cluster"),
        (always(b"$5\r\n\xff\xfe\xfd\xfc\xfb\r\n"), Why.NOT_UNDERSTOOD, "doesn't speak like a server of a cluster"),
        (always(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Why.NOT_UNDERSTOOD, "doesn't speak the protocol"),
        (always(b"$nonsense\r\n"), Why.NOT_UNDERSTOOD, "couldn't be read"),
        (hangs_up, Why.CONNECT_FAILED, ""),
        (drips, Why.NO_ANSWER, "no answer within 0.7 s"),
        (is_silent, Why.NO_ANSWER, "no answer"),
    ],
)
def test_tells_failures_apart(answer: Callable[[socket.socket], None], why: Why, text: str) -> None:
    with something_that_answers(answer) as endpoint:
        began = time.monotonic()
        outcome = outcome_of(endpoint)
        assert time.monotonic() - began < 3
        assert outcome.why is why, outcome.detail
        assert text in outcome.detail


def test_tells_a_login_apart_that_the_server_did_not_expect() -> None:
    with something_that_answers(
        always(b"-ERR AUTH <password> called without any password configured for the default user.\r\n")
    ) as endpoint:
        outcome = outcome_of(endpoint, password="hunter2")  # noqa: S106
        assert outcome.why is Why.AUTH_FAILED
        assert "hunter2" not in repr(outcome)


def test_nobody_listening_is_unreachable_and_no_endpoint_is_absent() -> None:
    endpoint = Endpoint(Member(0, 0), "t-s0-0", "t-s0-0.t-headless.test.svc", new_address(), PORT, PORT + 10000)
    assert outcome_of(endpoint).why is Why.CONNECT_FAILED
    view = observe(ONE, {}, DirectDialer(Credentials()))
    assert view.outcomes == {Member(0, 0): Absent(Member(0, 0))}


def test_a_silent_member_holds_up_no_other(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        scenes.run(fleet)
        fleet.servers[Member(0, 1)].freeze()
        began = time.monotonic()
        view = observe(SPEC, fleet.directory(), fleet.dialer, timeout_s=0.7)
        took_s = time.monotonic() - began
        fleet.servers[Member(0, 1)].thaw()
        assert took_s < 2.5
        silent = view.outcomes[Member(0, 1)]
        assert isinstance(silent, Unreachable)
        assert silent.why is Why.NO_ANSWER
        assert len(view.nodes) == 5


def test_a_frozen_replica_is_awaited_and_nothing_is_written_meanwhile(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        scenes.run(fleet)
        fleet.servers[Member(0, 1)].freeze()
        running = {m: e for m, e in fleet.directory().items() if m != Member(0, 1)}
        before = scenes.commands_counted(fleet, running)
        with pytest.raises(errors.DeadlineExceeded, match="s0-1: wait until it answers"):
            scenes.run(fleet, deadline_s=4)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet, running))
        threading.Timer(1.0, fleet.servers[Member(0, 1)].thaw).start()
        scenes.assert_ready(fleet, scenes.run(fleet))


def test_a_frozen_primary_is_taken_over_from_and_taken_back(line: str) -> None:
    """The server fails over by itself; the former primary thaws with its old claim and is made a replica."""
    with Fleet(SPEC, line) as fleet:
        fleet.start()
        scenes.run(fleet)
        keys = scenes.write(fleet, Member(0, 0), SPEC.layout[0])
        fleet.servers[Member(0, 0)].freeze()
        with pytest.raises(errors.DeadlineExceeded) as caught:
            scenes.run(fleet, deadline_s=9)
        view = caught.value.view
        assert view is not None
        assert scenes.primaries(view)[0] == Member(0, 1)
        assert report(SPEC, view).condition("MembersPresent").reason == "NoAnswer"
        fleet.servers[Member(0, 0)].thaw()
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.primaries(view)[0] == Member(0, 1)
        assert scenes.read(fleet, list(keys)) == keys


def test_a_wrong_password_needs_a_person(line: str) -> None:
    with Fleet(SPEC, line, password="right") as fleet:  # noqa: S106
        fleet.start()
        fleet.password = "wr0ng!"  # noqa: S105
        error = scenes.blocked_reason(fleet)
        assert "Compare the password in the Secret" in str(error)
        assert "wr0ng!" not in str(error) + repr(error)


def test_a_loading_member_is_live_and_awaited(line: str) -> None:
    """A server that reads its dataset tells who it is; it is neither absent nor empty (report B1)."""
    with Fleet(
        ONE, line, {"save": "3600 1", "key-load-delay": "5000", "loading-process-events-interval-bytes": "1024"}
    ) as fleet:
        fleet.start()
        scenes.run(fleet)
        member = Member(0, 0)
        fleet.ask(member, "DEBUG", "POPULATE", 800)
        fleet.ask(member, "SAVE")
        node_id = fleet.ids()[member]
        fleet.servers[member].kill()
        fleet.servers[member].start()
        outcome = await_port(fleet)
        assert isinstance(outcome, Unreachable)
        assert outcome.why is Why.LOADING
        assert outcome.node_id == node_id
        view = scenes.run(fleet)
        assert view.nodes[member].keys == 800


def await_port(fleet: Fleet) -> Outcome:
    """What is seen of a server that has just been started, once anybody listens there."""
    deadline = time.monotonic() + 10
    while True:
        outcome = scenes.look(fleet).outcomes[Member(0, 0)]
        if not (isinstance(outcome, Unreachable) and outcome.why in {Why.CONNECT_FAILED, Why.NO_ANSWER}):
            return outcome
        assert time.monotonic() < deadline
        time.sleep(0.02)
