"""What servers say of their replication, read into our records: the words of 9.1 and 8.1 as they were answered."""

from __future__ import annotations

import pytest

from valkeyctl.dataplane import Endpoint, Member, Role
from valkeyctl.dataplane.model import Address
from valkeyctl.dataplane.replication import wire
from valkeyctl.dataplane.replication.view import Handover, History, ListedReplica
from valkeyctl.dataplane.view import ReplicaLink

HERE = Endpoint(Member(0, 0), "t-s0-0", "t-s0-0.headless.test.svc", "10.0.0.1")
ID, OTHER, NONE = "a" * 40, "b" * 40, "0" * 40
PRIMARY = {
    "redis_version": "7.2.4",
    "valkey_version": "9.1.2",
    "run_id": "r1",
    "uptime_in_seconds": "71",
    "loading": "0",
    "async_loading": "0",
    "aof_enabled": "1",
    "role": "master",
    "connected_slaves": "2",
    "slave0": "ip=t-s0-1.headless.test.svc,port=6379,state=online,offset=140,lag=0,type=replica",
    "slave1": "ip=10.0.0.3,port=6380,state=wait_bgsave,offset=0,lag=-1,type=replica",
    "master_failover_state": "no-failover",
    "master_replid": ID,
    "master_replid2": NONE,
    "master_repl_offset": "154",
    "second_repl_offset": "-1",
    "repl_backlog_active": "1",
    "cluster_enabled": "0",
    "db0": "keys=3,expires=1,avg_ttl=0",
    "db7": "keys=4,expires=0,avg_ttl=0",
}
REPLICA = {
    **{name: value for name, value in PRIMARY.items() if not name.startswith("slave")},
    "role": "slave",
    "connected_slaves": "0",
    "master_host": "t-s0-1.headless.test.svc",
    "master_port": "6379",
    "master_link_status": "up",
    "master_sync_in_progress": "0",
    "slave_repl_offset": "140",
    "master_replid2": OTHER,
    "second_repl_offset": "51",
}


def read(fields: dict[str, str], announced: object = None) -> wire.ServerView:
    text = "# Server\r\n" + "\r\n".join(f"{name}:{value}" for name, value in fields.items())
    return wire.server_view(HERE, text.encode(), announced or [b"replica-announce-ip", b"t-s0-0.headless.test.svc"])


def test_a_primary() -> None:
    node = read(PRIMARY)
    assert (node.role, node.version, node.run_id, node.keys, node.uptime_s) == (Role.PRIMARY, "9.1.2", "r1", 7, 71)
    assert node.history == History(ID, 154)
    assert (node.upstream, node.link, node.handover) == (None, None, Handover.NONE)
    assert node.replicas == (
        ListedReplica(Address("t-s0-1.headless.test.svc", 6379), online=True, offset=140, lag_s=0),
        ListedReplica(Address("10.0.0.3", 6380), online=False, offset=0, lag_s=None),
    )
    assert node.announces == HERE.host
    assert node.has_log
    assert node.established
    assert not node.cluster_mode


def test_a_replica_and_where_its_stream_comes_from() -> None:
    node = read(REPLICA)
    assert (node.role, node.upstream) == (Role.REPLICA, Address("t-s0-1.headless.test.svc", 6379))
    assert node.link == ReplicaLink(up=True, syncing=False, was_up=True)
    # The server names the first byte that is not the other stream's any more.
    assert node.history == History(ID, 140, OTHER, 50)
    assert node.cut_off_s is None
    assert node.placed


@pytest.mark.parametrize(("seconds", "was_up", "cut_off_s"), [("-1", False, None), ("0", True, 0), ("7", True, 7)])
def test_a_link_that_is_down(seconds: str, cut_off_s: int | None, *, was_up: bool) -> None:
    node = read({**REPLICA, "master_link_status": "down", "master_link_down_since_seconds": seconds})
    assert node.link == ReplicaLink(up=False, syncing=False, was_up=was_up)
    assert node.cut_off_s == cut_off_s


@pytest.mark.parametrize("offset", ["0", "1"])
def test_a_replica_without_a_place_in_the_stream_has_none(offset: str) -> None:
    """The server then says 1, whatever it once had."""
    node = read({**REPLICA, "slave_repl_offset": offset})
    assert not node.placed
    assert node.has_data, "it holds keys"
    assert not read({**REPLICA, "slave_repl_offset": offset, "db0": "keys=0", "db7": "keys=0"}).has_data


@pytest.mark.parametrize(
    ("word", "handover"), [("waiting-for-sync", Handover.WAITING), ("failover-in-progress", Handover.RUNNING)]
)
def test_a_handover_under_way(word: str, handover: Handover) -> None:
    assert read({**PRIMARY, "master_failover_state": word}).handover is handover


def test_a_server_in_cluster_mode_is_told_apart() -> None:
    assert read({**PRIMARY, "cluster_enabled": "1"}).cluster_mode


@pytest.mark.parametrize("field", ["loading", "async_loading"])
def test_a_loading_server_is_not_judged(field: str) -> None:
    with pytest.raises(wire.StillLoading):
        read({**PRIMARY, field: "1"})


@pytest.mark.parametrize(
    ("fields", "announced"),
    [
        ({"role": "master"}, None),
        ({**PRIMARY, "master_repl_offset": "many"}, None),
        ({**PRIMARY, "slave0": "who knows"}, None),
        ({**PRIMARY, "master_failover_state": "odd"}, None),
        (PRIMARY, [b"replica-announce-ip"]),
        (PRIMARY, [b"replica-announce-ip", 7]),
        (PRIMARY, 7),
    ],
)
def test_nonsense_is_no_answer(fields: dict[str, str], announced: object) -> None:
    with pytest.raises((ValueError, LookupError)):
        read(fields, announced)
