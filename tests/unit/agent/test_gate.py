"""The gate: who may start and when; what is told meanwhile."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.agent.places import (
    ONE,
    ONE_ID,
    OTHER,
    OTHER_ID,
    SLOTS,
    PlayedPeers,
    PlayedTelling,
    PlayedWatch,
    Running,
    eventually,
    place,
    primary_tale,
    promoted_tale,
    replica_tale,
)
from valkeyctl.agent.disk import Unreadable
from valkeyctl.agent.gate import SET_ASIDE, TOLD_S, Gate
from valkeyctl.agent.guard import Rules
from valkeyctl.agent.logs import Log
from valkeyctl.agent.promise import PROMISE_S
from valkeyctl.agent.state import Phase
from valkeyctl.agent.tale import Owner, Server, Tale
from valkeyctl.dataplane.model import Member


class Held:
    """A gate, and the server's container at its door."""

    def __init__(self, folder: Path, tale: Tale | Exception, tales: Mapping[Member, Tale] | None = None) -> None:
        self.environment = place(folder)
        self.watch = PlayedWatch()
        self.telling = PlayedTelling(tale)
        self.tales = dict(tales or {})
        self.peers = PlayedPeers(lambda: self.tales)
        self.log = io.StringIO()
        self.rules = Rules(absent_s=0.5)
        self.gate = self.another()

    def another(self) -> Gate:
        """A gate as a new agent makes it."""
        self.gate = Gate(self.environment, self.watch, lambda: self.rules, Log(to=self.log))  # type: ignore[arg-type]
        return self.gate

    def running(self) -> Running:
        return Running(lambda stopping: self.gate.run(self.telling, self.peers, stopping, lambda: None))  # type: ignore[arg-type]

    def request(self, token: str) -> None:
        (self.environment.run / "start" / "request").write_text(f"{token}\n")
        with (self.environment.run / "start" / "wake").open("w") as wake:
            wake.write("\n")

    @property
    def permit(self) -> str:
        file = self.environment.run / "start" / "permit"
        return file.read_text().strip() if file.exists() else ""


def test_a_new_member_starts_at_once_and_asks_nobody(tmp_path: Path) -> None:
    held = Held(tmp_path, Tale(ONE))
    with held.running():
        assert held.gate.held
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        assert not held.gate.held
    assert held.peers.asked == []
    assert 'cluster-announce-ip "127.9.0.1"' in (held.environment.run / "valkey.conf").read_text()
    assert held.watch.pokes > 0


def test_a_primary_with_nothing_waits_for_its_copy_to_be_promoted(tmp_path: Path) -> None:
    """Reports C15, F4."""
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale()})
    with held.running():
        held.request("t1")
        eventually(lambda: len(held.peers.asked) > 5)
        assert held.permit == ""
        assert held.gate.held
        assert "s0-1 (server up)" in held.gate.waits_for
        held.tales[OTHER] = promoted_tale()
        eventually(lambda: held.permit == "t1")
        assert held.gate.waits_for == ""
    assert held.log.getvalue().count("the server waits") == 1, "what is waited for is told once"


def test_an_absent_member_is_waited_for_no_longer_than_the_rules_say(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale())
    with held.running():
        began = time.monotonic()
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - began >= held.rules.absent_s
    assert "WARNING gate: the server may start" in held.log.getvalue()


def test_another_request_takes_the_place_of_the_first(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale()})
    with held.running():
        held.request("t1")
        eventually(lambda: held.peers.asked)
        held.request("t2")
        held.tales[OTHER] = promoted_tale()
        eventually(lambda: held.permit == "t2")


def test_a_promise_is_kept_until_nobody_can_act_on_it(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    with held.running():
        held.gate.promise(primary_tale(), replica_tale())
        promised_at = time.monotonic()
        held.request("t1")
        eventually(lambda: not held.gate.held)
        assert held.permit == "", "it is told that it may start, and it doesn't yet"
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - promised_at >= PROMISE_S


def test_who_was_promoted_because_of_a_promise_is_found(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    with held.running():
        held.gate.promise(primary_tale(), replica_tale())
        held.request("t1")
        eventually(lambda: not held.gate.held)
        held.tales[OTHER] = promoted_tale()
        eventually(lambda: held.permit == "t1")
    assert "s0-1 owns its slots by now" in held.log.getvalue()


def test_nothing_is_promised_to_who_could_not_act_on_it(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    with held.running():
        held.gate.promise(primary_tale(held=False), replica_tale())
        held.gate.promise(primary_tale(), replica_tale(primary_id=OTHER_ID))
        began = time.monotonic()
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - began < PROMISE_S


def test_the_end_of_the_server_is_told_to_its_copies_and_no_start_is_permitted_for_it(tmp_path: Path) -> None:
    held = Held(tmp_path, Tale(ONE))
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        held.gate.listen(held.watch.turn(Phase.SERVING))
        held.telling.tale = primary_tale()
        held.gate.listen(held.watch.turn(Phase.DOWN))
        assert held.gate.held
        eventually(lambda: held.peers.asked == [{OTHER}])
        time.sleep(0.2)
        assert held.gate.held, "the request was for the server that has ended"


def test_a_start_is_not_judged_by_what_the_server_before_had_in_memory(tmp_path: Path) -> None:
    """Its container may be back before its end was noticed."""
    held = Held(tmp_path, promoted_tale())
    held.gate.listen(held.watch.turn(Phase.SERVING))
    with held.running():
        held.request("t2")
        eventually(lambda: held.watch.pokes > 3)
        assert (held.permit, held.peers.asked) == ("", [])
        held.telling.tale, held.tales = primary_tale(), {OTHER: replica_tale()}
        held.gate.listen(held.watch.turn(Phase.DOWN))
        eventually(lambda: len(held.peers.asked) > 3)
        assert held.permit == ""
        held.tales = {OTHER: promoted_tale()}
        eventually(lambda: held.permit == "t2")
        assert not held.gate.held


def test_down_is_no_end_before_the_server_was_seen(tmp_path: Path) -> None:
    """It was permitted, and hasn't come up yet."""
    held = Held(tmp_path, Tale(ONE))
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        held.gate.listen(held.watch.turn(Phase.DOWN))
        assert not held.gate.held
        assert held.permit == "t1"


def test_an_agent_that_comes_back_knows_what_was_permitted(tmp_path: Path) -> None:
    held = Held(tmp_path, Tale(ONE))
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
    assert not held.another().held
    held.gate.listen(held.watch.turn(Phase.SERVING))
    held.gate.listen(held.watch.turn(Phase.DOWN))
    assert held.another().held


def test_without_a_password_the_container_is_told_why(tmp_path: Path) -> None:
    held = Held(tmp_path, Tale(ONE))
    held.environment.secret.write_bytes(b"")
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit)
        assert held.permit == f"t1 the password is empty: {held.environment.secret}"
        assert held.gate.held
        held.environment.secret.write_bytes(b"secret")
        held.request("t2")
        eventually(lambda: held.permit == "t2")


AFAR, NEAR = Member(3, 0), Member(1, 0)
NEAR_ID = "4" * 40


def left_tale() -> Tale:
    """What a member of a shard of old finds on its disk."""
    return Tale(AFAR, held=True, node_id=ONE_ID, config_epoch=1, owners=(Owner(NEAR_ID, NEAR, 2, SLOTS),))


def serving_tale(*, knows_asker: bool) -> Tale:
    """NEAR, which has all slots by now."""
    return Tale(
        NEAR, server=Server.UP, node_id=NEAR_ID, slots=SLOTS, config_epoch=2, current_epoch=2, knows_asker=knows_asker
    )


def test_what_a_former_member_left_is_set_aside(tmp_path: Path) -> None:
    held = Held(tmp_path, left_tale(), {NEAR: serving_tale(knows_asker=False)})
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        folder = (held.environment.run / SET_ASIDE).read_text().strip()
        assert folder.startswith("set-aside-")
        assert f"WARNING gate: the node table and the data of the former member go to {folder}" in held.log.getvalue()
        held.gate.listen(held.watch.turn(Phase.SERVING))
        held.telling.tale = Tale(AFAR, node_id=OTHER_ID)
        held.gate.listen(held.watch.turn(Phase.DOWN))
        held.request("t2")
        eventually(lambda: held.permit == "t2")
        assert not (held.environment.run / SET_ASIDE).exists(), "the next start has its own disk"


def test_a_member_of_which_nobody_tells_waits_for_a_while_and_keeps_its_disk(tmp_path: Path) -> None:
    held = Held(tmp_path, left_tale())
    held.rules = Rules(former_s=0.5)
    with held.running():
        held.request("t1")
        eventually(lambda: held.gate.waits_for)
        assert "nobody has told yet that it is one of the cluster" in held.gate.waits_for
        eventually(lambda: held.permit == "t1")
    assert not (held.environment.run / SET_ASIDE).exists()


def test_a_member_that_is_known_starts_at_once(tmp_path: Path) -> None:
    held = Held(tmp_path, left_tale(), {NEAR: serving_tale(knows_asker=True)})
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
    assert "the server waits" not in held.log.getvalue()
    assert not (held.environment.run / SET_ASIDE).exists()


def test_a_primary_promises_nothing_to_a_replica_that_does_not_run(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    with held.running():
        held.gate.promise(primary_tale(), replica_tale(server=Server.DOWN, held=True))
        began = time.monotonic()
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - began < PROMISE_S


@pytest.mark.parametrize("fault", [Unreadable("nodes.conf isn't understood"), OSError("input/output error")])
def test_a_disk_that_tells_nothing_is_read_again_and_then_left_to_the_server(tmp_path: Path, fault: Exception) -> None:
    held = Held(tmp_path, fault)
    held.rules = Rules(disk_s=0.5)
    with held.running():
        began = time.monotonic()
        held.request("t1")
        eventually(lambda: str(fault) in held.gate.waits_for)
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - began >= held.rules.disk_s
    assert str(fault) in held.log.getvalue()


def test_a_disk_that_fails_for_a_moment_is_not_taken_for_one_that_tells_nothing(tmp_path: Path) -> None:
    held = Held(tmp_path, OSError("input/output error"), {OTHER: replica_tale()})
    with held.running():
        held.request("t1")
        eventually(lambda: held.gate.waits_for)
        held.telling.tale = primary_tale()
        eventually(lambda: "s0-1 (server up) has a copy" in held.gate.waits_for)
        assert held.permit == ""


def test_a_promise_is_kept_by_the_agent_that_comes_back(tmp_path: Path) -> None:
    """It is noted before it is told: whoever heard it may be acting on it."""
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    assert held.gate.promise(primary_tale(), replica_tale()).held
    promised_at = time.monotonic()
    held.another()
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - promised_at >= PROMISE_S - 0.05


def test_a_promise_to_one_who_does_not_say_which_node_it_is_counts(tmp_path: Path) -> None:
    """Its agent may find out at the next moment that it is a replica, and act."""
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    with held.running():
        promised_at = time.monotonic()
        assert held.gate.promise(primary_tale(), Tale(OTHER, server=Server.LOADING)).held
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        assert time.monotonic() - promised_at >= PROMISE_S


def test_a_promise_that_is_over_before_it_is_told_is_not_told(tmp_path: Path) -> None:
    """The tale was made when the server was held, and by now its start is permitted."""
    held = Held(tmp_path, Tale(ONE))
    with held.running():
        held.request("t1")
        eventually(lambda: held.permit == "t1")
        told = held.gate.promise(primary_tale(), replica_tale())
    assert (told.held, told.server) == (False, Server.LOADING)


def test_what_can_not_be_noted_is_not_promised(tmp_path: Path) -> None:
    held = Held(tmp_path, primary_tale())
    (held.environment.run / ".promised.new").mkdir()
    assert not held.gate.promise(primary_tale(), replica_tale()).held
    assert "a promise can't be noted" in held.log.getvalue()


def test_a_verdict_that_took_too_long_is_not_acted_on(tmp_path: Path) -> None:
    """As of an agent that was frozen with it: what it was told is over."""
    held = Held(tmp_path, primary_tale(), {OTHER: replica_tale(primary_id=OTHER_ID)})
    write = held.log.write

    def frozen(text: str) -> int:
        if "the server may start" in text and held.tales[OTHER].primary_id == OTHER_ID:
            held.tales[OTHER] = replica_tale()
            time.sleep(TOLD_S + 0.1)
        return write(text)

    held.log.write = frozen  # type: ignore[method-assign]
    with held.running():
        held.request("t1")
        eventually(lambda: "has a copy" in held.gate.waits_for)
        assert held.permit == ""


def test_a_newer_owner_that_the_own_disk_does_not_know_is_asked_too(tmp_path: Path) -> None:
    heir = Member(0, 2)
    knows = replica_tale(server=Server.DOWN, primary_id="3" * 40, owners=(Owner("3" * 40, heir, 5, SLOTS),))
    held = Held(tmp_path, primary_tale(), {OTHER: knows})
    with held.running():
        held.request("t1")
        eventually(lambda: "s0-2 owns slots of it since a newer epoch" in held.gate.waits_for)
        assert held.permit == ""
        held.tales[heir] = Tale(heir, server=Server.UP, node_id="3" * 40, slots=SLOTS, config_epoch=5)
        eventually(lambda: held.permit == "t1")
    assert "s0-2 owns its slots by now" in held.log.getvalue()
