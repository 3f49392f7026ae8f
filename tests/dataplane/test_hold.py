"""Writes held on real servers, and all of them stopped at once: every disk alone then has everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

import valkey

from tests.dataplane import scenes
from tests.dataplane.servers import Fleet
from valkeyctl.dataplane import Credentials, Member, Spec, View, converge
from valkeyctl.dataplane.holding import (
    COMMANDS_NEEDED_TO_HOLD,
    disk_troubles,
    hold_writes,
    release_writes,
    tell_settings,
)
from valkeyctl.dataplane.observe import TIMEOUT_S
from valkeyctl.dataplane.plan import Plan
from valkeyctl.dataplane.plan_pause import plan_pause
from valkeyctl.dataplane.view import Role

LOG = {"appendonly": "yes", "appendfsync": "everysec"}
AT_REST = {"cluster-replica-no-failover": "yes", "shutdown-on-sigterm": "default"}
SPEC = scenes.spec_of(3, 1)


class Writing:
    """Writes to one primary as fast as it goes; `acknowledged` counts what it said yes to."""

    def __init__(self, fleet: Fleet, member: Member, slot: str) -> None:
        self.acknowledged = 0
        self._fleet, self._member, self._slot = fleet, member, slot
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._fleet.client(self._member) as client, suppress(valkey.ValkeyError):
            while True:
                client.set(f"{{{self._slot}}}{self.acknowledged}", "x")
                self.acknowledged += 1

    def until(self, count: int) -> None:
        deadline = time.monotonic() + 20
        while self.acknowledged < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def end(self) -> int:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.acknowledged


def come_to_rest(fleet: Fleet, primaries: Collection[Member]) -> View:
    assert tell_settings(fleet.dialer, fleet.directory(), AT_REST) == {}
    endpoints = {member: fleet.directory()[member] for member in primaries}
    assert hold_writes(fleet.dialer, endpoints, for_s=60) == {}

    def decide(spec: Spec, view: View) -> Plan:
        return plan_pause(spec, view, members=spec.members, exactly=True)

    return converge(
        fleet.spec,
        fleet.directory,
        fleet.dialer,
        deadline_s=20,
        progress=scenes.Told(),
        may_go_on=lambda: None,
        decide=decide,
    )


def terminate(fleet: Fleet) -> None:
    """SIGTERM for all, and wait for their ends."""
    processes = [server.process for server in fleet.servers.values() if server.process]
    for process in processes:
        process.terminate()
    for process in processes:
        assert process.wait(30) == 0
    for server in fleet.servers.values():
        server.process = None


def role_on_disk(fleet: Fleet, member: Member) -> Role:
    """What a stopped server was in the end, by its node table."""
    lines = (fleet.servers[member].directory / "nodes.conf").read_text().splitlines()
    flags = next(line.split()[2] for line in lines if "myself" in line)
    return Role.PRIMARY if "master" in flags else Role.REPLICA


def keys(fleet: Fleet) -> Mapping[Member, int]:
    return {member: int(str(fleet.ask(member, "DBSIZE"))) for member in fleet.spec.members}


def test_every_copy_has_all_that_was_acknowledged_when_all_stop_at_once(line: str) -> None:
    with Fleet(SPEC, line, LOG) as fleet:
        fleet.start()
        view = scenes.run(fleet)
        primary = next(member for member, node in view.nodes.items() if member.shard == 0 and node.slots)
        slot = next(str(number) for number in range(1000) if Fleet.slot(str(number)) in view.nodes[primary].slots)
        writing = Writing(fleet, primary, slot)
        writing.until(500)
        come_to_rest(fleet, [member for member, node in view.nodes.items() if node.slots])
        assert disk_troubles(fleet.dialer, fleet.directory()) == {}
        held = keys(fleet)
        assert {held[Member(0, 0)], held[Member(0, 1)]} == {writing.acknowledged}
        roles = {member: node.role for member, node in view.nodes.items()}
        ids = fleet.ids()
        terminate(fleet)
        assert {member: role_on_disk(fleet, member) for member in roles} == roles, "nobody took over from anybody"
        assert writing.end() == held[primary], "what was held was never acknowledged"

        fleet.resume(*SPEC.members)
        after = scenes.run(fleet)
        scenes.assert_ready(fleet, after)
        assert keys(fleet) == held
        assert fleet.ids() == ids


def test_each_disk_alone_has_everything(line: str) -> None:
    with Fleet(scenes.spec_of(1, 1), line, LOG) as fleet:
        fleet.start()
        view = scenes.run(fleet)
        primary, replica = sorted(view.nodes, key=lambda member: not view.nodes[member].slots)
        writing = Writing(fleet, primary, "a")
        writing.until(500)
        come_to_rest(fleet, [primary])
        terminate(fleet)
        acknowledged = writing.end()
        # The primary's disk is lost during the pause.
        fleet.resume(replica)
        assert fleet.ask(replica, "DBSIZE") == acknowledged


def test_writes_go_on_when_they_are_released_or_when_nobody_comes(line: str) -> None:
    with Fleet(scenes.spec_of(1, 0), line) as fleet:
        fleet.start()
        scenes.run(fleet)
        member = Member(0, 0)
        hold_writes(fleet.dialer, fleet.directory(), for_s=60)
        writing = Writing(fleet, member, "a")
        assert "paused_actions:write" in str(fleet.ask(member, "INFO", "clients"))
        assert writing.acknowledged == 0
        assert release_writes(fleet.dialer, fleet.directory()) == {}
        writing.until(1)
        hold_writes(fleet.dialer, fleet.directory(), for_s=0.2)
        writing.until(writing.acknowledged + 10)
        fleet.servers[member].kill()
        writing.end()


def test_who_gives_no_answer_for_a_moment_is_told_all_the_same(line: str) -> None:
    with Fleet(scenes.spec_of(1, 0), line) as fleet:
        fleet.start()
        server = fleet.servers[Member(0, 0)]
        server.freeze()
        threading.Timer(1.5 * TIMEOUT_S, server.thaw).start()
        assert tell_settings(fleet.dialer, fleet.directory(), AT_REST) == {}
        server.freeze()
        try:
            assert list(hold_writes(fleet.dialer, fleet.directory(), for_s=1)) == [Member(0, 0)]
        finally:
            server.thaw()


def test_it_needs_no_other_rights_than_those_listed(line: str) -> None:
    with Fleet(scenes.spec_of(1, 0), line) as fleet:
        fleet.start()
        rights = [f"+{command}" for command in COMMANDS_NEEDED_TO_HOLD]
        fleet.ask(Member(0, 0), "ACL", "SETUSER", "op", "on", ">secret", "resetkeys", "-@all", *rights)
        fleet.login = Credentials("op", "secret")
        assert tell_settings(fleet.dialer, fleet.directory(), AT_REST) == {}
        assert hold_writes(fleet.dialer, fleet.directory(), for_s=1) == {}
        assert disk_troubles(fleet.dialer, fleet.directory()) == {}
        assert release_writes(fleet.dialer, fleet.directory()) == {}
        assert fleet.ask(Member(0, 0), "ACL", "LOG") == []


def test_a_setting_that_a_server_refuses_is_told_with_its_name(line: str) -> None:
    with Fleet(scenes.spec_of(1, 0), line) as fleet:
        fleet.start()
        refused = tell_settings(fleet.dialer, fleet.directory(), {"shutdown-on-sigterm": "never"})
        assert list(refused) == [Member(0, 0)]
        assert "shutdown-on-sigterm" in str(refused[Member(0, 0)])
