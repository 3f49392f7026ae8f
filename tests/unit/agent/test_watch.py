"""The own server, watched: what is noticed, and how soon."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.agent.servers import Scripted
from valkeyctl.agent.logs import Log
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.watch import Watch

NODES = b"a 127.0.0.1:1@2,h myself,master - 0 0 1 connected 0-16383\n"
CLUSTER = b"cluster_state:ok\r\ncluster_size:3\r\ncluster_current_epoch:1\r\n"
PRIMARY = b"role:master\r\nloading:0\r\n"
REPLICA = b"role:slave\r\nloading:0\r\nmaster_link_status:%b\r\nmaster_sync_in_progress:%d\r\n"


def look(info: bytes, cluster: bytes = CLUSTER, nodes: bytes = NODES) -> bytes:
    """The answers to one look."""
    return b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in (nodes, cluster, info))


class Watched:
    """A watch on a server that a test plays."""

    def __init__(self) -> None:
        self.look = look(PRIMARY)
        self.sign_in = b"+OK\r\n"
        self.server = Scripted(self._answer)
        self.log = io.StringIO()
        self.stopping = threading.Event()
        self.beats = 0
        self.watch = Watch("127.0.0.1", self.server.port, lambda: (b"x",), Log(to=self.log))
        self.seen: list[ServerState] = []
        self.watch.listeners.append(self.seen.append)
        self.thread = threading.Thread(target=self.watch.run, args=(self.stopping, self._beat))

    def _answer(self, asked: bytes) -> bytes:
        return self.sign_in if b"AUTH" in asked else self.look

    def _beat(self) -> None:
        self.beats += 1

    def until(self, holds: Callable[[ServerState], bool], within_s: float = 10.0) -> ServerState:
        deadline = time.monotonic() + within_s
        state = self.watch.state
        while not holds(state):
            assert time.monotonic() < deadline, state
            state = self.watch.wait(state.number, 1.0)
        return state


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    made.thread.start()
    yield made
    made.stopping.set()
    made.watch.poke()
    made.thread.join(10)
    made.server.close()
    assert not made.thread.is_alive()


def test_tells_what_the_server_tells(watched: Watched) -> None:
    state = watched.until(lambda state: state.serving)
    assert (state.nodes, state.cluster_info, state.info) == (NODES, CLUSTER, PRIMARY)
    assert state.not_ready == ""
    assert watched.beats > 0
    assert "watch: the server is a primary, ready" in watched.log.getvalue()


def test_notices_the_end_of_the_server_at_once(watched: Watched) -> None:
    watched.until(lambda state: state.serving)
    began = time.monotonic()
    watched.server.end()
    state = watched.until(lambda state: state.phase is Phase.DOWN)
    assert time.monotonic() - began < 0.5
    assert watched.seen[-1].phase is Phase.DOWN
    assert state.nodes == b""


def test_a_broken_connection_is_not_the_end_of_the_server(watched: Watched) -> None:
    before = watched.until(lambda state: state.serving)
    watched.server.hang_up()
    watched.until(lambda state: state.number > before.number + 2)
    assert {state.phase for state in watched.seen} <= {Phase.SERVING, Phase.DOWN}
    assert all(state.serving for state in watched.seen if state.number >= before.number)


def test_a_look_again_is_new(watched: Watched) -> None:
    watched.until(lambda state: state.serving)
    watched.look = look(REPLICA % (b"down", 0))
    state = watched.watch.look_again(5.0)
    assert state.is_replica
    assert not state.link_up


def test_each_phase(watched: Watched) -> None:
    watched.until(lambda state: state.serving)
    for answer, phase in (
        (b"-LOADING server is loading\r\n" * 3, Phase.LOADING),
        (b"-NOAUTH no\r\n" * 3, Phase.REFUSING),
        (b"-BUSY running a script\r\n" * 3, Phase.SILENT),
        (look(b"role:slave\r\nloading:0\r\nasync_loading:1\r\n"), Phase.LOADING),
        (look(PRIMARY), Phase.SERVING),
    ):
        watched.look = answer
        watched.watch.poke()
        watched.until(lambda state, phase=phase: state.phase is phase)


def test_a_refused_password_is_told(watched: Watched) -> None:
    watched.sign_in = b"-WRONGPASS no such user\r\n"
    watched.server.hang_up()
    state = watched.until(lambda state: state.phase is Phase.REFUSING)
    assert state.not_ready == "the server is refusing: WRONGPASS no such user"


def test_a_silent_server_is_told_as_such(watched: Watched) -> None:
    watched.until(lambda state: state.serving)
    watched.look = b""
    watched.watch.poke()
    state = watched.until(lambda state: state.phase is Phase.SILENT)
    assert "no answer" in state.not_ready


def test_a_server_is_waited_for(watched: Watched) -> None:
    watched.server.end()
    watched.until(lambda state: state.phase is Phase.DOWN)
    since = watched.watch.state.since
    with socket.create_server(("127.0.0.1", watched.server.port)):
        watched.until(lambda state: state.phase is not Phase.DOWN)
        assert watched.watch.state.since > since


@pytest.mark.parametrize(
    ("info", "cluster", "why"),
    [
        (PRIMARY, CLUSTER, ""),
        (PRIMARY, b"cluster_size:0\r\n", "knows no cluster in which slots are served"),
        (REPLICA % (b"up", 0), CLUSTER, ""),
        (REPLICA % (b"down", 0), CLUSTER, "is a replica without its primary"),
        (REPLICA % (b"up", 1), CLUSTER, "is a replica that is not yet in sync"),
        (REPLICA % (b"up", 0), b"", "knows no cluster in which slots are served"),
    ],
)
def test_ready_is_who_serves(info: bytes, cluster: bytes, why: str) -> None:
    assert ServerState(1, Phase.SERVING, 0, 0, NODES, cluster, info).not_ready == why


def test_whose_replica_it_is() -> None:
    nodes = b"b h:1@2 master - 0 0 1 connected 5\na h:1@2 myself,slave b 0 0 1 connected\n"
    assert ServerState(1, Phase.SERVING, 0, 0, nodes).primary_id == "b"
    assert ServerState(1, Phase.SERVING, 0, 0, NODES).primary_id == ""
    assert ServerState(1, Phase.DOWN, 0, 0).primary_id == ""
