"""Single rules of the planner for Sentinels, on a set at its goal with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.dataplane.sentinel.world import NAME, World, address, formed, id_of, member, spec_of
from valkeyctl.dataplane import Credentials, Endpoint, Role, Unreachable, Why
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.rounds import Blocked, Done, Round
from valkeyctl.dataplane.sentinel import steps
from valkeyctl.dataplane.sentinel.apply import SENTINEL_COMMANDS_NEEDED, SERVER_COMMANDS_NEEDED, commands_of
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import Parameters, Sentinel, SentinelSpec, sentinel
from valkeyctl.dataplane.sentinel.plan import plan
from valkeyctl.dataplane.sentinel.report import AGREE, PRESENT, QUORUM, report
from valkeyctl.dataplane.sentinel.view import Monitored, SentinelsView, SentinelView, ServerView
from valkeyctl.dataplane.view import Absent

SPEC = spec_of()
STRANGER = Address("elsewhere", 6379)


def actions(world: World) -> tuple[steps.Action, ...]:
    what = plan(world.spec, world.view())
    assert isinstance(what, Round), what
    return what.actions


def with_sentinel(view: SentinelsView, ordinal: int, change: Callable[[SentinelView], SentinelView]) -> SentinelsView:
    told = view.outcomes[sentinel(ordinal)]
    assert isinstance(told, SentinelView)
    return SentinelsView({**view.outcomes, sentinel(ordinal): change(told)}, view.servers)


def with_server(view: SentinelsView, ordinal: int, **facts: object) -> SentinelsView:
    told = view.servers[member(ordinal)]
    assert isinstance(told, ServerView)
    return SentinelsView(view.outcomes, {**view.servers, member(ordinal): replace(told, **facts)})  # type: ignore[arg-type]


def monitoring(view: SentinelsView, ordinal: int, **facts: object) -> SentinelsView:
    def change(told: SentinelView) -> SentinelView:
        assert told.monitored is not None
        return replace(told, monitored=replace(told.monitored, **facts))  # type: ignore[arg-type]

    return with_sentinel(view, ordinal, change)


def without_server(view: SentinelsView, ordinal: int) -> SentinelsView:
    return SentinelsView(view.outcomes, {**view.servers, member(ordinal): Absent(member(ordinal))})


def silent_sentinel(view: SentinelsView, ordinal: int) -> SentinelsView:
    who = sentinel(ordinal)
    outcome = Unreachable(Endpoint(who, f"t-{who}", "", "10.1.0.9", 26379), Why.NO_ANSWER, f"{who}: no answer")
    return SentinelsView({**view.outcomes, who: outcome}, view.servers)


def test_at_the_goal_nothing_is_done() -> None:
    world = formed()
    assert plan(world.spec, world.view()) == Done()


def test_all_are_told_at_once_where_nobody_knows_the_name() -> None:
    world = formed()
    world.sentinels = dict.fromkeys(world.sentinels)
    assert [type(step) for step in actions(world)] == [steps.Monitor] * 3
    assert actions(world)[0] == steps.Monitor(sentinel(0), NAME, address(0), 2, Parameters())


@pytest.mark.parametrize("elsewhere", [address(1), STRANGER], ids=["a replica", "a stranger"])
def test_who_is_astray_is_told_anew_one_at_a_time_after_a_while(elsewhere: Address) -> None:
    world = formed(spec_of(sentinels=5))
    view = monitoring(monitoring(world.view(), 1, address=elsewhere), 3, address=elsewhere)
    what = plan(world.spec, view)
    assert isinstance(what, Round)
    assert what.actions == (steps.MonitorAnew(sentinel(1), NAME, address(0), 3, Parameters()),)
    assert what.actions[0].sure_in_s >= 3 * 2, "the Sentinels have had three chances to mend it themselves"


def test_one_who_is_astray_with_a_newer_configuration_would_turn_the_others_round() -> None:
    world = formed()
    view = monitoring(world.view(), 2, address=STRANGER, config_epoch=4)
    what = plan(world.spec, view)
    assert isinstance(what, Round)
    assert what.actions == (steps.Drop(sentinel(2), NAME),)


def test_nobody_is_told_anew_while_most_are_silent() -> None:
    world = formed(spec_of(sentinels=5))
    view = monitoring(world.view(), 0, address=STRANGER)
    for ordinal in (2, 3, 4):
        view = silent_sentinel(view, ordinal)
    what = plan(world.spec, view)
    assert isinstance(what, Round)
    assert what.actions == ()


@pytest.mark.parametrize("at_most", ["down", "agreed_down", "failing_over"])
def test_a_failover_is_never_disturbed(at_most: str) -> None:
    """Between the death of a primary and the word of who is the next, nobody is told anything."""
    world = formed()
    world.sentinels[1] = None  # else it would be told to monitor
    view = monitoring(without_server(world.view(), 0), 0, **{at_most: True})
    what = plan(world.spec, view)
    assert isinstance(what, Round)
    assert what.actions == ()
    assert what.waits


@pytest.mark.parametrize("ordinal", [0, 1])
def test_while_a_sentinel_or_a_server_says_that_it_fails_over_nothing_is_done(ordinal: int) -> None:
    world = formed()
    view = monitoring(world.view(), 2, parameters=Parameters(1, 1, 1))
    busy = monitoring(view, 0, failing_over=True) if ordinal else with_server(view, 0, failing_over=True)
    assert isinstance(plan(world.spec, view), Round)
    what = plan(world.spec, busy)
    assert isinstance(what, Round)
    assert what.actions == ()
    assert report(world.spec, busy).condition(AGREE).reason == "FailingOver"


def two_primaries(newer: int, older: int) -> SentinelsView:
    """Member 1 was promoted: some have heard of it, and the former primary takes writes yet."""
    view = with_server(formed().view(), 1, role=Role.PRIMARY, primary=None, link=None)
    view = monitoring(view, 0, address=address(1), config_epoch=newer)
    for ordinal in (1, 2):
        view = monitoring(view, ordinal, config_epoch=older)
    return view


@pytest.mark.parametrize(
    ("newer", "older", "live"),
    [
        pytest.param(5, 4, 1, id="the newest configuration wins"),
        pytest.param(3, 4, 0, id="on either side"),
        pytest.param(4, 4, 0, id="of equally new ones, what most say"),
    ],
)
def test_who_is_the_primary(newer: int, older: int, live: int) -> None:
    found = Knowledge(SPEC, two_primaries(newer, older)).live
    assert found is not None
    assert found.member == member(live)


def test_the_newest_word_counts_only_if_a_server_agrees() -> None:
    view = monitoring(formed().view(), 0, address=address(1), config_epoch=9)
    found = Knowledge(SPEC, view).live
    assert found is not None
    assert found.member == member(0), "member 1 calls itself a replica"


def test_two_primaries_without_a_word_are_for_a_person() -> None:
    world = formed()
    view = with_server(world.view(), 1, role=Role.PRIMARY, primary=None, link=None)
    for ordinal in range(3):
        view = monitoring(view, ordinal, address=STRANGER)
    what = plan(world.spec, view)
    assert isinstance(what, Blocked)
    assert "all call themselves primary" in what.reason
    assert "s0-0" in what.reason
    assert report(world.spec, view).condition(AGREE).reason == "NoPrimary"


def test_an_empty_server_is_not_taken_for_the_primary_while_the_monitored_one_is_silent() -> None:
    """One that started as primary while the real one is away, before the Sentinels fail over."""
    view = with_server(without_server(formed().view(), 0), 1, role=Role.PRIMARY, primary=None, link=None)
    assert Knowledge(SPEC, view).live is None
    what = plan(SPEC, view)
    assert isinstance(what, Round)
    assert what.actions == ()


def test_a_stranger_that_all_monitor_is_dropped_and_then_the_primary_monitored() -> None:
    world = formed()
    for ordinal in range(3):
        watch = world.sentinels[ordinal]
        assert watch is not None
        watch.at, watch.epoch, watch.replicas = STRANGER, 3, {}
    assert [type(step) for step in actions(world)] == [steps.Drop] * 3
    world.take(actions(world)[0])
    assert [type(step) for step in actions(world)] == [steps.Drop] * 2, "not monitored while others would turn it round"


def test_a_role_that_moved_is_followed_only_when_the_choice_is_sure() -> None:
    world = formed()
    for server in world.servers.values():
        server.follows = 2
    world.servers[2].follows = None
    assert [(type(s), s.member) for s in actions(world)] == [
        (steps.SetPriority, member(0)),
        (steps.SetPriority, member(1)),
    ]
    for step in actions(world):
        world.take(step)
    world.settle()
    assert actions(world) == (steps.Follow(sentinel(0), NAME, member(2)),)


def test_differing_parameters_are_set() -> None:
    world = formed(spec_of(parameters=Parameters(2000, 9000, 1)))
    watch = world.sentinels[2]
    assert watch is not None
    watch.parameters = Parameters(2000, 9000, 5)
    assert actions(world) == (steps.SetParameters(sentinel(2), NAME, Parameters(2000, 9000, 1)),)


@pytest.mark.parametrize("facts", [{"linked": False}, {"down": True}, {"answered_ms": 3000}])
def test_who_cannot_reach_a_living_primary_is_told_with_what_to_sign_in(facts: dict[str, int]) -> None:
    world = formed()
    view = monitoring(world.view(), 1, **facts)
    spec = replace(SPEC, user="watcher", authenticated=True)
    what = plan(spec, view)
    assert isinstance(what, Round)
    assert what.actions == (steps.SetAuth(sentinel(1), NAME, "watcher"),)
    without = plan(SPEC, view)
    assert isinstance(without, Round)
    assert without.actions == ()


@pytest.mark.parametrize(
    ("count", "known", "old", "new", "now"),
    [
        pytest.param(5, 2, 2, 3, False, id="up: not before the new ones are known"),
        pytest.param(5, 3, 2, 3, True, id="up: when it is a majority of those known"),
        pytest.param(3, 4, 3, 2, False, id="down: not while more are remembered"),
        pytest.param(3, 2, 3, 2, True, id="down: when they are forgotten"),
        pytest.param(3, 4, 4, 2, True, id="down: when the old one can't be reached"),
    ],
)
def test_the_quorum_is_changed_when_it_suits_those_who_are_known(
    count: int,
    known: int,
    old: int,
    new: int,
    now: bool,  # noqa: FBT001
) -> None:
    world = formed(spec_of(sentinels=count))
    for ordinal in range(count):
        watch = world.sentinels[ordinal]
        assert watch is not None
        watch.quorum = old
        watch.others = set(range(min(known + 1, count))) - {ordinal}
        watch.strangers = {f"gone-{number}" for number in range(known - len(watch.others))}
    world.spec = replace(world.spec, quorum=new)
    at_first = [step for step in actions(world) if step.member == sentinel(0)]
    assert (steps.SetQuorum(sentinel(0), NAME, new) in at_first) is now


def stale(world: World, *ordinals: int) -> World:
    for ordinal in ordinals:
        watch = world.sentinels[ordinal]
        assert watch is not None
        watch.strangers, watch.lost = {"gone"}, {"lost"}
    return world


def test_one_sentinel_forgets_at_a_time() -> None:
    world = stale(formed(), 0, 2)
    (step,) = actions(world)
    assert step == steps.Reset(sentinel(0), NAME, ("Sentinel gone:26379", "replica lost:6379"))
    world.take(step)
    assert actions(world) == (), "it has yet to find the others"
    world.settle()
    (step,) = actions(world)
    assert step.member == sentinel(2)


UNWELL: list[tuple[str, Callable[[SentinelsView], SentinelsView]]] = [
    ("a silent Sentinel", lambda v: silent_sentinel(v, 1)),
    ("an absent server", lambda v: without_server(v, 2)),
    ("a primary that one calls down", lambda v: monitoring(v, 1, down=True)),
    ("a primary that most call down", lambda v: monitoring(v, 1, down=True, agreed_down=True)),
    ("no quorum", lambda v: with_sentinel(v, 1, lambda s: replace(s, reaches_quorum=False))),
    ("TILT", lambda v: with_sentinel(v, 1, lambda s: replace(s, in_tilt=True))),
    ("one that doesn't know the others", lambda v: with_sentinel(v, 1, lambda s: replace(s, others=()))),
    ("one that doesn't know the replicas", lambda v: with_sentinel(v, 1, lambda s: replace(s, replicas=()))),
    ("a replica out of sync", lambda v: with_server(v, 1, link=None)),
]


@pytest.mark.parametrize(("why", "change"), UNWELL, ids=[name for name, _ in UNWELL])
def test_nobody_forgets_while_something_is_wrong(why: str, change: Callable[[SentinelsView], SentinelsView]) -> None:
    world = stale(formed(), 0)
    what = plan(world.spec, change(world.view()))
    assert isinstance(what, Round)
    assert not any(isinstance(step, steps.Reset) for step in what.actions)
    assert what.waits, why


def test_who_is_gone_is_forgotten_also_where_they_are_too_many_for_a_quorum() -> None:
    """Three Sentinels that were all replaced, and remember three who are gone: no vote could be won."""
    world = formed()
    for ordinal in range(3):
        watch = world.sentinels[ordinal]
        assert watch is not None
        watch.strangers = {"gone-1", "gone-2", "gone-3"}
    assert not any(told.reaches_quorum for told in world.view().sentinels.values())
    (step,) = actions(world)
    assert isinstance(step, steps.Reset)


def test_who_leaves_and_monitors_another_server_is_stopped_at_once() -> None:
    world = formed(spec_of(sentinels=5))
    world.spec = spec_of(sentinels=3, leaving=(sentinel(3), sentinel(4)))
    what = plan(world.spec, silent_sentinel(monitoring(world.view(), 4, address=STRANGER), 1))
    assert isinstance(what, Round)
    assert what.actions == (steps.Drop(sentinel(4), NAME),)


def test_no_role_is_handed_over_while_the_sentinels_are_about_to_fail_over() -> None:
    world = formed(spec_of(members=2))
    world.spec = replace(world.spec, wanted=member(1))
    view = world.view()
    for ordinal in range(2):
        view = monitoring(view, ordinal, down=True, agreed_down=True)
    what = plan(world.spec, view)
    assert isinstance(what, Round)
    assert what.actions == ()


def test_no_role_is_handed_over_by_a_sentinel_that_nobody_could_elect() -> None:
    world = formed(spec_of(members=2))
    world.spec = replace(world.spec, wanted=member(1))

    def change(told: SentinelView) -> SentinelView:
        return replace(told, others=tuple(replace(other, linked=False) for other in told.others))

    view = with_sentinel(world.view(), 0, change)
    what = plan(world.spec, view)
    assert isinstance(what, Round)
    assert [step.member for step in what.actions if isinstance(step, steps.Coordinate)] == [sentinel(1)]
    assert "sentinel-0 doesn't know sentinel-1, sentinel-2" in report(world.spec, view).condition(AGREE).message


def test_no_role_is_handed_to_a_replica_far_behind() -> None:
    world = formed(spec_of(members=2))
    world.spec = replace(world.spec, wanted=member(1))
    what = plan(world.spec, with_server(world.view(), 0, offset=1 << 30))
    assert isinstance(what, Round)
    assert what.actions == ()


def test_who_is_alive_is_not_forgotten_in_vain() -> None:
    """A RESET would find a Sentinel or a replica again that isn't declared and lives."""
    world = formed()

    def change(told: SentinelView) -> SentinelView:
        other = replace(told.others[0], sentinel_id="e" * 40, heard_ms=300)
        replica = replace(told.replicas[0], address=STRANGER)
        return replace(told, others=(*told.others, other), replicas=(*told.replicas, replica))

    what = plan(world.spec, with_sentinel(world.view(), 0, change))
    assert isinstance(what, Round)
    assert what.actions == ()
    assert "Sentinel 10.1.0.1:26379" in what.waits[0].describe()


def test_sentinels_that_leave_stop_first_and_are_forgotten_then() -> None:
    world = formed(spec_of(sentinels=5))
    world.spec = spec_of(sentinels=3, leaving=(sentinel(3), sentinel(4)))
    done: list[str] = []
    while isinstance(what := plan(world.spec, world.view()), Round):
        for step in what.actions:
            world.take(step)
            done.append(f"{type(step).__name__} {step.member}")
        world.settle()
    assert done == [
        *(f"Remove sentinel-{ordinal}" for ordinal in (3, 4)),
        *(f"{kind} sentinel-{ordinal}" for ordinal in range(3) for kind in ("Reset", "SetQuorum")),
    ]


@pytest.mark.parametrize(
    ("version", "kind"), [("9.1.2", steps.Coordinate), ("8.1.8", steps.HandOver), ("9.1.0", steps.HandOver)]
)
def test_a_handover_makes_its_choice_sure_before(version: str, kind: type[steps.Action]) -> None:
    world = formed(version=version)
    world.spec = replace(world.spec, wanted=member(2))
    assert actions(world) == (steps.SetPriority(member(1), 101),), "the primary is no candidate"
    world.take(actions(world)[0])
    assert actions(world) == (), "the Sentinels have yet to hear of it"
    world.settle()
    (step,) = actions(world)
    assert isinstance(step, kind)
    world.take(step)
    world.settle()
    assert [s.describe() for s in actions(world)] == ["s0-1: set replica-priority 100"]


def test_with_one_replica_there_is_no_choice_to_be_made_sure() -> None:
    world = formed(spec_of(members=2))
    world.spec = replace(world.spec, wanted=member(1))
    assert actions(world) == (steps.Coordinate(sentinel(0), NAME, member(0), member(1)),)


def test_priorities_left_by_a_run_that_died_are_set_back() -> None:
    world = formed(spec_of(priorities={member(1): 7}))
    world.servers[1].priority, world.servers[2].priority = 7, 101
    assert actions(world) == (steps.SetPriority(member(2), 100),)


def test_a_member_that_is_never_to_be_primary_is_refused() -> None:
    world = formed(spec_of(priorities={member(1): 0}))
    world.servers[1].priority = 0
    world.spec = replace(world.spec, wanted=member(1))
    what = plan(world.spec, world.view())
    assert isinstance(what, Blocked)
    assert "s0-1" in what.reason


def test_no_role_is_handed_to_a_replica_out_of_sync() -> None:
    world = formed()
    world.spec = replace(world.spec, wanted=member(2))
    what = plan(world.spec, with_server(world.view(), 2, link=None))
    assert isinstance(what, Round)
    assert what.actions == ()


@pytest.mark.parametrize(
    ("ids", "reason"),
    [({1: id_of(9)}, "has the id"), ({1: id_of(1)}, "")],
    ids=["another id", "the declared id"],
)
def test_ids_are_verified(ids: dict[int, str], reason: str) -> None:
    world = formed(spec_of(ids=ids))
    what = plan(world.spec, world.view())
    assert reason in what.reason if isinstance(what, Blocked) else not reason


def test_two_sentinels_with_one_id_are_refused() -> None:
    world = formed()
    view = with_sentinel(world.view(), 1, lambda told: replace(told, sentinel_id=id_of(0)))
    what = plan(world.spec, view)
    blocked = what if isinstance(what, Blocked) else what.blocked if isinstance(what, Round) else None
    assert blocked is not None
    assert "shares the id" in blocked.reason


def test_conditions() -> None:
    world = formed()
    view = world.view()
    assert [c.reason for c in report(SPEC, view).conditions] == ["AllAnswer", "AllAgree", "Reachable"]
    missing = report(SPEC, silent_sentinel(view, 2))
    assert not missing.ready
    assert missing.condition(PRESENT).message == "sentinel-2: no answer"
    assert missing.condition(AGREE).status.value == "Unknown"
    absent = SentinelsView({**view.outcomes, sentinel(0): Absent(sentinel(0))}, view.servers)
    assert report(SPEC, absent).condition(PRESENT).reason == "PodAbsent"
    no_quorum = with_sentinel(view, 1, lambda told: replace(told, reaches_quorum=False, quorum_told="1 usable"))
    assert report(SPEC, no_quorum).condition(QUORUM).message == "sentinel-1: 1 usable"
    assert not report(SPEC, no_quorum).ready
    astray = monitoring(view, 1, address=STRANGER)
    assert report(SPEC, astray).condition(AGREE).message == "sentinel-1 monitors elsewhere:6379, not s0-0"


BAD: list[tuple[str, Callable[[], object]]] = [
    ("can't be a monitored name", lambda: SentinelSpec("*", SPEC.servers, 3, 2)),
    ("no servers", lambda: SentinelSpec(NAME, {}, 3, 2)),
    ("at least 2 of 3", lambda: SentinelSpec(NAME, SPEC.servers, 3, 1)),
    ("must be 1 to 3", lambda: SentinelSpec(NAME, SPEC.servers, 3, 4)),
    ("at least one Sentinel", lambda: SentinelSpec(NAME, SPEC.servers, 0, 1)),
    ("no declared server", lambda: spec_of(wanted=member(9))),
    ("declared and leaving", lambda: spec_of(leaving=(sentinel(1),))),
    ("40 hexadecimal", lambda: spec_of(ids={0: "short"})),
    ("the same id", lambda: spec_of(ids={0: id_of(0), 1: id_of(0)})),
    ("at least 1 each", lambda: spec_of(parameters=Parameters(0))),
]


@pytest.mark.parametrize(("told", "make"), BAD, ids=[told for told, _ in BAD])
def test_what_cannot_be_declared(told: str, make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=told):
        make()
    assert SentinelSpec(NAME, SPEC.servers, 3, 1, any_quorum=True).quorum == 1


SECRET = Credentials("watcher", "hunter2")
ALL_STEPS: list[steps.Action] = [
    steps.Monitor(sentinel(0), NAME, address(0), 2, Parameters()),
    steps.MonitorAnew(sentinel(0), NAME, address(0), 2, Parameters()),
    steps.Remove(sentinel(0), NAME),
    steps.Drop(sentinel(0), NAME),
    steps.SetParameters(sentinel(0), NAME, Parameters()),
    steps.SetQuorum(sentinel(0), NAME, 2),
    steps.SetAuth(sentinel(0), NAME, "watcher"),
    steps.Reset(sentinel(0), NAME, ("replica lost:6379",)),
    steps.Follow(sentinel(0), NAME, member(1)),
    steps.SetPriority(member(0), 100),
]


@pytest.mark.parametrize("step", ALL_STEPS, ids=lambda step: type(step).__name__)
def test_every_step_says_where_and_what_and_needs_a_listed_right(step: steps.Action) -> None:
    assert step.describe().startswith(f"{step.member}: ")
    assert "hunter2" not in f"{step.describe()} {step!r}"
    needed = SENTINEL_COMMANDS_NEEDED if isinstance(step.member, Sentinel) else SERVER_COMMANDS_NEEDED
    for name, *arguments in commands_of(step, SECRET):
        assert f"{name}|{arguments[0]}".lower() in needed


@pytest.mark.parametrize(
    "step",
    [
        steps.Coordinate(sentinel(0), NAME, member(0), member(1)),
        steps.HandOver(member(0), NAME, member(1), address(1), sentinel(0), 2000),
    ],
)
def test_a_handover_says_from_whom_to_whom(step: steps.Action) -> None:
    assert all(name in step.describe() for name in ("sentinel-0", "s0-0", "s0-1", NAME))


def test_the_password_goes_only_to_sentinels_that_need_it() -> None:
    told = {type(step).__name__ for step in ALL_STEPS if "hunter2" in repr(commands_of(step, SECRET))}
    assert told == {"Monitor", "MonitorAnew", "SetAuth"}
    assert commands_of(ALL_STEPS[6], Credentials()) == []


def test_names_are_compared_as_names() -> None:
    assert Address("A.svc.", 1).is_same(Address("a.svc", 1))
    assert not Address("a", 1).is_same(Address("a", 2))
    assert Monitored(address(0), 2, 0, Parameters()).is_calm
