"""What a member tells of itself, whatever its server does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.agent.places import ONE, ONE_ID, OTHER, OTHER_ID, PlayedWatch, place
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.agent.tale import Data, Kind, Server, Tale
from valkeyctl.agent.telling import FROZEN_S, Telling
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import SlotSet
from valkeyctl.dataplane.view import Role

THIRD_ID = "3" * 40
NODES = (
    f"{ONE_ID} 127.9.0.1:6379@16379,t-s0-0.t-headless.n.svc {{me}} connected{{own}}\n"
    f"{OTHER_ID} 127.9.0.2:6379@16379,t-s0-1.t-headless.n.svc {{other}} connected{{its}}\n"
    f"{THIRD_ID} 127.9.0.3:6379@16379,t-s1-0.t-headless.n.svc master - 0 0 3 connected 101-16383\n"
)
AS_PRIMARY = NODES.format(me="myself,master - 0 0 1", own=" 0-100", other=f"slave {ONE_ID} 0 0 1", its="").encode()
AS_REPLICA = NODES.format(me=f"myself,slave {OTHER_ID} 0 0 2", own="", other="master - 0 0 2", its=" 0-100").encode()
CLUSTER = b"cluster_state:ok\r\ncluster_current_epoch:7\r\ncluster_size:2\r\n"
INFO = "loading:0\r\nvalkey_version:9.1.0\r\nmaster_replid:abc\r\nmaster_repl_offset:70\r\nslave_repl_offset:60\r\n"
LOADED = Data(Kind.SNAPSHOT, "old", 5)


class Member0:
    """A telling of ONE, whose server and disk a test plays."""

    def __init__(self, folder: Path) -> None:
        self.watch = PlayedWatch()
        self.disk: Tale | Exception = Tale(ONE, node_id=ONE_ID, role=Role.REPLICA, primary_id=OTHER_ID, data=LOADED)
        self.held = True
        self.telling = Telling(place(folder), self.watch, self._read, lambda: self.held)  # type: ignore[arg-type]

    def _read(self) -> Tale:
        if isinstance(self.disk, Exception):
            raise self.disk
        return self.disk

    def serves(self, role: str = "master", *, up: bool = True, syncing: bool = False, was_up: bool = True) -> Tale:
        """Another look at the server; what is told then."""
        info = f"role:{role}\r\n{INFO}"
        if role == "slave":
            info += f"master_link_status:{'up' if up else 'down'}\r\nmaster_sync_in_progress:{int(syncing)}\r\n"
            info += "" if up else f"master_link_down_since_seconds:{1 if was_up else -1}\r\n"
        nodes = AS_PRIMARY if role == "master" else AS_REPLICA
        number = self.watch.state.number + 1
        now = time.monotonic()
        self._take(ServerState(number, Phase.SERVING, now, now, nodes, CLUSTER, info.encode()))
        return self.telling.now()

    def turns(self, phase: Phase, *, for_s: float = 0.0) -> Tale:
        """The server is in another phase, since some time; what is told then."""
        now = time.monotonic()
        self._take(ServerState(self.watch.state.number + 1, phase, now, now - for_s))
        return self.telling.now()

    def _take(self, state: ServerState) -> None:
        self.watch.state = state
        self.telling.note(state)


@pytest.fixture
def member(tmp_path: Path) -> Member0:
    return Member0(tmp_path)


def test_a_primary(member: Member0) -> None:
    tale = member.serves()
    assert (tale.server, tale.held, tale.role, tale.primary_id) == (Server.UP, False, Role.PRIMARY, "")
    assert (tale.slots, tale.config_epoch, tale.current_epoch) == (SlotSet.span(0, 100), 1, 7)
    assert tale.data == Data(Kind.LIVE, "abc", 70)
    assert tale.synced is None
    assert [(owner.node_id, owner.member) for owner in tale.owners] == [(THIRD_ID, Member(1, 0))]
    assert [(one.node_id, one.member, one.primary_id) for one in tale.followers] == [(OTHER_ID, OTHER, ONE_ID)]


def test_a_replica(member: Member0) -> None:
    tale = member.serves("slave")
    assert (tale.role, tale.primary_id, tale.slots) == (Role.REPLICA, OTHER_ID, SlotSet())
    assert tale.data == Data(Kind.LIVE, "abc", 60)
    assert tale.synced is True
    assert {owner.member for owner in tale.owners} == {OTHER, Member(1, 0)}


def test_a_link_that_breaks_leaves_it_in_sync_until_the_primary_is_known_to_go_on(member: Member0) -> None:
    member.serves("slave")
    assert member.serves("slave", up=False).synced is True
    member.telling.missed_some()
    assert member.serves("slave", up=False).synced is False
    assert member.serves("slave").synced is True


def test_a_full_copy_under_way_is_no_copy(member: Member0) -> None:
    member.serves("slave")
    assert member.serves("slave", up=False, syncing=True).synced is False
    assert member.serves("slave", up=False).synced is False, "the copy broke off"


def test_one_that_followed_nobody_since_it_started_has_what_it_loaded(member: Member0) -> None:
    tale = member.serves("slave", up=False, was_up=False)
    assert tale.data == LOADED
    assert tale.synced is None
    assert member.serves("slave").data.kind is Kind.LIVE


def test_what_it_was_in_sync_with_is_kept_while_it_is_down(member: Member0) -> None:
    """A replica's log may be ahead of its primary's when all are killed at once."""
    member.serves("slave")
    tale = member.turns(Phase.DOWN)
    assert (tale.server, tale.held, tale.synced, tale.data) == (Server.DOWN, True, True, LOADED)
    assert member.serves("slave", up=False, was_up=False).synced is True, "nor does a start change that"


def test_a_start_under_way_is_no_promise(member: Member0) -> None:
    member.held = False
    tale = member.turns(Phase.DOWN)
    assert (tale.server, tale.held) == (Server.LOADING, False)


@pytest.mark.parametrize("phase", [Phase.REFUSING, Phase.SILENT])
def test_a_server_that_stops_answering_has_what_it_told_last_and_not_what_is_on_its_disk(
    member: Member0, phase: Phase
) -> None:
    """It may be busy for a moment only: to take it for one with an old snapshot would lose all that it has."""
    live = member.serves("slave").data
    tale = member.turns(phase)
    assert (tale.server, tale.data, tale.synced) == (Server.LOADING, live, True)
    assert member.turns(phase, for_s=FROZEN_S + 1).data == live


@pytest.mark.parametrize("phase", [Phase.REFUSING, Phase.SILENT])
def test_what_a_server_has_that_never_answered_is_not_known(member: Member0, phase: Phase) -> None:
    """As for an agent that comes back beside a server that is busy."""
    assert member.turns(phase).data == Data(Kind.UNKNOWN)
    member.turns(Phase.LOADING)
    assert member.turns(phase).data == Data(Kind.UNKNOWN), "by now it may have loaded, and more"


def test_before_the_first_look_nothing_is_known_of_a_server_that_may_run(member: Member0) -> None:
    member.held = False
    assert (member.telling.now().server, member.telling.now().data) == (Server.LOADING, Data(Kind.UNKNOWN))
    member.held = True
    assert (member.telling.now().server, member.telling.now().data) == (Server.DOWN, LOADED), "none was permitted"


def test_another_server_does_not_have_what_the_one_before_had_in_memory(member: Member0) -> None:
    member.serves("slave")
    assert member.turns(Phase.DOWN).data == LOADED
    assert member.turns(Phase.LOADING).data == LOADED
    assert member.turns(Phase.SILENT).data == Data(Kind.UNKNOWN)


def test_what_it_loaded_is_read_again_where_the_disk_failed(member: Member0) -> None:
    good, member.disk = member.disk, OSError("input/output error")
    assert member.serves("slave", up=False, was_up=False).data == Data(Kind.UNKNOWN)
    member.disk = good
    assert member.serves("slave", up=False, was_up=False).data == LOADED


def test_what_was_read_before_its_server_ended_is_not_told(member: Member0) -> None:
    """It was promoted meanwhile, as its node table on the disk says."""
    assert member.turns(Phase.LOADING).role is Role.REPLICA
    member.serves()
    member.disk = Tale(ONE, node_id=ONE_ID, slots=SlotSet.span(0, 100), config_epoch=8, data=LOADED)
    assert member.turns(Phase.DOWN).role is Role.PRIMARY


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.REFUSING, Phase.SILENT])
def test_a_server_that_does_not_answer_runs_nevertheless(member: Member0, phase: Phase) -> None:
    tale = member.turns(phase)
    assert (tale.server, tale.held) == (Server.LOADING, False)


def test_a_frozen_server_counts_for_nothing(member: Member0) -> None:
    tale = member.turns(Phase.SILENT, for_s=FROZEN_S + 1)
    assert (tale.server, tale.held) == (Server.DOWN, False)


def test_a_disk_that_tells_nothing(member: Member0) -> None:
    member.disk = Unreadable("no table")
    with pytest.raises(Unreadable):
        member.turns(Phase.DOWN)
    assert member.telling.or_nothing() == Tale(ONE, server=Server.LOADING, data=Data(Kind.UNKNOWN))
    assert member.serves().data.kind is Kind.LIVE, "its server may know better"


def test_tells_whom_it_answers_whether_its_server_knows_that_one(tmp_path: Path) -> None:
    member = Member0(tmp_path)
    assert member.telling.fresh_for(Tale(OTHER, node_id=OTHER_ID)).knows_asker is None, "nobody asked the server"
    member.serves()
    assert member.telling.fresh_for(Tale(OTHER, node_id=OTHER_ID)).knows_asker is True
    assert member.telling.fresh_for(Tale(OTHER, node_id="f" * 40)).knows_asker is False
    assert member.telling.fresh_for(Tale(OTHER)).knows_asker is None, "it didn't say which node it is"
    told = member.telling.fresh_for(Tale(OTHER, node_id=OTHER_ID))
    assert Tale.decode(told.encode()) == told


def test_a_look_from_before_the_question_can_not_say_that_somebody_is_not_known(member: Member0) -> None:
    member.serves()
    member.watch.late = True
    assert member.telling.fresh_for(Tale(OTHER, node_id="f" * 40)).knows_asker is None
    assert member.telling.fresh_for(Tale(OTHER, node_id=OTHER_ID)).knows_asker is True


def test_a_server_that_ends_while_it_is_asked_has_not_said_that_it_knows_nobody(member: Member0) -> None:
    member.serves()
    look = member.watch.look_again

    def look_and_end(timeout_s: float) -> ServerState:
        seen = look(timeout_s)
        member.watch.turn(Phase.DOWN)
        return seen

    member.watch.look_again = look_and_end  # type: ignore[method-assign]
    told = member.telling.fresh_for(Tale(OTHER, node_id=OTHER_ID))
    assert (told.server, told.knows_asker) == (Server.UP, True)
