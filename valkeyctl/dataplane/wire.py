"""The words of the wire: what servers answer, read into our records. Nowhere else are they known.

Formats: https://valkey.io/commands/cluster-nodes/, /cluster-info/, /info/. Answers are read tolerantly (unknown
fields are passed over) and never trusted: whatever can't be read raises ValueError, KeyError or IndexError, for the
caller to turn into NotUnderstood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from valkeyctl.dataplane.model import Endpoint
from valkeyctl.dataplane.slots import EMPTY, SlotSet, union
from valkeyctl.dataplane.view import Job, JobState, NodeView, Peer, ReplicaLink, Role

if TYPE_CHECKING:
    # The agent reads answers without valkey-py, which the session speaks with.
    from valkeyctl.dataplane.session import Command

WHO: Command = ("CLUSTER", "NODES")
OBSERVATION: tuple[Command, ...] = (
    WHO,
    ("CLUSTER", "INFO"),
    ("INFO", "server", "replication", "persistence", "keyspace"),
)
#: Only servers of 9.0 and newer know it.
DATABASES: Command = ("INFO", "keyspace")
JOBS: Command = ("CLUSTER", "GETSLOTMIGRATIONS")
DATASET: Command = ("INFO", "memory", "keyspace")
NODE_TIMEOUT: Command = ("CONFIG", "GET", "cluster-node-timeout")
_JOB_ENDS = {
    "success": JobState.DONE,
    "failed": JobState.FAILED,
    "cancelled": JobState.FAILED,
    "canceled": JobState.FAILED,
}
_NOBODY = "-"
#: What a server of a cluster that has no key calls its dataset (measured on 8.1 and 9.1: 246 to 307 KB).
_EMPTY_DATASET_BYTES = 250_000
_DATABASE = re.compile(r"db\d+")


class StillLoading(Exception):  # noqa: N818  (what it is, not what went wrong)
    """The server reads its dataset from disk or from its primary; `node_id` is its id."""

    def __init__(self, node_id: str) -> None:
        super().__init__(node_id)
        self.node_id = node_id


def node_view(endpoint: Endpoint, replies: Sequence[bytes], node_timeout: object = None) -> NodeView:
    """One server's view out of its answers to OBSERVATION, and to NODE_TIMEOUT where that was asked.

    Raises StillLoading for a server that isn't ready to be judged, ValueError, KeyError or IndexError for nonsense.
    """
    nodes = _nodes(replies[0].decode())
    cluster, info = _fields(replies[1].decode()), _fields(replies[2].decode())
    me = nodes.myself
    if info["loading"] != "0" or info.get("async_loading", "0") != "0":
        raise StillLoading(me.node_id)
    replica = info["role"] == "slave"
    databases = {name: text for name, text in info.items() if _DATABASE.fullmatch(name)}
    return NodeView(
        endpoint=endpoint,
        node_id=me.node_id,
        role=me.role,
        primary_id=me.primary_id,
        slots=me.slots,
        config_epoch=me.config_epoch,
        current_epoch=int(cluster["cluster_current_epoch"]),
        state_ok=cluster["cluster_state"] == "ok",
        version=info.get("valkey_version") or info["redis_version"],
        keys=_all_keys(info),
        offset=int(info["slave_repl_offset"] if replica else info["master_repl_offset"]),
        replication_id=info["master_replid"],
        link=_link(info) if replica else None,
        peers=nodes.peers,
        migrating=nodes.migrating,
        importing=nodes.importing,
        node_timeout_ms=_config_number(node_timeout),
        other_databases=any(name != "db0" and _keys(text) for name, text in databases.items()),
    )


def jobs(reply: object) -> tuple[Job, ...]:
    """The moves of slots in a server's answer to JOBS, newest first.

    A replica only tracks those of its primary, without the other end; they are left out. Raises ValueError, KeyError or
    IndexError for nonsense.
    """
    if not isinstance(reply, list):
        raise ValueError("an answer of another kind")  # noqa: TRY004  (nonsense from outside is a value)
    found: list[Job] = []
    for entry in cast("list[list[bytes | int]]", reply):
        texts = [part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in entry]
        told = dict(zip(texts[::2], texts[1::2], strict=True))
        gives = told["operation"].upper() == "EXPORT"
        other = told.get("target_node" if gives else "source_node", "")
        if not other:
            continue
        found.append(
            Job(
                name=told["name"],
                gives=gives,
                other_id=other,
                slots=union(_span(part) for part in told["slot_ranges"].split()),
                state=_JOB_ENDS.get(told["state"].lower(), JobState.RUNNING),
                message=told.get("message", ""),
            )
        )
    return tuple(found)


def numbers(replies: Sequence[object]) -> list[int]:
    """Answers that are numbers, as to `count_keys`. Raises ValueError for nonsense."""
    found = [reply for reply in replies if isinstance(reply, int)]
    if len(found) != len(replies):
        raise ValueError("an answer of another kind")
    return found


def bytes_per_key(told: object) -> float:
    """How large a server's keys are on average, with their values, by its answer to DATASET; 0 where it has none.

    Raises ValueError or LookupError for nonsense.
    """
    if not isinstance(told, bytes):
        raise ValueError("an answer of another kind")  # noqa: TRY004  (nonsense from outside is a value)
    info = _fields(told.decode())
    dataset, keys = int(info["used_memory_dataset"]), _all_keys(info)
    return max(0, dataset - _EMPTY_DATASET_BYTES) / keys if keys else 0.0


def is_replica(told: bytes) -> bool:
    """Whether a server calls itself a replica in its answer to WHO."""
    return _nodes(told.decode()).myself.role is Role.REPLICA


def is_empty_primary(who: object, databases: object) -> bool:
    """Whether a server is a primary without slots and without a key, by its answers to WHO and DATABASES."""
    if not (isinstance(who, bytes) and isinstance(databases, bytes)):
        return False
    me = _nodes(who.decode()).myself
    return me.role is Role.PRIMARY and not me.slots and not any(map(_DATABASE.fullmatch, _fields(databases.decode())))


def node_table(text: str) -> tuple[Peer, Mapping[str, Peer]]:
    """A server itself and the other nodes, by id, out of its answer to WHO or the same lines in a file on its disk.

    Raises ValueError or IndexError for nonsense.
    """
    nodes = _nodes(text)
    return nodes.myself, nodes.peers


def count_keys(slot: int) -> Command:
    """Ask how many keys a server holds in a slot."""
    return ("CLUSTER", "COUNTKEYSINSLOT", slot)


@dataclass(frozen=True)
class _Nodes:
    myself: Peer
    peers: Mapping[str, Peer]
    migrating: Mapping[int, str]
    importing: Mapping[int, str]


def _nodes(text: str) -> _Nodes:
    """Read CLUSTER NODES.

    A line is `<id> <ip:port@bus[,hostname]> <flags> <primary id or -> <ping sent> <pong received> <epoch> <link>
    <slots…>`; the teller's own line also has its open slots, as `[slot->-id]` and `[slot-<-id]`.
    """
    myself: Peer | None = None
    peers: dict[str, Peer] = {}
    migrating: dict[int, str] = {}
    importing: dict[int, str] = {}
    for line in text.splitlines():
        if not line:
            continue
        head = line.split(" ", 8)
        node_id, address, flags, primary, _ping, _pong, epoch, link = head[:8]
        slots = head[8] if len(head) > 8 else ""
        if "myself" not in flags:
            peer = _peer((node_id, address, flags, primary, epoch, link, slots))
            peers[peer.node_id] = peer
            continue
        settled = [part for part in slots.split() if not part.startswith("[")]
        myself = _peer((node_id, address, flags, primary, epoch, link, " ".join(settled)))
        for part in slots.split():
            if part.startswith("["):
                arrow = "->-" if "->-" in part else "-<-"
                slot, _, other = part.strip("[]").partition(arrow)
                if len(other) != len(node_id):
                    raise ValueError("an open slot names the node at its other end")
                (migrating if arrow == "->-" else importing)[int(slot)] = other
    if myself is None:
        raise ValueError("the server doesn't name itself among its nodes")
    return _Nodes(myself, peers, migrating, importing)


# Most nodes are known to all others in the same words, and are so at every observation.
@lru_cache(maxsize=1 << 15)
def _peer(told: tuple[str, str, str, str, str, str, str]) -> Peer:
    node_id, address, flags, primary, epoch, link, slots = told
    if len(node_id) != 40:
        raise ValueError("a node id has 40 characters")
    where, *names = address.split(",")
    ip_and_port, _, bus = where.partition("@")
    ip, _, port = ip_and_port.rpartition(":")
    words = set(flags.split(","))
    if not words & {"master", "slave", "handshake", "noflags"}:
        raise ValueError("a node has a role")
    return Peer(
        node_id=node_id,
        role=Role.REPLICA if "slave" in words else Role.PRIMARY,
        primary_id="" if primary == _NOBODY else primary,
        address="" if "noaddr" in words else ip,
        port=int(port),
        bus_port=int(bus or 0),
        host=names[0] if names and "=" not in names[0] else "",
        config_epoch=int(epoch),
        slots=union(_span(part) for part in slots.split()) if slots else EMPTY,
        linked=link == "connected",
        failed="fail" in words,
        suspect="fail?" in words,
        handshake="handshake" in words,
    )


@lru_cache(maxsize=1 << 12)
def _span(text: str) -> SlotSet:
    first, dash, last = text.partition("-")
    return SlotSet.span(int(first), int(last if dash else first))


def _fields(text: str) -> dict[str, str]:
    """Read the `name:value` lines of INFO and CLUSTER INFO."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value.strip() for name, colon, value in pairs if colon}


def _all_keys(info: Mapping[str, str]) -> int:
    """The keys of all databases, in INFO's section `keyspace`."""
    return sum(_keys(text) for name, text in info.items() if _DATABASE.fullmatch(name))


def _keys(text: str) -> int:
    counted = next(part for part in text.split(",") if part.startswith("keys="))
    return int(counted.removeprefix("keys="))


def _link(info: Mapping[str, str]) -> ReplicaLink:
    return ReplicaLink(
        up=info["master_link_status"] == "up",
        syncing=info["master_sync_in_progress"] == "1",
        # -1: never up since this server started; the field is there only while the link is down.
        was_up=info["master_link_status"] == "up" or int(info.get("master_link_down_since_seconds", "-1")) >= 0,
    )


def _config_number(reply: object) -> int | None:
    """The value in an answer to CONFIG GET of one setting; None where it wasn't asked."""
    if not isinstance(reply, list):
        return None
    name_and_value: list[bytes] = reply
    return int(name_and_value[1])
