"""The small client of a server."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.unit.agent.servers import Scripted
from valkeyctl.agent.resp import ErrorReply, Link, Nonsense, Reply, connected

Serve = Callable[[Callable[[bytes], bytes | None]], Scripted]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[Scripted] = []

    def start(answer: Callable[[bytes], bytes | None]) -> Scripted:
        made.append(Scripted(answer))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        (b"+PONG\r\n", b"PONG"),
        (b":42\r\n", 42),
        (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
        (b"$0\r\n\r\n", b""),
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b"*3\r\n:1\r\n*1\r\n$1\r\nx\r\n-ERR no\r\n", [1, [b"x"], ErrorReply("ERR no")]),
        (b"-LOADING server is loading\r\n", ErrorReply("LOADING server is loading")),
    ],
)
def test_reads_every_kind_of_reply(serve: Serve, sent: bytes, reply: Reply) -> None:
    server = serve(lambda _: sent)
    with Link("127.0.0.1", server.port, 5) as link:
        assert link.ask(("X",)) == [reply]


def test_sends_words_as_they_are_and_all_commands_at_once(serve: Serve) -> None:
    server = serve(lambda _: b"+OK\r\n:1\r\n")
    with Link("127.0.0.1", server.port, 5) as link:
        assert link.ask(("SET", b"a\r\n", "ä"), ("INCR", 7)) == [b"OK", 1]
    assert b"".join(server.received) == (
        b"*3\r\n$3\r\nSET\r\n$3\r\na\r\n\r\n$2\r\n\xc3\xa4\r\n*2\r\n$4\r\nINCR\r\n$1\r\n7\r\n"
    )


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad Request\r\n", b"$x\r\n", b"*99999999999\r\n", b"%1\r\n"])
def test_tells_what_is_no_reply(serve: Serve, sent: bytes) -> None:
    server = serve(lambda _: sent)
    with Link("127.0.0.1", server.port, 5) as link, pytest.raises(Nonsense):
        link.ask(("X",))


@pytest.mark.parametrize("sent", [b"$10\r\nabc", b""])
def test_a_reply_that_breaks_off_is_the_end_of_the_connection(serve: Serve, sent: bytes) -> None:
    server = serve(lambda _: sent)
    threading.Timer(0.2, server.hang_up).start()
    with Link("127.0.0.1", server.port, 5) as link, pytest.raises(OSError, match=r"hung up|reset"):
        link.ask(("X",))


def test_a_silent_server_is_not_waited_for_longer(serve: Serve) -> None:
    server = serve(lambda _: b"")
    with Link("127.0.0.1", server.port, 0.2) as link, pytest.raises(TimeoutError):
        link.ask(("X",))


def test_notices_that_the_server_has_gone(serve: Serve) -> None:
    server = serve(lambda _: b"+OK\r\n")
    with Link("127.0.0.1", server.port, 5) as link:
        link.ask(("X",))
        assert not link.gone()
        server.hang_up()

        select.select([link], [], [], 5)
        assert link.gone()


def test_signs_in_with_the_first_password_that_is_taken(serve: Serve) -> None:
    server = serve(lambda data: b"+OK\r\n" if b"new" in data else b"-WRONGPASS no\r\n")
    connected("127.0.0.1", server.port, (b"old", b"new"), 5).close()
    assert [data.split(b"\r\n")[4] for data in server.received] == [b"old", b"new"]


def test_tells_when_no_password_is_taken(serve: Serve) -> None:
    server = serve(lambda _: b"-WRONGPASS no\r\n")
    with pytest.raises(PermissionError, match="WRONGPASS no"):
        connected("127.0.0.1", server.port, (b"one", b"two"), 5)
    with pytest.raises(PermissionError, match="no password is known"):
        connected("127.0.0.1", server.port, (), 5)


def test_without_a_password_it_is_still_told_whether_anybody_is_there(serve: Serve) -> None:
    server = serve(lambda _: b"+OK\r\n")
    server.close()
    with pytest.raises(ConnectionRefusedError):
        connected("127.0.0.1", server.port, (), 5)


def test_a_loading_server_can_be_asked(serve: Serve) -> None:
    """It can't check a password yet."""
    server = serve(lambda _: b"-LOADING server is loading\r\n")
    with connected("127.0.0.1", server.port, (b"x",), 5) as link:
        (reply,) = link.ask(("INFO",))
        assert isinstance(reply, ErrorReply)
        assert reply.code == "LOADING"
