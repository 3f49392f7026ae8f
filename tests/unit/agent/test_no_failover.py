"""A server that was told to take over from nobody is left alone, by those who stand in and by those who hand over."""

from __future__ import annotations

import io

import pytest

from tests.unit.agent.places import PlayedWatch, eventually
from tests.unit.agent.servers import Scripted
from valkeyctl.agent.handover import Copy, Handover
from valkeyctl.agent.logs import Log
from valkeyctl.agent.no_failover import must_not_take_over
from valkeyctl.agent.resp import Link
from valkeyctl.agent.state import Phase

YES = b"*2\r\n$27\r\ncluster-replica-no-failover\r\n$3\r\nyes\r\n"
NO = b"*2\r\n$27\r\ncluster-replica-no-failover\r\n$2\r\nno\r\n"


@pytest.mark.parametrize(
    ("answer", "told"), [(YES, True), (NO, False), (b"*0\r\n", False), (b"-ERR unknown command\r\n", False)]
)
def test_what_the_server_says(answer: bytes, told: bool) -> None:  # noqa: FBT001
    server = Scripted(lambda _: answer)
    with Link("127.0.0.1", server.port, 5.0) as link:
        assert must_not_take_over(link) is told


@pytest.mark.parametrize(("answer", "asked"), [(YES, False), (NO, True)])
def test_a_stopping_primary_hands_over_to_whom_it_may(answer: bytes, asked: bool) -> None:  # noqa: FBT001
    replica = Scripted(lambda data: answer if b"CONFIG" in data else b"-ERR not now\r\n")
    log = io.StringIO()
    watch = PlayedWatch()
    watch.turn(Phase.SERVING, info=b"role:master\r\n")
    handover = Handover(
        None,  # type: ignore[arg-type]  # nobody knocks
        watch,  # type: ignore[arg-type]
        lambda address, port: Link(address, port, 5.0),
        Log(to=log),
    )
    handover._ask(Copy("127.0.0.1", replica.port, 1), deadline=0.0)
    eventually(lambda: bool(replica.received))
    assert (b"FAILOVER" in b"".join(replica.received)) is asked
    assert ("take over from nobody" in log.getvalue()) is not asked
