"""Forming a cluster out of fresh servers, and leaving alone one that is right."""

from __future__ import annotations

import time

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import COMMANDS_NEEDED, COMMANDS_NEEDED_SINCE_9, Credentials, Member, Role, Spec, parse_layout


@pytest.mark.parametrize(("shards", "replicas"), [(3, 1), (6, 2), (1, 0), (3, 0)])
def test_forms_a_cluster(line: str, shards: int, replicas: int) -> None:
    spec = scenes.spec_of(shards, replicas)
    with Fleet(spec, line) as fleet:
        fleet.start()
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert [len(slots) for slots in scenes.layout_of(view).values()] == [len(slots) for slots in spec.layout]
        assert scenes.primaries(view) == {shard: Member(shard, 0) for shard in range(shards)}
        assert {node.version.rpartition(".")[0] for node in view.nodes.values()} == {line}


def test_primaries_have_distinct_epochs(line: str) -> None:
    with Fleet(scenes.spec_of(3, 1), line) as fleet:
        fleet.start()
        view = scenes.run(fleet)
        epochs = [node.config_epoch for node in view.nodes.values() if node.role is Role.PRIMARY]
        assert sorted(epochs) == [1, 2, 3]


def test_meets_an_explicit_layout_to_the_slot(line: str) -> None:
    layout = parse_layout({0: "0-99,16000-16383", 1: "100-9999", 2: "10000-15999"})
    with Fleet(Spec("t", 3, 1, layout, explicit=True), line) as fleet:
        fleet.start()
        view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert scenes.layout_of(view) == dict(enumerate(layout))


def test_serves_at_once_where_the_timeout_is_known(line: str) -> None:
    spec = scenes.spec_of(3, 1, node_timeout_ms=15000)
    with Fleet(spec, line, {"cluster-node-timeout": "15000"}) as fleet:
        fleet.start()
        time.sleep(2.2)  # a server that has just started waits 2 s of its own before it serves
        told = scenes.Told()
        view = scenes.run(fleet, told=told)
        scenes.assert_ready(fleet, view)
        assert "s0-0: set the node timeout to 500 ms" in told.done, "otherwise it waits for 5 s"
        for member in spec.members:
            assert fleet.ask(member, "CONFIG", "GET", "cluster-node-timeout") == ["cluster-node-timeout", "15000"]


def test_puts_back_a_timeout_that_a_dead_run_left_short(line: str) -> None:
    spec = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS)
    with Fleet(spec, line) as fleet:
        fleet.start()
        scenes.run(fleet)
        fleet.ask(Member(1, 0), "CONFIG", "SET", "cluster-node-timeout", "500")
        told = scenes.Told()
        scenes.run(fleet, told=told)
        assert told.done == (f"s1-0: set the node timeout to {NODE_TIMEOUT_MS} ms",)
        timeout = fleet.ask(Member(1, 0), "CONFIG", "GET", "cluster-node-timeout")
        assert timeout == ["cluster-node-timeout", str(NODE_TIMEOUT_MS)]


def test_leaves_alone_what_is_right(line: str) -> None:
    with Fleet(scenes.spec_of(3, 1), line) as fleet:
        fleet.start()
        scenes.run(fleet)
        before = scenes.commands_counted(fleet)
        told = scenes.Told()
        view = scenes.run(fleet, told=told)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        assert told.done == ()
        scenes.assert_ready(fleet, view)


def test_adopts_another_even_assignment(line: str) -> None:
    """A cluster that another tool made, with the odd slot elsewhere, is kept as it is."""
    made_as = parse_layout({0: "0-5460", 1: "5461-10922", 2: "10923-16383"})
    with Fleet(Spec("t", 3, 1, made_as, explicit=True), line) as fleet:
        fleet.start()
        scenes.run(fleet)
        before = scenes.commands_counted(fleet)
        view = scenes.run(fleet, scenes.spec_of(3, 1))
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))
        assert scenes.layout_of(view) == dict(enumerate(made_as))


def rights_needed(line: str) -> list[str]:
    return [*COMMANDS_NEEDED, *(COMMANDS_NEEDED_SINCE_9 if line == "9.1" else ())]


def test_needs_no_other_rights_than_those_listed(line: str) -> None:
    """Forming and repairing as a user who has just these; nothing is refused (report C5)."""
    spec = scenes.spec_of(3, 1, node_timeout_ms=15000)
    with Fleet(spec, line, {"cluster-node-timeout": "15000"}) as fleet:
        fleet.start()
        rights = [f"+{command}" for command in rights_needed(line)]
        for member in spec.members:
            fleet.ask(member, "ACL", "SETUSER", "op", "on", ">secret", "resetkeys", "-@all", *rights)
        fleet.login = Credentials("op", "secret")
        scenes.run(fleet)
        other = str(fleet.ask(Member(1, 0), "CLUSTER", "MYID"))
        fleet.ask(Member(0, 0), "CLUSTER", "SETSLOT", 7, "MIGRATING", other)
        fleet.ask(Member(0, 0), "CLUSTER", "DELSLOTS", 9)
        fleet.ask(Member(2, 1), "CLUSTER", "REPLICATE", other)
        fleet.replace(Member(1, 1))
        fleet.ask(Member(1, 1), "ACL", "SETUSER", "op", "on", ">secret", "resetkeys", "-@all", *rights)
        scenes.assert_ready(fleet, scenes.run(fleet))
        assert [fleet.ask(member, "ACL", "LOG") for member in spec.members] == [[]] * 6


def test_a_missing_right_is_told_by_name(line: str) -> None:
    spec = scenes.spec_of(1, 0)
    with Fleet(spec, line) as fleet:
        fleet.start()
        rights = [f"+{command}" for command in rights_needed(line) if command != "cluster|addslotsrange"]
        fleet.ask(Member(0, 0), "ACL", "SETUSER", "op", "on", ">secret", "-@all", *rights)
        fleet.login = Credentials("op", "secret")
        error = scenes.blocked_reason(fleet)
        assert "s0-0: assign slots 0-16383 failed 5 times" in str(error)
        assert "cluster|addslotsrange" in str(error)
        assert "Grant the user the right" in error.remedy


def test_forms_with_a_password_and_never_tells_it(line: str) -> None:
    secret = 'p"a ss\\w0rd'  # noqa: S105
    with Fleet(scenes.spec_of(3, 1), line, password=secret) as fleet:
        fleet.start()
        told = scenes.Told()
        view = scenes.run(fleet, told=told)
        scenes.assert_ready(fleet, view)
        assert secret not in repr(told.lines) + repr(view) + repr(fleet.dialer) + str(fleet.dialer)
