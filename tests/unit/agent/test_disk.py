"""What a stopped server's folder tells, and what it doesn't."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valkeyctl.agent.disk import Unreadable, persistence, read_disk
from valkeyctl.agent.rdb import Head, read_head
from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Tale
from valkeyctl.dataplane.model import Member, member_of_host
from valkeyctl.dataplane.slots import SlotSet
from valkeyctl.dataplane.view import Role

ME, REPLICA, OTHER = Member(0, 0), Member(0, 1), Member(1, 0)
A, B, C, STREAM = "a" * 40, "b" * 40, "c" * 40, "d" * 40
TABLE = f"""\
{B} 10.0.0.2:6379@16379,t-s0-1.t-headless.x.svc,tls-port=0,shard-id={"1" * 40} slave {A} 0 1795987330043 4 connected
{C} 10.0.0.3:6379@16379,t-s1-0.t-headless.x.svc,tls-port=0,shard-id={"2" * 40} master - 0 1795987330242 2 connected 5461-16383
{A} 10.0.0.1:6379@16379,t-s0-0.t-headless.x.svc,tls-port=0,shard-id={"1" * 40} myself,master - 0 0 4 connected 0-5460
vars currentEpoch 5 lastVoteEpoch 4
"""  # noqa: E501  (as the server writes it)
# A snapshot as 9.1 wrote it: version, bits, time, memory, stream, offset 760, then a database with keys.
HEAD = (
    b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\x83\x97\x0ck\xfa\x08used-mem\xc2(\x01-\x00"
    b"\xfa\x0erepl-stream-db\xc0\x00\xfa\x07repl-id(" + STREAM.encode() + b"\xfa\x0brepl-offset\xc1\xf8\x02"
    b"\xfa\x08aof-base\xc0\x00"
)
KEYS = b"\xfe\x00\xfb\x14\x00"
END = b"\xff\x9e.\xa0\x91g\xd4\xcd\xb9"
NO_PLACE = b"REDIS0011\xfa\nvalkey-ver\x058.1.8\xfa\x08aof-base\xc0\x01"


def named(host: str) -> Member | None:
    return member_of_host("t", host)


def told(folder: Path, *, appendonly: bool = False, always: bool = False) -> Tale:
    return read_disk(folder, ME, named, appendonly=appendonly, always=always)


def as_replica(folder: Path) -> None:
    text = TABLE.replace("myself,master -", f"myself,slave {B}").replace(f"slave {A}", "master -")
    (folder / "nodes.conf").write_text(text)


def log_of(folder: Path, base: bytes, grown: bytes) -> Path:
    log = folder / "appendonlydir"
    log.mkdir()
    (log / "appendonly.aof.1.base.rdb").write_bytes(base)
    (log / "appendonly.aof.1.incr.aof").write_bytes(grown)
    (log / "appendonly.aof.manifest").write_text(
        "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    return log


def test_an_empty_folder_is_that_of_a_new_node(tmp_path: Path) -> None:
    assert told(tmp_path) == told(tmp_path, appendonly=True) == Tale(ME)


def test_an_empty_node_table_is_that_of_a_new_node(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").touch()
    assert told(tmp_path) == Tale(ME)


def test_the_node_table_tells_the_place_of_the_node_and_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text(TABLE)
    assert told(tmp_path) == Tale(
        ME,
        node_id=A,
        role=Role.PRIMARY,
        slots=SlotSet.span(0, 5460),
        config_epoch=4,
        current_epoch=5,
        owners=(Owner(C, OTHER, 2, SlotSet.span(5461, 16383)),),
        followers=(Follower(B, REPLICA, A),),
    )


def test_a_replica_names_its_primary_and_its_fellows_only(tmp_path: Path) -> None:
    as_replica(tmp_path)
    tale = told(tmp_path)
    assert (tale.role, tale.primary_id, tale.followers) == (Role.REPLICA, B, ())


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\n",
        TABLE.replace("vars currentEpoch 5 lastVoteEpoch 4\n", ""),
        TABLE.replace("currentEpoch 5", "currentEpoch x"),
        TABLE.replace("myself,", ""),
        TABLE[:200],
    ],
)
def test_a_node_table_that_is_not_understood_is_never_that_of_a_new_node(tmp_path: Path, text: str) -> None:
    (tmp_path / "nodes.conf").write_text(text)
    with pytest.raises(Unreadable):
        told(tmp_path)


def test_a_snapshot_tells_its_place_in_the_stream(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text(TABLE)
    (tmp_path / "dump.rdb").write_bytes(HEAD + KEYS)
    os.utime(tmp_path / "dump.rdb", (1500, 1500))
    assert told(tmp_path).data == Data(Kind.SNAPSHOT, STREAM, 760, 1500)


def test_a_server_with_a_log_loads_no_snapshot_and_one_without_loads_no_log(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text(TABLE)
    (tmp_path / "dump.rdb").write_bytes(HEAD + KEYS)
    assert told(tmp_path, appendonly=True).data == Data()
    log_of(tmp_path, NO_PLACE + END, b"*1\r\n")
    assert told(tmp_path, appendonly=True).data.kind is Kind.LOG
    assert told(tmp_path, appendonly=True, always=True).data.kind is Kind.FULL_LOG
    assert told(tmp_path).data.kind is Kind.SNAPSHOT


def test_a_log_tells_when_it_was_last_written_to(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text(TABLE)
    log = log_of(tmp_path, NO_PLACE + END, b"*1\r\n")
    os.utime(log / "appendonly.aof.1.base.rdb", (1000, 1000))
    os.utime(log / "appendonly.aof.1.incr.aof", (2000.5, 2000.5))
    (log / "temp-rewrite.aof").touch()
    assert told(tmp_path, appendonly=True).data == Data(Kind.LOG, written_at=2000.5)


def test_files_of_a_replica_that_never_followed_anybody_are_worth_nothing(tmp_path: Path) -> None:
    as_replica(tmp_path)
    (tmp_path / "dump.rdb").write_bytes(NO_PLACE + END)
    log_of(tmp_path, NO_PLACE + END, b"")
    assert told(tmp_path).data == told(tmp_path, appendonly=True).data == Data()


@pytest.mark.parametrize(("base", "grown"), [(NO_PLACE + KEYS, b""), (NO_PLACE + END, b"*1\r\n"), (HEAD[:50], b"")])
def test_files_of_a_replica_that_hold_something_count(tmp_path: Path, base: bytes, grown: bytes) -> None:
    as_replica(tmp_path)
    (tmp_path / "dump.rdb").write_bytes(HEAD + END)
    log_of(tmp_path, base, grown)
    assert told(tmp_path).data.offset == 760
    assert told(tmp_path, appendonly=True).data.kind is Kind.LOG


def test_an_empty_log_of_a_primary_is_all_that_it_ever_acknowledged(tmp_path: Path) -> None:
    (tmp_path / "nodes.conf").write_text(TABLE)
    log_of(tmp_path, NO_PLACE + END, b"")
    assert told(tmp_path, appendonly=True, always=True).data.kind is Kind.FULL_LOG


@pytest.mark.parametrize(
    ("start", "head"),
    [
        (HEAD + KEYS, Head(STREAM, 760)),
        (HEAD + END, Head(STREAM, 760, empty=True)),
        (NO_PLACE + END, Head(empty=True)),
        (b"REDIS0011\xfa\x0brepl-offset\x05-7777\xff", Head("", -7777, empty=True)),
        (b"REDIS0011\xfa\x0brepl-offset\xc0\xff\xff", Head("", -1, empty=True)),
        (b"REDIS0011\xfa\x40\x0brepl-offset\xc2\x00\x00\x01\x00\xff", Head("", 65536, empty=True)),
        (b"REDIS0011\xfa\x80\x00\x00\x00\x07repl-id\x03abc\xfe", Head("abc")),
        (b"", Head()),
        (b"REDIS0011", Head()),
        (HEAD[:60], Head()),
        (b"PK\x03\x04", Head()),
        (b"REDIS0011\xfa\x01a\xc3\x01\xff", Head()),
        (b"REDIS0011\xfa\x0brepl-offset\x01x\xff", Head()),
    ],
)
def test_the_head_of_a_snapshot(start: bytes, head: Head) -> None:
    assert read_head(start) == head


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_nonsense_in_a_snapshot_tells_no_place(tail: bytes) -> None:
    read = read_head(b"VALKEY080" + tail)
    assert read.offset is None or b"repl-offset" in tail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", (False, False)),
        ('appendonly "yes"\n', (True, False)),
        ("appendonly yes\nappendfsync always\n", (True, True)),
        ('  AppendOnly "YES"\nappendfsync "everysec"', (True, False)),
        ("appendonly yes\nappendonly no\n# appendonly yes", (False, False)),
        ("appendonly-x yes", (False, False)),
    ],
)
def test_what_the_configuration_says_of_persistence(text: str, said: tuple[bool, bool]) -> None:
    assert persistence(text) == said


def test_of_several_files_the_last_one_holds() -> None:
    assert persistence("appendonly no", "appendonly yes\nappendfsync always") == (True, True)
