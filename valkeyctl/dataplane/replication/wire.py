"""The words of the wire for one dataset: what servers answer, read into our records. Nowhere else are they known.

Format: https://valkey.io/commands/info/. Answers are read tolerantly (unknown fields are passed over) and never
trusted: whatever can't be read raises ValueError, KeyError or IndexError, for the caller to turn into NotUnderstood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from valkeyctl.dataplane.model import Address, Endpoint
from valkeyctl.dataplane.replication.view import Handover, History, ListedReplica, ServerView
from valkeyctl.dataplane.view import ReplicaLink, Role

if TYPE_CHECKING:
    # The agent reads answers without valkey-py, which the session speaks with.
    from valkeyctl.dataplane.session import Command

INFO: Command = ("INFO", "server", "replication", "persistence", "keyspace", "cluster")
ANNOUNCED: Command = ("CONFIG", "GET", "replica-announce-ip")
OBSERVATION: tuple[Command, ...] = (INFO, ANNOUNCED)
ROLE: Command = ("INFO", "replication")
#: To a replica: say now how far you are. Servers answer it to their primary alone, and to nobody else at all.
SAY_HOW_FAR: Command = ("REPLCONF", "GETACK", "*")

_DATABASE = re.compile(r"db\d+")
_LISTED = re.compile(r"slave\d+")
_HANDOVERS = {
    "no-failover": Handover.NONE,
    "waiting-for-sync": Handover.WAITING,
    "failover-in-progress": Handover.RUNNING,
}
_NO_PLACE = 1
"""What a replica without a place in its primary's stream says of it; whoever has one says more."""


class StillLoading(Exception):  # noqa: N818  (what it is, not what went wrong)
    """The server reads its dataset from disk or from its primary."""


def server_view(endpoint: Endpoint, info: object, announced: object) -> ServerView:
    """One server's view out of its answers to OBSERVATION.

    Raises StillLoading for a server that isn't ready to be judged, ValueError, KeyError or IndexError for nonsense.
    """
    if not isinstance(info, bytes) or not isinstance(announced, list):
        raise ValueError("an answer of another kind")  # noqa: TRY004  (nonsense from outside is a value)
    told = _fields(info.decode())
    if told["loading"] != "0" or told.get("async_loading", "0") != "0":
        raise StillLoading
    replica = told["role"] == "slave"
    return ServerView(
        endpoint=endpoint,
        role=Role.REPLICA if replica else Role.PRIMARY,
        run_id=told["run_id"],
        version=told.get("valkey_version") or told["redis_version"],
        keys=sum(_keys(text) for name, text in told.items() if _DATABASE.fullmatch(name)),
        history=_history(told, replica=replica),
        upstream=Address(told["master_host"], int(told["master_port"])) if replica else None,
        link=_link(told) if replica else None,
        replicas=tuple(_listed(text) for name, text in told.items() if _LISTED.fullmatch(name)),
        handover=_HANDOVERS[told.get("master_failover_state", "no-failover")],
        announces=_text(cast("list[object]", announced)[1]),
        uptime_s=int(told.get("uptime_in_seconds", "0")),
        cut_off_s=_cut_off_s(told),
        established=not replica and told.get("repl_backlog_active", "0") != "0",
        has_log=told.get("aof_enabled", "0") != "0",
        cluster_mode=told.get("cluster_enabled", "0") != "0",
    )


def is_primary(info: bytes) -> bool:
    """Whether a server calls itself a primary in its answer to ROLE."""
    return _fields(info.decode())["role"] != "slave"


def _history(told: Mapping[str, str], *, replica: bool) -> History:
    offset = int(told["slave_repl_offset"] if replica else told["master_repl_offset"])
    second = told["master_replid2"]
    return History(
        replication_id=told["master_replid"],
        offset=0 if replica and offset <= _NO_PLACE else max(0, offset),
        second_id=second if second.strip("0") else "",
        # The server tells the first byte that isn't the other stream's any more.
        second_end=max(0, int(told["second_repl_offset"]) - 1),
    )


def _link(told: Mapping[str, str]) -> ReplicaLink:
    up = told["master_link_status"] == "up"
    syncing = told["master_sync_in_progress"] == "1"
    return ReplicaLink(up=up, syncing=syncing, was_up=up or _cut_off_s(told) is not None)


def _cut_off_s(told: Mapping[str, str]) -> int | None:
    # -1: never up since this server started; the field is there only while the link is down.
    seconds = int(told.get("master_link_down_since_seconds", "-1"))
    return seconds if seconds >= 0 else None


def _listed(text: str) -> ListedReplica:
    """Read `ip=<address or name>,port=6379,state=online,offset=123,lag=0,…`; a lag of -1 is none yet."""
    parts = {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
    lag = int(parts.get("lag", "-1"))
    return ListedReplica(
        Address(parts["ip"], int(parts["port"])),
        online=parts["state"] == "online",
        offset=int(parts["offset"]),
        lag_s=lag if lag >= 0 else None,
    )


def _fields(text: str) -> dict[str, str]:
    """Read the `name:value` lines of INFO."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value.strip() for name, colon, value in pairs if colon}


def _keys(text: str) -> int:
    counted = next(part for part in text.split(",") if part.startswith("keys="))
    return int(counted.removeprefix("keys="))


def _text(value: object) -> str:
    if not isinstance(value, bytes):
        raise ValueError("a setting's value is a text")  # noqa: TRY004  (nonsense from outside is a value)
    return value.decode()
