"""What servers answer, read into views; what they can't mean, refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.dataplane.views import S00, endpoint
from valkeyctl.dataplane import NodeView, Role, SlotSet, errors
from valkeyctl.dataplane.wire import StillLoading, is_empty_primary, is_replica, node_view

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
CLUSTER = b"cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:7\r\ncluster_my_epoch:3\r\n"
PRIMARY = (
    b"# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n\r\n# Persistence\r\nloading:0\r\nasync_loading:0\r\n"
    b"# Replication\r\nrole:master\r\nmaster_replid:r1\r\nmaster_replid2:0000\r\nmaster_repl_offset:42\r\n"
    b"second_repl_offset:-1\r\n# Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=0\r\ndb3:keys=2,expires=0,avg_ttl=0\r\n"
)
REPLICA = (
    b"redis_version:7.2.4\r\nvalkey_version:8.1.8\r\nloading:0\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n"
    b"master_link_status:down\r\nmaster_sync_in_progress:1\r\nmaster_link_down_since_seconds:3\r\nslave_repl_offset:40\r\n"
    b"master_replid:r1\r\nmaster_replid2:r0\r\nmaster_repl_offset:41\r\nsecond_repl_offset:9\r\n"
)


def seen(nodes: str, info: bytes = PRIMARY) -> NodeView:
    return node_view(endpoint(S00, "10.0.0.1"), [nodes.encode(), CLUSTER, info])


def test_reads_a_primary_and_whom_it_knows() -> None:
    view = seen(
        f"{A} 10.0.0.1:6379@16379,t-s0-0.x myself,master - 0 0 3 connected 0-99 200 [77->-{B}] [300-<-{C}]\n"
        f"{B} 10.0.0.2:6380@16380,t-s0-1.x,shard-id=e slave {A} 0 1 3 connected\n"
        f"{C} fd00::3:6379@16379 master,fail? - 1 1 2 disconnected 100-199 201-16383\n"
        f"{D} :0@0 master,noaddr,fail - 1 1 0 disconnected\n"
        f"{'e' * 40} 10.0.0.9:6379@16379 handshake - 0 0 0 disconnected\n"
    )
    assert (view.node_id, view.role, view.config_epoch, view.current_epoch, view.state_ok) == (
        A,
        Role.PRIMARY,
        3,
        7,
        True,
    )
    assert view.slots == SlotSet.parse("0-99,200")
    assert view.migrating == {77: B}
    assert view.importing == {300: C}
    assert (view.keys, view.offset, view.version, view.link) == (7, 42, "9.1.2", None)
    assert view.other_databases
    assert not seen(
        f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 3 connected\n", PRIMARY.replace(b"db3", b"db0")
    ).other_databases
    replica, suspect, gone, met = (view.peers[node_id] for node_id in (B, C, D, "e" * 40))
    assert (replica.role, replica.primary_id, replica.host, replica.linked) == (Role.REPLICA, A, "t-s0-1.x", True)
    assert (replica.address, replica.port, replica.bus_port) == ("10.0.0.2", 6380, 16380)
    assert (suspect.address, suspect.suspect, suspect.failed, suspect.linked) == ("fd00::3", True, False, False)
    assert suspect.slots == SlotSet.parse("100-199,201-16383")
    assert (gone.address, gone.failed, gone.suspect) == ("", True, False)
    assert met.handshake


def test_reads_a_replica_and_its_link() -> None:
    nodes = (
        f"{B} 10.0.0.2:6379@16379 myself,slave {A} 0 0 3 connected\n"
        f"{A} 10.0.0.1:6379@16379 master - 0 0 3 connected 0\n"
    )
    view = seen(nodes, REPLICA)
    assert (view.role, view.primary_id, view.offset, view.keys) == (Role.REPLICA, A, 40, 0)
    assert view.link is not None
    assert (view.link.up, view.link.syncing, view.link.was_up) == (False, True, True)
    never = REPLICA.replace(b"seconds:3", b"seconds:-1")
    assert seen(nodes, never).link == replace(view.link, was_up=False)
    assert is_replica(nodes.encode())


@pytest.mark.parametrize("flag", [b"loading:1", b"loading:0\r\nasync_loading:1"])
def test_a_loading_server_tells_its_id(flag: bytes) -> None:
    info = PRIMARY.replace(b"async_loading:0\r\n", b"").replace(b"loading:0", flag)
    with pytest.raises(StillLoading) as caught:
        seen(f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 3 connected\n", info)
    assert caught.value.node_id == A


@pytest.mark.parametrize(
    "nodes",
    [
        "",
        "nonsense",
        f"{A} 10.0.0.1:6379@16379 master - 0 0 3 connected\n",
        "short 10.0.0.1:6379@16379 myself,master - 0 0 3 connected\n",
        f"{A} 10.0.0.1@16379 myself,master - 0 0 3 connected\n",
        f"{A} 10.0.0.1:6379@16379 myself - 0 0 3 connected\n",
        f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 x connected\n",
        f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 3 connected a-b\n",
        f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 3 connected [7->-]x\n",
    ],
)
def test_nonsense_is_refused(nodes: str) -> None:
    with pytest.raises((ValueError, LookupError)):
        seen(nodes)


@pytest.mark.parametrize("info", [b"", b"role:master\r\n", PRIMARY.replace(b"keys=5", b"keys=many")])
def test_incomplete_facts_are_refused(info: bytes) -> None:
    with pytest.raises((ValueError, LookupError)):
        seen(f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 3 connected\n", info)


@pytest.mark.parametrize(
    ("who", "databases", "empty"),
    [
        ("master - 0 0 1 connected", "# Keyspace\r\n", True),
        ("master - 0 0 1 connected 5-9", "# Keyspace\r\n", False),
        ("master - 0 0 1 connected", "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n", False),
        ("master - 0 0 1 connected", "# Keyspace\r\ndb3:keys=1,expires=0,avg_ttl=0\r\n", False),
        (f"slave {'b' * 40} 0 0 1 connected", "# Keyspace\r\n", False),
    ],
)
def test_only_a_primary_without_slots_and_keys_is_empty(who: str, databases: str, empty: bool) -> None:  # noqa: FBT001
    told = f"{'a' * 40} 10.0.0.1:6379@16379,h myself,{who}\n".encode()
    assert is_empty_primary(told, databases.encode()) is empty
    assert not is_empty_primary(told, errors.NoAnswer("late"))
    assert not is_empty_primary(errors.NoAnswer("late"), databases.encode())
