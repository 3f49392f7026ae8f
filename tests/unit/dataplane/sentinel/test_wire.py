"""What Sentinels and servers answer is read into records; nonsense is told from it and never believed."""

from __future__ import annotations

import pytest

from valkeyctl.dataplane import Endpoint, Member, Role
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.sentinel import wire
from valkeyctl.dataplane.sentinel.model import Parameters, sentinel

AT = Endpoint(sentinel(0), "t-sentinel-0", "t-sentinel-0.t", "10.1.0.1", 26379)
SERVER_AT = Endpoint(Member(0, 1), "t-s0-1", "t-s0-1.t", "10.0.0.1")
ID, OTHER = b"a" * 40, b"b" * 40
INFO = b"# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n# Sentinel\r\nsentinel_tilt:0\r\n"
MASTER = (
    b"name orders ip t-s0-0.t port 6379 runid x flags s_down,o_down,master,failover_in_progress,disconnected "
    b"failover-state reconf_slaves down-after-milliseconds 2000 config-epoch 7 quorum 2 failover-timeout 9000 "
    b"parallel-syncs 3 last-ok-ping-reply 20"
).split()
REPLICA = (
    b"ip t-s0-1.t port 6379 runid y flags slave,s_down last-ok-ping-reply 30 info-refresh 40 slave-priority 100 "
    b"slave-repl-offset 55 master-link-down-time 60"
).split()
PEER = [b"ip", b"10.1.0.2", b"port", b"26379", b"runid", OTHER, b"flags", b"sentinel", b"last-hello-message", b"70"]
REPLIES: list[object] = [INFO, ID, MASTER, [REPLICA], [PEER], b"OK 2 usable Sentinels."]
REPLICATION = (
    b"valkey_version:8.1.8\r\nloading:0\r\nasync_loading:0\r\nrole:slave\r\nmaster_host:t-s0-0.t\r\nmaster_port:6379\r\n"
    b"master_link_status:up\r\nmaster_sync_in_progress:0\r\nslave_repl_offset:12\r\nmaster_repl_offset:12\r\n"
    b"master_failover_state:no-failover\r\n"
)
PRIORITY = [b"replica-priority", b"100"]


def test_a_sentinel_s_answers() -> None:
    told = wire.sentinel_view(AT, REPLIES, {})
    assert (told.sentinel_id, told.version, told.in_tilt, told.reaches_quorum) == ("a" * 40, "9.1.2", False, True)
    monitored = told.monitored
    assert monitored is not None
    assert monitored.address == Address("t-s0-0.t", 6379)
    assert (monitored.config_epoch, monitored.quorum, monitored.parameters) == (7, 2, Parameters(2000, 9000, 3))
    assert (monitored.down, monitored.agreed_down) == (True, True)
    assert (monitored.linked, monitored.failing_over, monitored.answered_ms) == (False, True, 20)
    assert monitored.failover_state == "reconf_slaves"
    (replica,) = told.replicas
    assert (replica.address, replica.down, replica.linked) == (Address("t-s0-1.t", 6379), True, True)
    assert (replica.answered_ms, replica.told_ms, replica.link_down_ms, replica.offset) == (30, 40, 60, 55)
    (other,) = told.others
    assert (other.sentinel_id, other.heard_ms, other.down, other.linked) == ("b" * 40, 70, False, True)


def test_what_a_sentinel_may_refuse() -> None:
    unknown = "the server answered: No such master with that name"
    told = wire.sentinel_view(AT, [INFO, ID, None, None, None, None], dict.fromkeys(range(2, 6), unknown))
    assert told.monitored is None
    few = "the server answered: NOQUORUM 1 usable Sentinels. Not enough"
    assert wire.may_be_refused(5, few)
    assert wire.sentinel_view(AT, [*REPLIES[:5], None], {5: few}).quorum_told == "1 usable Sentinels. Not enough"
    assert not wire.may_be_refused(5, "the server answered: something else")
    assert not wire.may_be_refused(1, unknown)


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("nonsense", [b"nonsense", 7, None, [b"odd"], [[b"odd"]], [b"a", b"b"]])
def test_nonsense_from_a_sentinel(index: int, nonsense: object) -> None:
    replies = [*REPLIES[:index], nonsense, *REPLIES[index + 1 :]]
    with pytest.raises((ValueError, LookupError)):
        wire.sentinel_view(AT, replies, {})


def test_a_server_s_answers() -> None:
    told = wire.server_view(SERVER_AT, [REPLICATION, PRIORITY])
    assert told is not None
    assert (told.role, told.primary, told.priority, told.offset) == (Role.REPLICA, Address("t-s0-0.t", 6379), 100, 12)
    assert told.link is not None
    assert told.link.up
    primary = REPLICATION.replace(b"role:slave", b"role:master").replace(b"no-failover", b"waiting-for-sync")
    told = wire.server_view(
        SERVER_AT, [primary + b"slave0:ip=t-s0-1.t,port=6379,state=online\r\nslave_priority:1\r\n", PRIORITY]
    )
    assert told is not None
    assert (told.role, told.followers, told.failing_over) == (Role.PRIMARY, (Address("t-s0-1.t", 6379),), True)
    assert wire.server_view(SERVER_AT, [REPLICATION.replace(b"\nloading:0", b"\nloading:1"), PRIORITY]) is None


@pytest.mark.parametrize("replies", [[b"", PRIORITY], [REPLICATION, []], [REPLICATION, b"100"], [7, PRIORITY]])
def test_nonsense_from_a_server(replies: list[object]) -> None:
    with pytest.raises((ValueError, LookupError)):
        wire.server_view(SERVER_AT, replies)
