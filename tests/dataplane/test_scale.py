"""Shards come and go, and slots move, under a client that writes: nothing that was acknowledged is lost."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from tests.dataplane import scenes
from tests.dataplane.follower import Written, writing
from tests.dataplane.servers import NODE_TIMEOUT_MS, PORT, Fleet
from valkeyctl.dataplane import (
    COMMANDS_NEEDED,
    COMMANDS_NEEDED_SINCE_9,
    Credentials,
    Layout,
    Member,
    Migration,
    Spec,
    View,
    errors,
    moving,
    parse_layout,
    planned_layout,
)
from valkeyctl.dataplane.slots import slots_moved

LONG_S = 120.0
#: Method, on a line of servers that has it.
WAYS = [("9.1", "auto"), ("9.1", "keys"), ("8.1", "auto")]
ways = pytest.mark.parametrize(("line", "method"), WAYS, ids=["9.1 atomic", "9.1 by keys", "8.1"])


def declared(shards: int, replicas: int = 0, layout: Layout | None = None, method: str = "auto") -> Spec:
    """A formed instance of so many shards."""
    return Spec(
        "t",
        shards,
        replicas,
        layout or planned_layout(shards),
        explicit=False,
        formed=True,
        node_timeout_ms=NODE_TIMEOUT_MS,
        migration=Migration(method=method),  # type: ignore[arg-type]
    )


def become(fleet: Fleet, spec: Spec) -> Spec:
    """What Kubernetes does before Valkey is told: new Pods run, and those that aren't declared any more still do."""
    new = [member for member in spec.members if member not in fleet.servers]
    if new:
        fleet.start(*new)
    return replace(spec, leaving=tuple(sorted(set(fleet.directory()) - set(spec.members))))


def delete_the_left(fleet: Fleet, spec: Spec) -> None:
    """What Pulumi does afterwards: the StatefulSets that aren't declared any more go."""
    assert all(fleet.ask(member, "DBSIZE") == 0 for member in spec.leaving)
    if spec.leaving:
        fleet.stop(*spec.leaving)
    for member in spec.leaving:
        del fleet.servers[member]
    fleet.spec = replace(spec, leaving=())


def scale(fleet: Fleet, spec: Spec, told: scenes.Told | None = None) -> View:
    """Another declaration, made true; checks that just the fewest slots have moved."""
    before = scenes.layout_of(scenes.look(fleet))
    spec = become(fleet, spec)
    view = scenes.run(fleet, spec, told=told, deadline_s=LONG_S)
    scenes.assert_ready(fleet, view, spec)
    delete_the_left(fleet, spec)
    after = scenes.layout_of(view)
    assert after == dict(enumerate(spec.layout))
    had = tuple(before[shard] for shard in sorted(before))
    fewest = slots_moved(had, planned_layout(spec.shards, had))
    assert slots_moved(had, tuple(after[shard] for shard in sorted(after))) == fewest or spec.explicit
    return view


def meet_all(fleet: Fleet, spec: Spec) -> None:
    """Let new members join, and nothing else."""
    with contextlib.suppress(errors.Blocked):
        scenes.run(fleet, replace(spec, may_move=False))


def assert_kept(fleet: Fleet, written: Written, keys: dict[str, str]) -> None:
    assert written.errors == []
    assert written.count > 0
    assert scenes.read(fleet, list(written.keys)) == written.keys
    assert scenes.read(fleet, list(written.deleted)) == dict.fromkeys(written.deleted)
    assert scenes.read(fleet, list(keys)) == keys


def fill(fleet: Fleet, count: int = 60) -> dict[str, str]:
    """Keys in every shard."""
    keys: dict[str, str] = {}
    view = scenes.look(fleet)
    for member in scenes.primaries(view).values():
        keys |= scenes.write(fleet, member, view.nodes[member].slots, count)
    return keys


@ways
@pytest.mark.parametrize("more", [4, 6])
def test_scales_out_and_in_under_a_writer(line: str, method: str, more: int) -> None:
    first = declared(3, 1 if more == 4 else 0)
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        told = scenes.Told()
        with writing(fleet) as written:
            many = declared(more, first.replicas, planned_layout(more, first.layout), method)
            scale(fleet, many, told)
            scale(fleet, declared(3, first.replicas, planned_layout(3, many.layout), method), told)
        assert_kept(fleet, written, keys)
        assert any("slots moved" in line.text for line in told.lines)


@ways
def test_meets_a_declared_layout_in_which_shards_give_and_take(line: str, method: str) -> None:
    first = declared(3)
    layout = parse_layout({0: "5461-10921", 1: "0-99,10922-16383", 2: "100-5460"})
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        with writing(fleet) as written:
            spec = replace(declared(3, 0, layout, method), explicit=True)
            view = scenes.run(fleet, spec, deadline_s=LONG_S)
        scenes.assert_ready(fleet, view, spec)
        assert scenes.layout_of(view) == dict(enumerate(layout))
        assert_kept(fleet, written, keys)


class Killed(BaseException):
    """The process ends here, as by SIGKILL: nothing catches it."""


def killed_at(monkeypatch: pytest.MonkeyPatch, fleet: Fleet, spec: Spec, phase: str) -> None:
    """Converge, and end in a phase of the first move of keys."""

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(moving._Work, phase, die)
        with pytest.raises(Killed):
            scenes.run(fleet, spec)


#: What a run that was killed leaves: slots open and no key sent, some keys sent, all sent.
PHASES = ["send", "give_over"]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("revert", [False, True], ids=["resumed", "reverted"])
@pytest.mark.parametrize("line", ["8.1", "9.1"])
def test_ends_what_was_killed_in_the_middle_of_a_slot(
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    phase: str,
    revert: bool,  # noqa: FBT001
) -> None:
    first = declared(3, 0, method="keys")
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        four = declared(4, 0, planned_layout(4, first.layout), "keys")
        spec = become(fleet, four)
        with writing(fleet) as written:
            killed_at(monkeypatch, fleet, spec, phase)
            assert any(node.migrating for node in scenes.look(fleet, spec).nodes.values())
            scale(fleet, first if revert else four)
        assert_kept(fleet, written, keys)


@pytest.mark.parametrize("revert", [False, True], ids=["resumed", "reverted"])
@pytest.mark.parametrize("line", ["8.1", "9.1"])
@pytest.mark.parametrize(("shards", "to"), [(3, 4), (4, 3)])
def test_ends_what_was_interrupted_after_any_step(line: str, shards: int, to: int, revert: bool) -> None:  # noqa: FBT001
    """After each step of a scaling in turn another declaration: the former one, or the same again."""
    first = declared(shards)
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        steps = 0
        with writing(fleet) as written:
            while True:
                target = declared(to, 0, planned_layout(to, first.layout))
                spec = become(fleet, target)
                steps += 2
                taken = scenes.take_steps(fleet, steps, spec)
                scale(fleet, first if revert else target)
                if not revert:
                    scale(fleet, first)
                if taken < steps:
                    break
        assert steps > 4
        assert_kept(fleet, written, keys)


def test_a_key_that_is_on_both_sides_keeps_the_value_of_its_owner() -> None:
    """A send that broke off: the taker has an older copy of a key that the owner has served since."""
    first = declared(3)
    with Fleet(first, "8.1") as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        spec = become(fleet, declared(4, 0, planned_layout(4, first.layout)))
        meet_all(fleet, spec)
        giver, taker = Member(0, 0), Member(3, 0)
        slot = min(spec.layout[3] & first.layout[0])
        key = scenes.key_in(first.layout[0] & spec.layout[3], 0)
        ids = fleet.ids()
        fleet.ask(giver, "SET", key, "old")
        fleet.ask(taker, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[giver])
        fleet.ask(giver, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[taker])
        host = fleet.servers[taker].address
        fleet.ask(giver, "MIGRATE", host, PORT, key, 0, 5000, "COPY")
        fleet.ask(giver, "SET", key, "new")
        view = scenes.run(fleet, spec)
        scenes.assert_ready(fleet, view, spec)
        assert scenes.read(fleet, [key]) == {key: "new"}
        keys.pop(key, None)
        assert scenes.read(fleet, list(keys)) == keys


def test_keys_of_a_slot_that_its_holder_does_not_own_are_left_to_a_person() -> None:
    first = declared(3)
    with Fleet(first, "8.1") as fleet:
        scenes.run_fresh(fleet)
        spec = become(fleet, declared(4, 0, planned_layout(4, first.layout)))
        giver, taker = Member(0, 0), Member(3, 0)
        slot = min(spec.layout[3] & first.layout[0])
        # By hand: a taker that was given a key, and then told that the slot isn't coming.
        meet_all(fleet, spec)
        ids = fleet.ids()
        fleet.ask(taker, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[giver])
        with fleet.client(taker) as client:
            client.execute_command("ASKING")
            client.set(scenes.key_in(first.layout[0] & spec.layout[3], 0), "stray")
        fleet.ask(taker, "CLUSTER", "SETSLOT", slot, "STABLE")
        error = scenes.blocked_reason(fleet, spec)
        assert f"it holds keys of 1 slots that it doesn't own, the first of them {slot}" in str(error)


@ways
def test_large_keys_expiries_and_functions_come_along(line: str, method: str) -> None:
    first = declared(3)
    with Fleet(first, line, password="p w") as fleet:  # noqa: S106
        scenes.run_fresh(fleet)
        fleet.ask(Member(0, 0), "FUNCTION", "LOAD", LIBRARY)
        four = declared(4, 0, planned_layout(4, first.layout), method)
        moving_slots = four.layout[3] & first.layout[0]
        large, brief, many = (scenes.key_in(moving_slots, number) for number in (0, 1, 2))
        with fleet.client(Member(0, 0)) as client:
            client.set(large, b"x" * (64 << 20))
            client.set(brief, "soon gone", ex=1000)
            client.hset(many, mapping={str(field): "v" * 100 for field in range(20000)})
        told = scenes.Told()
        scale(fleet, four, told)
        with fleet.client(Member(3, 0)) as client:
            assert client.strlen(large) == 64 << 20
            assert client.hlen(many) == 20000
            assert 0 < int(str(client.ttl(brief))) <= 1000
            assert client.fcall("answer", 1, brief) == 42
        assert "p w" not in repr(told.lines)


LIBRARY = "#!lua name=lib\nserver.register_function('answer', function(keys, args) return 42 end)"


def test_a_move_that_servers_fail_is_told_in_their_words_and_tried_again() -> None:
    """Report C3: the server says yes, and fails later. Here it can't sign in at the other end."""
    first = declared(3)
    with Fleet(first, "9.1", password="right") as fleet:  # noqa: S106
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        spec = become(fleet, declared(4, 0, planned_layout(4, first.layout)))
        fleet.ask(Member(0, 0), "CONFIG", "SET", "primaryauth", "wrong")
        told = scenes.Told()
        with pytest.raises(errors.Blocked) as caught:
            scenes.run(fleet, spec, told=told)
        assert "s0-0: move slots 4096-5460 to s3-0 failed 5 times" in str(caught.value)
        assert "WRONGPASS" in str(caught.value)
        assert "right" not in str(caught.value)
        moved = scenes.layout_of(scenes.look(fleet, spec))
        assert moved[1] == spec.layout[1], "what the others had to give, they gave"
        assert scenes.read(fleet, list(keys)) == keys
        fleet.ask(Member(0, 0), "CONFIG", "SET", "primaryauth", "right")
        scale(fleet, spec)
        assert scenes.read(fleet, list(keys)) == keys


@ways
def test_needs_no_other_rights_than_those_listed(line: str, method: str) -> None:
    first = declared(3)
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        four = declared(4, 0, planned_layout(4, first.layout), method)
        spec = become(fleet, four)
        names = [*COMMANDS_NEEDED, *(COMMANDS_NEEDED_SINCE_9 if line == "9.1" else ())]
        for member in spec.members:
            fleet.ask(member, "ACL", "SETUSER", "op", "on", ">secret", "allkeys", "-@all", *(f"+{n}" for n in names))
        fleet.login = Credentials("op", "secret")
        told = scenes.Told()
        scale(fleet, four, told)
        scale(fleet, first, told)
        assert [fleet.ask(member, "ACL", "LOG") for member in fleet.spec.members] == [[]] * 3
        assert "secret" not in repr(told.lines)
        assert scenes.read(fleet, list(keys)) == keys


@ways
def test_nobody_gives_slots_to_who_cant_be_given_functions(line: str, method: str) -> None:
    """Once it owns some, nobody would look for them again, and clients would call what isn't there."""
    first = declared(3)
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        fleet.ask(Member(0, 0), "FUNCTION", "LOAD", LIBRARY)
        spec = become(fleet, declared(4, 0, planned_layout(4, first.layout), method))
        for member in spec.members:
            rights = ["-function|restore"] if member == Member(3, 0) else []
            fleet.ask(member, "ACL", "SETUSER", "op", "on", ">secret", "allkeys", "+@all", *rights)
        fleet.login = Credentials("op", "secret")
        error = scenes.blocked_reason(fleet, spec)
        assert "function|restore" in str(error)
        assert scenes.layout_of(scenes.look(fleet, spec)) == dict(enumerate(first.layout))
        fleet.ask(Member(3, 0), "ACL", "SETUSER", "op", "+@all")
        scale(fleet, spec)
        assert fleet.ask(Member(3, 0), "FUNCTION", "LIST") != []


@pytest.mark.parametrize("line", ["8.1", "9.1"])
def test_members_that_leave_are_forgotten_with_their_replicas_and_replicate_nobody(line: str) -> None:
    first = declared(4, 1)
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        ids = fleet.ids()
        three = become(fleet, declared(3, 1, planned_layout(3, first.layout)))
        view = scenes.run(fleet, three, deadline_s=LONG_S)
        scenes.assert_ready(fleet, view, three)
        for member in three.leaving:
            assert view.nodes[member].node_id != ids[member]
            assert view.nodes[member].peers == {}
            assert view.nodes[member].primary_id == ""
        # Back at once, before the minute is over in which forgotten ids are banned.
        scenes.assert_ready(fleet, scenes.run(fleet, first, deadline_s=LONG_S), first)
        assert scenes.read(fleet, list(keys)) == keys


def test_an_agent_moves_nothing_and_says_what_is_to_be_moved() -> None:
    first = declared(3)
    with Fleet(first, "9.1") as fleet:
        scenes.run_fresh(fleet)
        spec = become(fleet, declared(4, 0, planned_layout(4, first.layout)))
        error = scenes.blocked_reason(fleet, replace(spec, may_move=False))
        assert "4096 slots are with another shard than declared" in str(error)
        assert "`pulumi up` moves them" in str(error)
        view = scenes.look(fleet, spec)
        assert scenes.layout_of(view) == dict(enumerate(first.layout))
        assert len(view.nodes[Member(3, 0)].peers) == 3, "but it has joined"
