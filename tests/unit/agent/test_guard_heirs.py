"""A primary that was replaced, or fell behind, while it was away: what it does until it can know better, as a table.

The rows are whence the newer history is known, the columns how the member that has it is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

import pytest

from tests.unit.agent.tales import LAYOUT, P0, P1, P2, R0, R0B, live, log, primary, promoted, replica, snapshot, told
from valkeyctl.agent.guard import RULES, Hold, Start, decide
from valkeyctl.agent.tale import Data, Kind, Owner, Server, Tale
from valkeyctl.dataplane.model import Member

MINE = snapshot(400)
HEIR = promoted(replica(snapshot(900)))
UNKNOWN = Data(Kind.UNKNOWN)


class Known(Enum):
    """Whence it is known that another has taken the primary's place."""

    OWN_DISK = "its own node table says so"
    A_SERVER = "a member of another shard says so, whose server runs"
    A_DISK = "a member of another shard says so, whose server is down"
    THE_HEIR = "only the heir itself can say so"


class Heir(Enum):
    """How the one that took its place is found."""

    UP = "its server runs"
    LOADING = "its server loads"
    DOWN = "its server is down, and its agent tells"
    SILENT = "its agent doesn't answer"


AT_ONCE = 0.0
#: How long the former primary holds. Then it goes on, and warns, but where it does so at once: there it joins as a
#: replica, since a server that runs tells its own one who owns its slots.
HOLDS_S: Mapping[Known, Mapping[Heir, float]] = {
    Known.OWN_DISK: dict.fromkeys(Heir, AT_ONCE),
    Known.A_SERVER: dict.fromkeys(Heir, AT_ONCE),
    Known.A_DISK: {
        Heir.UP: AT_ONCE,
        Heir.LOADING: RULES.alive_s,
        Heir.DOWN: RULES.stuck_s,
        # It would be enough that the one who knows comes up.
        Heir.SILENT: RULES.stuck_s,
    },
    Known.THE_HEIR: {
        Heir.UP: AT_ONCE,
        Heir.LOADING: RULES.alive_s,
        Heir.DOWN: RULES.stuck_s,
        Heir.SILENT: RULES.absent_s,
    },
}


def others(known: Known, heir: Heir, *, voters: Server) -> dict[Member, Tale]:
    """What the former primary hears. The other shards' primaries know of the heir only where `known` says so."""
    tales = [primary(live(), member, server=voters) for member in (P1, P2)]
    if known in (Known.A_SERVER, Known.A_DISK):
        server = Server.UP if known is Known.A_SERVER else Server.DOWN
        knows = Owner(HEIR.node_id, R0, HEIR.config_epoch, LAYOUT[0])
        tales[0] = replace(tales[0], server=server, owners=(knows, *tales[0].owners[1:]))
    if heir is not Heir.SILENT:
        tales.append(replace(HEIR, server=Server[heir.name], held=heir is Heir.DOWN))
    return told(*tales)


def after(me: Tale, heard: Mapping[Member, Tale], holds_s: float) -> Start:
    """What it does once it has held for so long, and not before."""
    if holds_s:
        verdict = decide(me, heard, holds_s - 0.1)
        assert isinstance(verdict, Hold), verdict
        assert verdict.until_s == holds_s, verdict
    verdict = decide(me, heard, holds_s)
    assert isinstance(verdict, Start), verdict
    return verdict


@pytest.mark.parametrize("voters", [Server.UP, Server.DOWN], ids=["with votes", "without"])
@pytest.mark.parametrize("heir", Heir, ids=lambda heir: heir.name)
@pytest.mark.parametrize("known", Known, ids=lambda known: known.name)
def test_it_was_replaced(known: Known, heir: Heir, voters: Server) -> None:
    me = primary(MINE)
    if known is Known.OWN_DISK:
        me = replace(replica(MINE, P0, server=Server.DOWN), primary_id=HEIR.node_id)
    verdict = after(me, others(known, heir, voters=voters), HOLDS_S[known][heir])
    assert verdict.warning == (HOLDS_S[known][heir] > AT_ONCE)


@pytest.mark.parametrize(
    ("heir", "reason"),
    [
        (Heir.LOADING, "s0-1 owns slots of it since a newer epoch, as only s0-1 (server loading) can tell"),
        (
            Heir.DOWN,
            "s0-1 owns slots of it since a newer epoch, as only s0-1 (server down), s1-0 (server down) can tell",
        ),
        (Heir.SILENT, "s0-1 owns slots of it since a newer epoch, as only s1-0 (server down) can tell"),
    ],
)
def test_what_it_waits_for_is_told(heir: Heir, reason: str) -> None:
    known = Known.THE_HEIR if heir is Heir.LOADING else Known.A_DISK
    heard = others(known, heir, voters=Server.DOWN)
    verdict = decide(primary(MINE), heard, 0.0)
    assert isinstance(verdict, Hold)
    assert verdict.why == reason
    late = decide(primary(MINE), heard, RULES.alive_s)
    assert "what only that one has is lost, or what is written until it comes back" in str(late)


@pytest.mark.parametrize("data", [Data(), log(), log(full=True)], ids=str)
def test_no_data_of_its_own_make_up_for_a_newer_owner(data: Data) -> None:
    """What the heir took since is in none of it, not even in a log that is complete."""
    assert isinstance(decide(primary(data), others(Known.THE_HEIR, Heir.DOWN, voters=Server.UP), 0.0), Hold)


def test_an_heir_of_some_slots_that_is_away_is_waited_for_as_well() -> None:
    taker = replace(primary(snapshot(), P1), slots=LAYOUT[1] | LAYOUT[0].lowest(10), config_epoch=9)
    verdict = decide(primary(MINE), told(taker, replica(Data())), 0.0)
    assert isinstance(verdict, Hold)
    assert "s1-0 owns slots of it since a newer epoch" in verdict.why
    assert isinstance(decide(primary(MINE), told(replace(taker, server=Server.UP), replica(Data())), 0.0), Start)


def test_one_who_has_both_a_newer_owner_and_a_copy_ahead_waits_for_either() -> None:
    heir = replace(HEIR, server=Server.DOWN)
    ahead = replica(snapshot(500), R0B, server=Server.LOADING)
    verdict = decide(primary(MINE), told(heir, ahead), 0.0)
    assert isinstance(verdict, Hold)
    assert verdict.until_s == RULES.alive_s
    assert "s0-1 owns slots of it" in verdict.why
    assert "s0-2 (server loading) has a copy" in verdict.why


#: The same for a copy that has more and wasn't promoted so far, by what its agent tells of its data.
AHEAD_S: Mapping[tuple[Server, Kind], float] = {
    (Server.UP, Kind.LIVE): RULES.alive_s,
    (Server.LOADING, Kind.SNAPSHOT): RULES.alive_s,
    (Server.DOWN, Kind.SNAPSHOT): RULES.stuck_s,
    # A server that runs and doesn't answer: what it told last, or nothing yet. Frozen, it counts as down.
    (Server.LOADING, Kind.LIVE): RULES.alive_s,
    (Server.LOADING, Kind.UNKNOWN): RULES.alive_s,
    (Server.DOWN, Kind.LIVE): RULES.stuck_s,
    (Server.DOWN, Kind.UNKNOWN): RULES.stuck_s,
}


@pytest.mark.parametrize("case", AHEAD_S, ids=lambda case: f"{case[0]}-{case[1]}")
@pytest.mark.parametrize("mine", [Data(), MINE, log()], ids=lambda data: data.kind)
def test_a_copy_is_or_may_be_ahead(case: tuple[Server, Kind], mine: Data) -> None:
    server, kind = case
    data = {Kind.LIVE: live(), Kind.SNAPSHOT: snapshot(900), Kind.UNKNOWN: UNKNOWN}[kind]
    heard = told(replica(data, server=server))
    if mine.kind is Kind.LOG and kind is Kind.SNAPSHOT:
        assert after(primary(mine), heard, AT_ONCE).warning is False, "a log has more than any snapshot"
        return
    assert after(primary(mine), heard, AHEAD_S[case]).warning


def test_nobody_can_be_ahead_of_a_full_log() -> None:
    assert after(primary(log(full=True)), told(replica(UNKNOWN, server=Server.LOADING)), AT_ONCE).warning is False


def test_a_copy_that_does_not_tell_is_named() -> None:
    verdict = decide(primary(Data()), told(replica(UNKNOWN, server=Server.LOADING)), 0.0)
    assert "s0-1 (server loading) doesn't tell what it has, which may be newer than its own data (nothing)" in str(
        verdict
    )
