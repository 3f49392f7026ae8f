"""What is off in a server's view is seen by that view alone, in words that stay the same as long as it stays off."""

from dataclasses import replace

import pytest

from tests.unit.dataplane import views
from tests.unit.dataplane.views import S00, S01, S10, S11, S20, SPEC, change, change_peers, formed
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.judge import LONGEST_S, OFF_S, SHORTEST_S, TURN_S, Judgement, Patience, find_troubles, judge
from valkeyctl.agent.state import Phase, ServerState
from valkeyctl.dataplane import Member, Role, SlotSet, View, member_of_host
from valkeyctl.dataplane.view import ReplicaLink

UP = ReplicaLink(up=True, syncing=False, was_up=True)
DOWN = replace(UP, up=False)


def named(host: str) -> Member | None:
    return member_of_host("t", host) if host.partition(".")[2] == "headless.test.svc" else None


def troubles(view: View, at: Member, *, declared: bool = True) -> list[str]:
    return list(find_troubles(view.nodes[at], named, SPEC.members if declared else ()))


def test_nothing_is_off_in_a_healthy_cluster_in_no_members_view() -> None:
    view = formed().view()
    for member in SPEC.members:
        assert troubles(view, member) == []
        assert troubles(view, member, declared=False) == []


def test_a_fresh_server_knows_nobody() -> None:
    found = troubles(views.World(SPEC).view(), S10)
    assert "the cluster's state is not ok" in found
    assert "slots 0-16383 have no owner" in found
    assert "s2-1 is not known" in found


def seen_of(view: View, about: Member, at: Member, **facts: object) -> View:
    return change_peers(view, view.nodes[about].node_id, [at], lambda p: replace(p, **facts))  # type: ignore[arg-type]


def forgotten(view: View, about: Member, at: Member) -> View:
    return change_peers(view, view.nodes[about].node_id, [at], lambda _: None)


VIEW = formed().view()
HOSTS = {member: node.endpoint.host for member, node in VIEW.nodes.items()}
OFF = {
    "the cluster's state is not ok": change(VIEW, S00, state_ok=False),
    "s1-0 has failed": seen_of(VIEW, S10, S00, failed=True, linked=False),
    "s1-0 does not answer": seen_of(VIEW, S10, S00, suspect=True),
    "s1-1 does not answer": seen_of(VIEW, S11, S00, linked=False),
    "slots 0-9 have no owner": change(VIEW, S00, slots=VIEW.nodes[S00].slots - SlotSet.span(0, 9)),
    "slots 5, 7 are open": change(VIEW, S00, migrating={7: "x" * 40}, importing={5: "x" * 40}),
    "its link to its primary is not up": change(VIEW, S00, role=Role.REPLICA, link=DOWN),
    "s1-1 is not known": forgotten(VIEW, S11, S00),
    "an introduction is under way": views.add_peer(VIEW, views.stranger(1, handshake=True), [S00]),
    "u-s0-0.headless.test.svc is nobody of this instance": views.add_peer(VIEW, views.stranger(1), [S00]),
    "s2-0 is known as two nodes": views.add_peer(
        VIEW, views.stranger(1, host=HOSTS[S20], failed=True, slots=SlotSet()), [S00]
    ),
    "s9-0 is not declared": views.add_peer(
        VIEW, views.stranger(1, host=HOSTS[S00].replace("s0-0", "s9-0"), slots=SlotSet()), [S00]
    ),
    "s1-1 replicates s2-0": seen_of(VIEW, S11, S00, primary_id=VIEW.nodes[S20].node_id),
    "s1-1 replicates an unknown node": seen_of(VIEW, S11, S00, primary_id="f" * 40),
    "s1-1 is a primary beside s1-0": seen_of(VIEW, S11, S00, primary_id="", role=Role.PRIMARY),
    "s1-0 and s1-1 both own slots": seen_of(
        VIEW, S11, S00, primary_id="", role=Role.PRIMARY, slots=SlotSet.span(5461, 5470)
    ),
}


@pytest.mark.parametrize("what", OFF)
def test_what_is_off_is_said(what: str) -> None:
    assert what in troubles(OFF[what], S00)
    assert troubles(OFF[what], S00) == troubles(OFF[what], S00)


def test_a_shard_that_is_declared_without_slots_is_no_trouble() -> None:
    """Nor is its primary, which has none."""
    empty = Member(2, 0)
    view = change(VIEW, S00, slots=VIEW.nodes[S00].slots | VIEW.nodes[S20].slots)
    view = seen_of(view, empty, S00, slots=SlotSet())
    assert troubles(view, S00) == []


# --- the whole of a judgement ---------------------------------------------------------------------------------------

ENVIRONMENT = Environment("t-s0-0", "test", "t", "10.0.0.1", "t-s0-0.headless.test.svc", S00)
INFO = (
    b"redis_version:7.2.4\r\nloading:0\r\nrole:master\r\nmaster_replid:abc\r\nmaster_repl_offset:5\r\n"
    b"db0:keys=3,expires=0\r\n"
)
NODES = f"""{"a" * 40} 10.0.0.1:6379@16379,t-s0-0.headless.test.svc myself,master - 0 0 1 connected 0-16383
{"b" * 40} 10.0.0.2:6379@16379,t-s0-1.headless.test.svc slave {"a" * 40} 0 1 1 connected
{"c" * 40} 10.0.0.3:6379@16379,t-s1-0.headless.test.svc master,fail - 1 1 2 disconnected
"""


def state(nodes: str = NODES, phase: Phase = Phase.SERVING) -> ServerState:
    cluster = b"cluster_state:ok\r\ncluster_current_epoch:2\r\n"
    return ServerState(1, phase, 10.0, 5.0, nodes.encode(), cluster, INFO)


def test_who_seems_alive_gives_the_turns() -> None:
    found = judge(ENVIRONMENT, state())
    assert found == Judgement(("s1-0 has failed",), frozenset({S00, S01}), Role.PRIMARY)
    assert [found.rank(member) for member in (S00, S01, S10)] == [0, 1, 2]


def test_members_that_know_nobody_have_turns_of_their_own() -> None:
    turns = {member: Judgement(alive=frozenset({member})).rank(member) for member in (S00, S01, S10)}
    assert turns == {S00: 0, S10: 1, S01: 4}
    far = Member(100, 5)
    assert Judgement(alive=frozenset({far})).rank(far) == 10


@pytest.mark.parametrize("told", [state(phase=Phase.DOWN), state(nodes=""), state(nodes="nonsense"), state(NODES[:50])])
def test_a_server_that_does_not_tell_is_not_judged(told: ServerState) -> None:
    assert judge(ENVIRONMENT, told) == Judgement()


# --- patience -------------------------------------------------------------------------------------------------------


def off(*what: str, alive: tuple[Member, ...] = (S00, S01)) -> Judgement:
    return Judgement(what, frozenset(alive), Role.PRIMARY)


def test_what_passes_within_a_second_is_left_to_the_servers() -> None:
    patience = Patience()
    assert not patience.due(off("a"), S00, 100.0)
    assert not patience.due(off("a"), S00, 100.0 + OFF_S / 2)
    assert not patience.due(off(), S00, 100.0 + OFF_S)
    assert not patience.due(off("a"), S00, 102.0), "it came anew"
    assert patience.due(off("a"), S00, 102.0 + OFF_S)


def test_the_second_waits_for_the_first() -> None:
    patience = Patience()
    patience.due(off("a"), S01, 100.0)
    assert not patience.due(off("a"), S01, 100.0 + OFF_S)
    assert patience.due(off("a"), S01, 100.0 + OFF_S + TURN_S)


def test_trying_in_vain_becomes_rare_until_the_view_changes() -> None:
    patience, now, waits = Patience(), 100.0, list[float]()
    patience.due(off("a"), S00, now)
    assert patience.fresh
    for _ in range(7):
        since = now
        while not patience.due(off("a"), S00, now):
            now += 0.5
        waits.append(now - since)
        patience.tried(now, well=False)
        assert not patience.fresh
    assert waits == [OFF_S, SHORTEST_S, 10.0, 20.0, 40.0, LONGEST_S, LONGEST_S]
    assert not patience.due(off("a", "b"), S00, now + 1)
    assert patience.fresh
    assert patience.due(off("a", "b"), S00, now + SHORTEST_S / 2)


def test_a_view_that_changes_all_the_time_puts_nothing_off() -> None:
    patience, now = Patience(), 100.0
    while not patience.due(off(f"change at {now}"), S00, now):
        now += 0.25
        assert now <= 100.0 + OFF_S


def test_while_somebody_is_at_it_it_is_looked_at_again_soon() -> None:
    patience = Patience()
    patience.due(off("a"), S00, 100.0)
    patience.postpone(101.0, 2.0)
    assert not patience.due(off("a"), S00, 102.9)
    assert patience.due(off("a"), S00, 103.0)
    assert patience.fresh


def test_what_was_told_and_went_away_by_itself_is_told_once_more() -> None:
    patience = Patience()
    patience.due(off("a"), S00, 100.0)
    patience.tried(101.0, well=False)
    assert not patience.due(off(), S00, 110.0)
    assert patience.due(off(), S00, 110.0 + OFF_S)
    patience.tried(111.0, well=True)
    assert not patience.due(off(), S00, 1e6)


def test_while_the_own_server_does_not_tell_nothing_is_taken_for_well() -> None:
    patience = Patience()
    patience.due(off("a"), S00, 100.0)
    patience.tried(101.0, well=True)
    assert not patience.due(Judgement(), S00, 102.0)
    assert patience.fresh is False, "it is the same trouble, as far as is known"
    assert not patience.due(off("a"), S00, 103.0)
    assert patience.due(off("a"), S00, 101.0 + SHORTEST_S)


def test_what_is_owed_is_told_also_while_the_own_server_does_not_tell() -> None:
    patience = Patience()
    patience.due(off("a"), S00, 100.0)
    patience.tried(101.0, well=False)
    assert not patience.due(Judgement(), S00, 102.0)
    assert patience.due(Judgement(), S00, 101.0 + SHORTEST_S)


def test_what_went_well_owes_nothing() -> None:
    patience = Patience()
    patience.due(off("a"), S00, 100.0)
    patience.tried(101.0, well=True)
    assert not patience.due(off(), S00, 110.0)
    assert not patience.due(off(), S00, 1e6)
