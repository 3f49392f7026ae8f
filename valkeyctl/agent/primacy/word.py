"""What the arbiters of two members tell each other, and how that travels as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, cast

from valkeyctl.dataplane.model import Member
from valkeyctl.kube.primary_lease import Seat

FACTS = frozenset(
    {
        "aof_enabled",
        "async_loading",
        "cluster_enabled",
        "loading",
        "master_failover_state",
        "master_host",
        "master_link_down_since_seconds",
        "master_link_status",
        "master_port",
        "master_repl_offset",
        "master_replid",
        "master_replid2",
        "master_sync_in_progress",
        "redis_version",
        "repl_backlog_active",
        "role",
        "run_id",
        "second_repl_offset",
        "slave_repl_offset",
        "uptime_in_seconds",
        "valkey_version",
    }
)
"""The fields of INFO by which servers are compared (`dataplane.replication.wire.server_view`), but for lists."""


@dataclass(frozen=True)
class Word:
    """One member's word of itself.

    `info` are the fields of its server's INFO that tell its role and its data, empty while it doesn't serve; `phase` is
    how that server is, `held` that none runs and none may start. `kept` tells that its data is of this life: it has
    been the primary, or followed one, since its server started.

    `writable_s` is for how long its server may take writes from now on, 0 where it may not. `in_touch` says that it
    has heard of the API server lately, so that it could take the Lease.

    A question with `asks` asks for a promise not to take over for so many seconds; `promises_s` answers that, with 0
    for a refusal. `holder` is whom the teller knows to hold the Lease.
    """

    member: Member
    token: str
    phase: str = ""
    held: bool = False
    kept: bool = False
    info: Mapping[str, str] | None = None
    writable_s: float = 0.0
    in_touch: bool = False
    holder: str = ""
    asks: float = 0.0
    promises_s: float = 0.0

    @property
    def seat(self) -> Seat:
        """Whose word it is."""
        return Seat(self.member, self.token)

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The fields of INFO, none while the server doesn't serve."""
        return self.info or {}

    @property
    def is_primary(self) -> bool:
        """Whether its server calls itself a primary."""
        return self.facts.get("role") == "master"

    @property
    def is_settled_replica(self) -> bool:
        """Whether its server is a replica, and no handover is under way that could make it a primary again."""
        state = self.facts.get("master_failover_state", "no-failover")
        return self.facts.get("role") == "slave" and state == "no-failover"

    def encode(self) -> bytes:
        """The word as JSON."""
        told = {**asdict(self), "member": self.member.ordinal}
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def decode(text: bytes) -> Word:
    """Read a word; keys that this version doesn't know are passed over. Raises ValueError for anything else."""
    told: object = json.loads(text)
    if not isinstance(told, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  (nonsense from outside is a value)
    known = cast("dict[str, Any]", told)
    info = known.get("info")
    try:
        return Word(
            member=Member(0, int(known["member"])),
            token=str(known["token"]),
            phase=str(known.get("phase", "")),
            held=known.get("held") is True,
            kept=known.get("kept") is True,
            info=None if info is None else {str(name): str(value) for name, value in info.items()},
            writable_s=float(known.get("writable_s", 0.0)),
            in_touch=known.get("in_touch") is True,
            holder=str(known.get("holder", "")),
            asks=float(known.get("asks", 0.0)),
            promises_s=float(known.get("promises_s", 0.0)),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the word of an arbiter: {error}") from error


def facts_of(info: Mapping[str, str]) -> Mapping[str, str]:
    """Of all that a server tells, what is told on."""
    return {
        name: value
        for name, value in info.items()
        if name in FACTS or _is_numbered(name, "db") or _is_numbered(name, "slave")
    }


def _is_numbered(name: str, what: str) -> bool:
    return name.startswith(what) and name.removeprefix(what).isdigit()
