"""What a server that doesn't run has left on its disk: its place in the cluster, and the data that it would load."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from valkeyctl.agent.rdb import HEAD_BYTES, Head, read_head
from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Tale
from valkeyctl.dataplane import wire
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.view import Peer, Role

NODE_TABLE, SNAPSHOT = "nodes.conf", "dump.rdb"
LOG_FOLDER, LOG_MANIFEST = "appendonlydir", "appendonly.aof.manifest"

MemberNamed = Callable[[str], Member | None]
"""The member whose server announces this host name; None for a name that isn't the instance's."""


class Unreadable(ValueError):  # noqa: N818  (what it is, not what went wrong)
    """There is a node table, and it isn't understood, so that nothing can be told of this member."""


def read_disk(folder: Path, member: Member, member_named: MemberNamed, *, appendonly: bool, always: bool) -> Tale:
    """The tale of `member` while its server is down, out of the server's folder; the tale of a new node if it is empty.

    `appendonly` and `always` are what the server will be started with: one with `appendonly yes` loads its log and
    nothing else, any other its snapshot; `always` says that `appendfsync` is so. `held` is the caller's to add.

    Raises Unreadable, and OSError where the disk fails.
    """
    table = _read(folder / NODE_TABLE)
    if not table.strip():
        return Tale(member, data=_data(folder, Role.PRIMARY, appendonly=appendonly, always=always))
    try:
        epoch = _current_epoch(table)
        me, others = wire.node_table("\n".join(line for line in table.splitlines() if not line.startswith("vars ")))
    except (ValueError, IndexError, KeyError) as error:
        raise Unreadable(f"{NODE_TABLE} isn't understood: {error}") from error
    return Tale(
        member=member,
        node_id=me.node_id,
        role=me.role,
        primary_id=me.primary_id,
        slots=me.slots,
        config_epoch=me.config_epoch,
        current_epoch=epoch,
        data=_data(folder, me.role, appendonly=appendonly, always=always),
        owners=owners(others, member_named),
        followers=followers(me, others, member_named),
    )


def owners(others: Mapping[str, Peer], member_named: MemberNamed) -> tuple[Owner, ...]:
    """Those of the other nodes that own slots."""
    return tuple(
        Owner(peer.node_id, member_named(peer.host), peer.config_epoch, peer.slots)
        for peer in others.values()
        if peer.slots
    )


def followers(me: Peer, others: Mapping[str, Peer], member_named: MemberNamed) -> tuple[Follower, ...]:
    """Those of the other nodes that are replicas in the shard of `me`."""
    shard = me.primary_id or me.node_id
    return tuple(
        Follower(peer.node_id, member_named(peer.host), peer.primary_id)
        for peer in others.values()
        if peer.role is Role.REPLICA and peer.primary_id == shard
    )


def persistence(*files: str) -> tuple[bool, bool]:
    """What texts of valkey.conf say of `appendonly` and `appendfsync always`; of several entries the last one holds."""
    said = {"appendonly": "no", "appendfsync": "everysec"}
    for line in (line for text in files for line in text.splitlines()):
        name, _, value = line.strip().partition(" ")
        if name.lower() in said:
            said[name.lower()] = value.strip().strip("\"'").lower()
    return said["appendonly"] == "yes", said["appendfsync"] == "always"


def _data(folder: Path, role: Role, *, appendonly: bool, always: bool) -> Data:
    if not appendonly:
        return _snapshot(folder / SNAPSHOT, role)
    return _log(folder / LOG_FOLDER, role, Kind.FULL_LOG if always else Kind.LOG)


def _snapshot(file: Path, role: Role) -> Data:
    try:
        with file.open("rb") as opened:
            head = read_head(opened.read(HEAD_BYTES))
            written_at = os.fstat(opened.fileno()).st_mtime
    except FileNotFoundError:
        return Data()
    if role is Role.REPLICA and _is_no_copy(head):
        return Data()
    return Data(Kind.SNAPSHOT, head.replication_id, head.offset, written_at)


def _log(folder: Path, role: Role, kind: Kind) -> Data:
    """The parts of a log are named in its manifest: a snapshot to begin with, and files that it grew by since."""
    words = [line.split() for line in _read(folder / LOG_MANIFEST).splitlines()]
    names = [word[1] for word in words if len(word) >= 6 and word[0] == "file" and word[5] != "h"]
    parts = [folder / name for name in names if (folder / name).exists()]
    if not parts:
        return Data()
    if role is Role.REPLICA and all(_has_nothing(part) for part in parts):
        return Data()
    return Data(kind, written_at=max(part.stat().st_mtime for part in parts))


def _has_nothing(part: Path) -> bool:
    with part.open("rb") as opened:
        start = opened.read(HEAD_BYTES)
    return not start or read_head(start).empty


def _is_no_copy(head: Head) -> bool:
    """Whether a replica's snapshot is that of a server that never followed anybody: empty, and without a place."""
    return head.empty and head.offset is None


def _current_epoch(table: str) -> int:
    words = next(line for line in [*table.splitlines(), "vars"] if line.startswith("vars")).split()
    pairs = dict(zip(words[1::2], words[2::2], strict=True))
    return int(pairs["currentEpoch"])


def _read(file: Path) -> str:
    """The text of a file, "" when there is none."""
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
