"""Standing in for a primary: when it is asked, and what the own server is told."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping

import pytest

from tests.unit.agent.places import (
    ONE,
    ONE_ID,
    OTHER,
    PlayedPeers,
    PlayedTelling,
    PlayedWatch,
    Running,
    eventually,
    primary_tale,
    replica_tale,
)
from tests.unit.agent.servers import Scripted
from valkeyctl.agent.guard import Rules
from valkeyctl.agent.logs import Log
from valkeyctl.agent.promotion import Promotion
from valkeyctl.agent.resp import Link
from valkeyctl.agent.state import Phase
from valkeyctl.agent.tale import Owner, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import SlotSet

BROKEN = b"role:slave\r\nmaster_link_status:down\r\n"
LINKED = b"role:slave\r\nmaster_link_status:up\r\n"


class Replica:
    """A promotion, and the replica's server that it commands."""

    def __init__(self) -> None:
        self.watch = PlayedWatch()
        self.telling = PlayedTelling(replica_tale())
        self.tales: Mapping[Member, Tale] = {}
        self.peers = PlayedPeers(lambda: self.tales)
        self.server = Scripted(lambda _: self.answer)
        self.answer = b"+OK\r\n"
        self.log = io.StringIO()
        self.promotion = Promotion(
            self.watch,  # type: ignore[arg-type]
            self.telling,  # type: ignore[arg-type]
            self.peers,  # type: ignore[arg-type]
            Log(to=self.log),
            connect=lambda: Link("127.0.0.1", self.server.port, 5.0),
            rules=lambda: Rules(force_s=0.3),
        )

    def running(self) -> Running:
        return Running(lambda stopping: self.promotion.run(stopping, lambda: None))

    def link(self, info: bytes) -> None:
        self.promotion.note(self.watch.turn(Phase.SERVING, info=info))

    @property
    def told(self) -> bytes:
        return b"".join(self.server.received)


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_an_election_first_then_without_votes(replica: Replica) -> None:
    others = (
        Owner("3" * 40, Member(1, 0), 2, SlotSet.span(8, 9)),
        Owner("4" * 40, Member(2, 0), 3, SlotSet.span(6, 7)),
    )
    mine = SlotSet.span(0, 5)
    replica.telling.tale = replica_tale(owners=(Owner(ONE_ID, ONE, 1, mine), *others))
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale(slots=mine)}
    # Nothing is told of the other primaries: they may vote, and don't.
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: b"TAKEOVER" in replica.told)
    first, second = replica.told.split(b"*3\r\n$7\r\nCLUSTER\r\n$8\r\nFAILOVER\r\n")[1:3]
    assert (first.split(b"*")[0], second.split(b"*")[0]) == (b"$5\r\nFORCE\r\n", b"$8\r\nTAKEOVER\r\n")
    assert "WARNING stand-in: it stands in for its primary" in replica.log.getvalue()


def test_no_election_where_nobody_can_vote(replica: Replica) -> None:
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale()}
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: replica.told)
    assert b"TAKEOVER" in replica.told
    assert b"FORCE" not in replica.told


def test_a_running_primary_is_left_to_the_servers(replica: Replica) -> None:
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale(server=Server.UP, held=False)}
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: replica.telling.missed)
    assert replica.told == b""


def test_without_a_promise_nothing_is_done(replica: Replica) -> None:
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale(held=False)}
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: len(replica.peers.asked) > 3)
    assert replica.told == b""
    assert replica.log.getvalue().count("may start at any moment") == 1, "told once"


def test_a_primary_that_tells_nothing_is_left_to_the_servers(replica: Replica) -> None:
    replica.link(LINKED)
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: len(replica.peers.asked) > 3)
    assert replica.told == b""


def test_a_link_that_stands_asks_nobody(replica: Replica) -> None:
    replica.link(LINKED)
    with replica.running():
        replica.promotion.hint(primary_tale())
        eventually(lambda: not replica.promotion._hint.is_set())
    assert replica.peers.asked == []


def test_a_hint_has_it_asked_at_once_and_is_not_believed_by_itself(replica: Replica) -> None:
    """The letter may be an old one, sent again by somebody."""
    replica.watch.turn(Phase.SERVING, info=BROKEN)
    replica.tales = {ONE: primary_tale(server=Server.UP, held=False)}
    with replica.running():
        replica.promotion.hint(primary_tale())
        eventually(lambda: replica.peers.asked, within_s=0.5)
    assert replica.told == b""


def test_a_server_that_is_told_to_take_over_from_nobody_is_not_asked_to(replica: Replica) -> None:
    """All members of an instance that is being paused are, and stop at about the same time."""
    replica.answer = b"*2\r\n$27\r\ncluster-replica-no-failover\r\n$3\r\nyes\r\n"
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale()}
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: "its server is told not to" in replica.log.getvalue())
        eventually(lambda: len(replica.server.received) > 2)
    assert b"FAILOVER\r\n$" not in replica.told
    assert replica.log.getvalue().count("its server is told not to") == 1, "told once"


def test_a_refusal_of_the_own_server_is_told(replica: Replica) -> None:
    replica.answer = b"-ERR no\r\n"
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale()}
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: "the own server refuses: ERR no" in replica.log.getvalue())


def test_everybody_who_may_know_is_asked(replica: Replica) -> None:
    replica.link(LINKED)
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: replica.peers.asked)
    assert replica.peers.asked[0] == {ONE}
    assert OTHER not in replica.peers.asked[0]


def test_a_server_that_is_slow_to_be_told_is_not_told_what_may_be_over(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The primary's promise lasts for a moment only; meanwhile it may have been let start."""
    monkeypatch.setattr("valkeyctl.agent.promotion.ACT_S", 0.2)
    slow = [True]

    def must_not(_link: Link) -> bool:
        if slow:
            slow.pop()
            replica.tales = {ONE: primary_tale(server=Server.LOADING, held=False)}
            time.sleep(0.3)
        return False

    monkeypatch.setattr("valkeyctl.agent.promotion.must_not_take_over", must_not)
    replica.link(LINKED)
    replica.tales = {ONE: primary_tale()}
    with replica.running():
        replica.link(BROKEN)
        eventually(lambda: replica.telling.missed)
    assert replica.told == b""
