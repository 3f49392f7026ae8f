"""Connections to members, of which some give no answer in time."""

from __future__ import annotations

import threading

from tests.dataplane import scenes
from tests.dataplane.servers import Fleet
from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import NoAnswer, Unreachable
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.session import Reply, Session

MEMBER = Member(0, 0)


def test_a_talk_that_was_given_up_leaves_the_next_one_alone(line: str) -> None:
    # Its thread lives on until it hears that its connection is closed, and by then another one may be talking.
    with Fleet(scenes.spec_of(1, 0), line) as fleet:
        fleet.start()
        may_end, threads = threading.Event(), list[threading.Thread]()

        def given_up(_: Session) -> list[Reply]:
            threads.append(threading.current_thread())
            may_end.wait(10)
            raise Unreachable("its connection was closed")

        def next_one(session: Session) -> list[Reply]:
            may_end.set()
            threads[0].join(10)
            return session.ask([("PING",)])

        with Links(fleet.dialer, timeout_s=1, max_parallel=8) as links:
            assert isinstance(links.each(fleet.directory(), given_up)[MEMBER], NoAnswer)
            assert links.each(fleet.directory(), next_one) == {MEMBER: [b"PONG"]}
            assert not threads[0].is_alive()
