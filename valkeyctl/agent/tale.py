"""What one member tells the others of itself, also while its server doesn't run; and how that travels as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar, cast

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import EMPTY, SlotSet
from valkeyctl.dataplane.view import Role


class Server(StrEnum):
    """How the member's server is."""

    DOWN = "down"
    """No process runs."""
    LOADING = "loading"
    """A process runs, and doesn't serve yet: it reads its dataset, or hasn't answered so far."""
    UP = "up"
    """It answers."""


class Kind(StrEnum):
    """What a dataset is made of, from the least to the most that is known of it."""

    UNKNOWN = "unknown"
    """In the memory of a server that doesn't tell, or hasn't been asked yet: it may be anything, also the newest."""

    NOTHING = "nothing"
    """Nothing to load, or a replica that never had a whole copy: such a dataset is worth nothing to anybody."""
    SNAPSHOT = "snapshot"
    """What a snapshot holds; everything after it is gone."""
    LOG = "log"
    """What the append-only log holds. While the log is being synced to disk its server keeps what it has acknowledged
    for up to two seconds in memory, so that a server that was killed may have had that much more."""
    FULL_LOG = "full log"
    """The log of a server with `appendfsync always`: all that it ever acknowledged."""
    LIVE = "live"
    """In the memory of a server that is a primary, or has followed one since it started."""


@dataclass(frozen=True)
class Data:
    """The dataset that a member has, or would have if its server started now.

    `offset` is its position, in bytes, in the replication stream `replication_id`; None and "" where nobody knows
    (a log doesn't tell). `written_at` is when its file was last written to, in seconds of the epoch by the clock of the
    member's machine; None for what is in memory.
    """

    kind: Kind = Kind.NOTHING
    replication_id: str = ""
    offset: int | None = None
    written_at: float | None = None


@dataclass(frozen=True)
class Owner:
    """Another node that owns slots, as the teller's node table has it; `member` is None where its name isn't known."""

    node_id: str
    member: Member | None
    config_epoch: int
    slots: SlotSet


@dataclass(frozen=True)
class Follower:
    """Another node that is a replica in the teller's shard, as the teller's node table has it."""

    node_id: str
    member: Member | None
    primary_id: str


@dataclass(frozen=True)
class Tale:
    """What one member tells of itself.

    `held` promises that no server of this member runs, and that none will before this agent permits it: whoever hears
    it may take over without fear of a second primary. It is true from the moment the server is seen dead until the
    agent permits a start, whether or not a start was asked for.

    `node_id` is "" for a member that is no node yet (it has no node table). `role`, `primary_id` ("" for a primary),
    `slots` and `config_epoch` are its own, from its live server or, while that is down, from the table on its disk.

    `synced` is for replicas: whether its link stood, with no full copy under way, when its primary ended. So a link
    that broke because the primary died leaves it true; one that broke while the primary went on, or may have gone on
    for all that is known, makes it false. None where nobody looked, as for a server that started while its primary was
    down. That its own server ends leaves it as it is.

    An agent that can't read its disk while its server is down has no tale to tell: the default is that of a new node.

    `owners` are all other nodes that own slots, `followers` the other replicas of its own shard, both out of its node
    table. `knows_asker` tells whom it answers whether its running server has that node in its table; None where no
    server runs, or it couldn't be asked just now, or the asker didn't say which node it is.
    """

    member: Member
    server: Server = Server.DOWN
    held: bool = False
    node_id: str = ""
    role: Role = Role.PRIMARY
    primary_id: str = ""
    slots: SlotSet = EMPTY
    config_epoch: int = 0
    current_epoch: int = 0
    data: Data = Data()
    synced: bool | None = None
    owners: tuple[Owner, ...] = ()
    followers: tuple[Follower, ...] = ()
    knows_asker: bool | None = None

    @property
    def running(self) -> bool:
        """Whether a server process runs, loading or serving."""
        return self.server is not Server.DOWN

    @cached_property
    def claims(self) -> tuple[Owner, ...]:
        """Everyone who owns slots as this member knows it, itself included."""
        own = (Owner(self.node_id, self.member, self.config_epoch, self.slots),) if self.slots else ()
        return own + self.owners

    def encode(self) -> bytes:
        """The tale as JSON; the same bytes for equal tales."""
        told: dict[str, object] = {
            "member": str(self.member),
            "server": self.server,
            "held": self.held,
            "node_id": self.node_id,
            "role": self.role,
            "primary_id": self.primary_id,
            "slots": str(self.slots),
            "config_epoch": self.config_epoch,
            "current_epoch": self.current_epoch,
            "data": {
                "kind": self.data.kind,
                "replication_id": self.data.replication_id,
                "offset": self.data.offset,
                "written_at": self.data.written_at,
            },
            "synced": self.synced,
            "knows_asker": self.knows_asker,
            "owners": [
                {
                    "node_id": owner.node_id,
                    "member": _name(owner.member),
                    "config_epoch": owner.config_epoch,
                    "slots": str(owner.slots),
                }
                for owner in self.owners
            ],
            "followers": [
                {"node_id": one.node_id, "member": _name(one.member), "primary_id": one.primary_id}
                for one in self.followers
            ],
        }
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, text: bytes) -> Tale:
        """Read a tale; keys that this version doesn't know are passed over, and missing ones have their defaults.

        Raises ValueError (InvalidSlots for a slot set that is none) for anything that isn't a tale.
        """
        told = _Fields(json.loads(text))
        data = told.inner("data")
        return cls(
            member=_member(told.get("member", "")),
            server=Server(told.get("server", Server.DOWN.value)),
            held=told.get("held", False),
            node_id=told.get("node_id", ""),
            role=Role(told.get("role", Role.PRIMARY.value)),
            primary_id=told.get("primary_id", ""),
            slots=SlotSet.parse(told.get("slots", "")),
            config_epoch=told.get("config_epoch", 0),
            current_epoch=told.get("current_epoch", 0),
            data=Data(
                kind=Kind(data.get("kind", Kind.NOTHING.value)),
                replication_id=data.get("replication_id", ""),
                offset=data.optional("offset", int),
                written_at=data.optional("written_at", float),
            ),
            synced=told.optional("synced", bool),
            knows_asker=told.optional("knows_asker", bool),
            owners=tuple(
                Owner(
                    node_id=owner.get("node_id", ""),
                    member=_member_or_none(owner.get("member", "")),
                    config_epoch=owner.get("config_epoch", 0),
                    slots=SlotSet.parse(owner.get("slots", "")),
                )
                for owner in told.each("owners")
            ),
            followers=tuple(
                Follower(
                    node_id=one.get("node_id", ""),
                    member=_member_or_none(one.get("member", "")),
                    primary_id=one.get("primary_id", ""),
                )
                for one in told.each("followers")
            ),
        )


_Value = TypeVar("_Value", str, int, bool)
_Number = TypeVar("_Number", int, float, bool)


class _Fields:
    """A JSON object, read by kinds: a value of another kind than the default's is nonsense, not a surprise later on."""

    def __init__(self, told: object) -> None:
        if not isinstance(told, Mapping):
            raise ValueError("not a JSON object")  # noqa: TRY004  (nonsense from outside is a value)
        self._told = cast(Mapping[str, object], told)

    def get(self, key: str, default: _Value) -> _Value:
        value = self._told.get(key, default)
        if type(value) is not type(default):
            raise ValueError(f"{key} has the wrong kind")
        return value

    def optional(self, key: str, kind: type[_Number]) -> _Number | None:
        value = self._told.get(key)
        if value is None:
            return None
        if kind is float and type(value) is int:
            return kind(value)
        if type(value) is not kind:
            raise ValueError(f"{key} has the wrong kind")
        return value

    def inner(self, key: str) -> _Fields:
        return _Fields(self._told.get(key, {}))

    def each(self, key: str) -> Iterator[_Fields]:
        values = self._told.get(key, [])
        if not isinstance(values, list):
            raise ValueError(f"{key} has the wrong kind")  # noqa: TRY004  (nonsense from outside is a value)
        return (_Fields(value) for value in cast(list[object], values))


def _name(member: Member | None) -> str:
    return "" if member is None else str(member)


def _member(text: str) -> Member:
    match = re.fullmatch(r"s(\d{1,9})-(\d{1,9})", text)
    if match is None:
        raise ValueError("not the name of a member")
    return Member(int(match[1]), int(match[2]))


def _member_or_none(text: str) -> Member | None:
    return _member(text) if text else None
