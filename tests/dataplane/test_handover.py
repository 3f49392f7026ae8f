"""Roles that move as planned, under a writer, and members that are taken out: no acknowledged write is lost."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import valkey

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, PORT, Fleet
from tests.dataplane.writer import Writer
from valkeyctl.dataplane import Member, Plan, Progress, Role, Spec, Steps, View, apply, converge, errors, plan
from valkeyctl.dataplane.converge import AGAIN
from valkeyctl.dataplane.plan_roles import leaving_primaries, plan_retreat, plan_roles
from valkeyctl.dataplane.steps import HandOver

SPEC = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)
WANTED = replace(SPEC, primaries={0: 1, 1: 1, 2: 1})


def roles(view: View) -> dict[int, int]:
    return {shard: member.ordinal for shard, member in scenes.primaries(view).items()}


def handed_over(shard: int) -> str:
    return f"s{shard}-1: take the primary's role over from s{shard}-0"


def test_roles_move_under_a_writer_and_nothing_acknowledged_is_lost(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        scenes.run_fresh(fleet)
        told = scenes.Told()
        with Writer(fleet) as writer:
            view = scenes.run(fleet, WANTED, told=told)
        scenes.assert_ready(fleet, view, WANTED)
        assert roles(view) == {0: 1, 1: 1, 2: 1}
        # On a busy machine servers may give one up, so that it is asked for again, and shards are ready in any order.
        asked = {line.removesuffix(AGAIN) for line in told.done if "role over" in line}
        assert asked == {handed_over(shard) for shard in range(3)}
        assert writer.lost() == []
        before = scenes.commands_counted(fleet)
        scenes.run(fleet, WANTED)
        scenes.assert_only_reads(before, scenes.commands_counted(fleet))


def test_a_role_comes_back_after_an_incident(line: str) -> None:
    wanted = replace(SPEC, primaries={1: 0})
    with Fleet(SPEC, line) as fleet:
        scenes.run_fresh(fleet)
        with Writer(fleet) as writer:
            fleet.ask(Member(1, 1), "CLUSTER", "FAILOVER")
            deadline = time.monotonic() + 20
            while scenes.look(fleet).nodes[Member(1, 1)].role is not Role.PRIMARY:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            view = scenes.run(fleet, wanted)
        assert roles(view)[1] == 0
        assert writer.lost() == []


def test_a_handover_stopped_after_each_step_is_finished_by_the_next_run(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        scenes.run_fresh(fleet)
        with Writer(fleet) as writer:
            for _ in range(3):
                scenes.take_steps(fleet, 1, WANTED)
            view = scenes.run(fleet, WANTED)
        assert roles(view) == {0: 1, 1: 1, 2: 1}
        assert writer.lost() == []


def test_a_handover_that_took_place_already_is_no_error(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        scenes.run_fresh(fleet)
        apply(HandOver(Member(0, 0), Member(0, 1)), fleet.directory(), fleet.dialer)


def await_busy(fleet: Fleet, member: Member) -> None:
    """Return when a server doesn't answer at once."""
    deadline = time.monotonic() + 20
    with valkey.Valkey(host=fleet.servers[member].address, port=PORT, socket_timeout=0.2) as client:
        while True:
            try:
                client.ping()
            except valkey.TimeoutError:
                return
            assert time.monotonic() < deadline, "it answers"
            time.sleep(0.01)


def test_a_handover_that_servers_give_up_is_told_as_such_and_asked_for_again(line: str) -> None:
    """A server agrees at once, and when it gives up it says so in its log alone. Here its primary is busy meanwhile."""
    wanted, primary, heir = replace(SPEC, primaries={1: 1}), Member(1, 0), Member(1, 1)
    with Fleet(SPEC, line) as fleet:
        scenes.run_fresh(fleet)
        fleet.ask(heir, "CONFIG", "SET", "cluster-manual-failover-timeout", 100)
        busy = threading.Thread(target=fleet.ask, args=(primary, "DEBUG", "SLEEP", "1.2"))
        told: list[str] = []

        def decide(spec: Spec, view: View) -> Plan:
            what = plan(spec, view)
            if isinstance(what, Steps) and HandOver(heir, primary) in what.actions and not busy.ident:
                busy.start()
                await_busy(fleet, primary)
            return what

        def listen(progress: Progress) -> None:
            told.extend(line for line in progress.new if "role over" in line)
            if busy.ident and not busy.is_alive():
                fleet.ask(heir, "CONFIG", "SET", "cluster-manual-failover-timeout", 5000)

        with Writer(fleet) as writer:
            view = converge(
                wanted,
                fleet.directory,
                fleet.dialer,
                deadline_s=scenes.DEADLINE_S,
                progress=listen,
                may_go_on=lambda: None,
                decide=decide,
            )
            busy.join()
        assert roles(view) == {0: 0, 1: 1, 2: 0}
        assert told[0] == handed_over(1)
        assert set(told[1:]) == {f"{handed_over(1)}{AGAIN}"}
        assert writer.lost() == []


def test_a_frozen_replica_takes_nothing_over_and_the_others_do(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        scenes.run_fresh(fleet)
        fleet.servers[Member(0, 1)].freeze()
        try:
            with pytest.raises(errors.DeadlineExceeded):
                scenes.run(fleet, WANTED, deadline_s=12.0)
            assert {s: o for s, o in roles(scenes.look(fleet)).items() if s} == {1: 1, 2: 1}
        finally:
            fleet.servers[Member(0, 1)].thaw()
        assert roles(scenes.run(fleet, WANTED)) == {0: 1, 1: 1, 2: 1}


def test_primaries_retreat_before_members_go_and_these_are_forgotten(line: str) -> None:
    wide = scenes.spec_of(3, 2, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)
    with Fleet(wide, line) as fleet:
        scenes.run_fresh(fleet)
        view = scenes.run(fleet, replace(wide, primaries={0: 2, 1: 1, 2: 2}))
        assert [str(node.member) for node in leaving_primaries(wide, view, keep=2)] == ["s0-2", "s2-2"]
        with Writer(fleet) as writer:
            view = converge(
                wide,
                fleet.directory,
                fleet.dialer,
                deadline_s=scenes.DEADLINE_S,
                progress=scenes.Told(),
                may_go_on=lambda: None,
                decide=lambda spec, seen: plan_retreat(spec, seen, keep=2),
            )
            found = roles(view)
            assert max(found.values()) < 2
            assert found[1] == 1, "one that stays keeps its role"
            fleet.stop(*(Member(shard, 2) for shard in range(3)))
            view = scenes.run(fleet, SPEC)
        scenes.assert_ready(fleet, view, SPEC)
        assert roles(view) == found
        assert writer.lost() == []


def test_roles_alone_are_moved_though_a_former_primary_cannot_follow() -> None:
    """An older server may be unable to follow a newer one: the roll replaces it next."""
    with Fleet(SPEC, "8.1") as fleet:
        scenes.run_fresh(fleet)
        with Writer(fleet) as writer:
            fleet.stop(Member(0, 1))
            fleet.line = "9.1"
            fleet.start(Member(0, 1))
            scenes.run(fleet)
            view = converge(
                replace(SPEC, primaries={0: 1}),
                fleet.directory,
                fleet.dialer,
                deadline_s=scenes.DEADLINE_S,
                progress=scenes.Told(),
                may_go_on=lambda: None,
                decide=plan_roles,
            )
            assert view.nodes[Member(0, 1)].version.startswith("9.1")
            assert roles(view)[0] == 1
            fleet.replace(Member(0, 0))
            view = scenes.run(fleet)
        scenes.assert_ready(fleet, view)
        assert writer.lost() == []
