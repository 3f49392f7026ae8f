"""The words of the wire, of Sentinels and of what they watch, read into our records. Nowhere else are they known.

Formats: https://valkey.io/topics/sentinel/, /commands/info/. Whatever can't be read raises ValueError, KeyError or
IndexError, for the caller to turn into NotUnderstood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from valkeyctl.dataplane.model import Address, Endpoint
from valkeyctl.dataplane.sentinel.model import Parameters
from valkeyctl.dataplane.sentinel.view import KnownReplica, KnownSentinel, Monitored, SentinelView, ServerView
from valkeyctl.dataplane.view import ReplicaLink, Role

if TYPE_CHECKING:
    from valkeyctl.dataplane.session import Command

SERVER_QUESTIONS: tuple[Command, ...] = (
    ("INFO", "server", "replication", "persistence"),
    ("CONFIG", "GET", "replica-priority"),
)
ROLE: Command = ("INFO", "replication")
#: To a replica: say now how far you are. Servers answer it to their primary alone, and to nobody else at all.
SAY_HOW_FAR: Command = ("REPLCONF", "GETACK", "*")
_UNKNOWN_NAME = "No such master"
_NO_QUORUM = "NOQUORUM"
_ID_LENGTH = 40


def questions(name: str) -> tuple[Command, ...]:
    """What a Sentinel is asked about a name."""
    return (
        ("INFO", "server", "sentinel"),
        ("SENTINEL", "MYID"),
        ("SENTINEL", "MASTER", name),
        ("SENTINEL", "REPLICAS", name),
        ("SENTINEL", "SENTINELS", name),
        ("SENTINEL", "CKQUORUM", name),
    )


def may_be_refused(index: int, told: str) -> bool:
    """Whether the refusal of the question of that index is an answer: a name that it doesn't know, or no quorum."""
    return index >= 2 and (_UNKNOWN_NAME in told or (index == 5 and _NO_QUORUM in told))


def sentinel_view(endpoint: Endpoint, replies: Sequence[object], refusals: Mapping[int, str]) -> SentinelView:
    """One Sentinel's view out of its answers to `questions`; `refusals` are the texts of those that it refused."""
    info = fields(_text(replies[0]))
    own_id = _text(replies[1])
    if len(own_id) != _ID_LENGTH:
        raise ValueError("a Sentinel's id has 40 digits")
    told = SentinelView(
        endpoint=endpoint,
        sentinel_id=own_id,
        version=info.get("valkey_version") or info["redis_version"],
        in_tilt=info.get("sentinel_tilt", "0") != "0",
    )
    if 2 in refusals:
        return told
    return SentinelView(
        endpoint=endpoint,
        sentinel_id=own_id,
        version=told.version,
        in_tilt=told.in_tilt,
        monitored=_monitored(_pairs(replies[2])),
        replicas=tuple(_replica(entry) for entry in _entries(replies[3])),
        others=tuple(_other(entry) for entry in _entries(replies[4])),
        reaches_quorum=5 not in refusals,
        quorum_told=refusals.get(5, "").partition(_NO_QUORUM)[2].strip(),
    )


def server_view(endpoint: Endpoint, replies: Sequence[object]) -> ServerView | None:
    """One server's view out of its answers to SERVER_QUESTIONS; None for one that still reads its dataset."""
    info = fields(_text(replies[0]))
    if info["loading"] != "0" or info.get("async_loading", "0") != "0":
        return None
    replica = info["role"] == "slave"
    return ServerView(
        endpoint=endpoint,
        role=Role.REPLICA if replica else Role.PRIMARY,
        version=info.get("valkey_version") or info["redis_version"],
        offset=int(info["slave_repl_offset"] if replica else info["master_repl_offset"]),
        priority=int(_pairs(replies[1])["replica-priority"]),
        primary=Address(info["master_host"], int(info["master_port"])) if replica else None,
        link=_link(info) if replica else None,
        followers=tuple(_follower(text) for name, text in info.items() if _is_follower(name)),
        failing_over=info.get("master_failover_state", "no-failover") != "no-failover",
    )


def fields(text: str) -> dict[str, str]:
    """Read the `name:value` lines of INFO."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value.strip() for name, colon, value in pairs if colon}


def set_parameters(parameters: Parameters) -> Mapping[str, int]:
    """The options of SENTINEL SET, with their values."""
    return {
        "down-after-milliseconds": parameters.down_after_ms,
        "failover-timeout": parameters.failover_timeout_ms,
        "parallel-syncs": parameters.parallel_syncs,
    }


def _monitored(told: Mapping[str, str]) -> Monitored:
    flags = set(told["flags"].split(","))
    return Monitored(
        address=_address(told),
        quorum=int(told["quorum"]),
        config_epoch=int(told["config-epoch"]),
        parameters=Parameters(
            int(told["down-after-milliseconds"]), int(told["failover-timeout"]), int(told["parallel-syncs"])
        ),
        down="s_down" in flags,
        agreed_down="o_down" in flags,
        linked="disconnected" not in flags,
        answered_ms=int(told["last-ok-ping-reply"]),
        failing_over="failover_in_progress" in flags,
        failover_state=told.get("failover-state", ""),
    )


def _replica(told: Mapping[str, str]) -> KnownReplica:
    flags = set(told["flags"].split(","))
    return KnownReplica(
        address=_address(told),
        run_id=told["runid"],
        priority=int(told["slave-priority"]),
        offset=int(told["slave-repl-offset"]),
        down=bool(flags & {"s_down", "o_down"}),
        linked="disconnected" not in flags,
        answered_ms=int(told["last-ok-ping-reply"]),
        told_ms=int(told["info-refresh"]),
        link_down_ms=int(told["master-link-down-time"]),
    )


def _other(told: Mapping[str, str]) -> KnownSentinel:
    flags = set(told["flags"].split(","))
    return KnownSentinel(
        sentinel_id=told["runid"],
        address=_address(told),
        down=bool(flags & {"s_down", "o_down"}),
        linked="disconnected" not in flags,
        heard_ms=int(told["last-hello-message"]),
    )


def _address(told: Mapping[str, str]) -> Address:
    return Address(told["ip"], int(told["port"]))


def _link(info: Mapping[str, str]) -> ReplicaLink:
    return ReplicaLink(
        up=info["master_link_status"] == "up",
        syncing=info["master_sync_in_progress"] == "1",
        was_up=info["master_link_status"] == "up" or int(info.get("master_link_down_since_seconds", "-1")) >= 0,
    )


def _is_follower(name: str) -> bool:
    return name.startswith("slave") and name[5:].isdigit()


def _follower(text: str) -> Address:
    """Read `ip=…,port=…,state=…,…`."""
    parts = (part.partition("=") for part in text.split(","))
    told = {name: value for name, _, value in parts}
    return Address(told["ip"], int(told["port"]))


def _entries(reply: object) -> list[Mapping[str, str]]:
    if not isinstance(reply, list):
        raise ValueError("an answer of another kind")  # noqa: TRY004  (nonsense from outside is a value)
    return [_pairs(entry) for entry in cast("list[object]", reply)]


def _pairs(reply: object) -> dict[str, str]:
    if not isinstance(reply, list):
        raise ValueError("an answer of another kind")  # noqa: TRY004
    texts = [_text(part) for part in cast("list[object]", reply)]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _text(part: object) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)
