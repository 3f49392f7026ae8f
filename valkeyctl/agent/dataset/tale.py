"""What one member of a dataset tells the others of itself, also while its server doesn't run; and how that travels."""

from __future__ import annotations

import json
from dataclasses import dataclass

from valkeyctl.agent.fields import Fields, member_of_text, member_or_none, text_of
from valkeyctl.agent.tale import Data, Kind, Server
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.replication.view import History
from valkeyctl.dataplane.view import Role

NO_DATA = Data()


@dataclass(frozen=True)
class DatasetTale:
    """What one member tells of itself.

    `server`, `held`, `data` and `synced` as for a cluster's member (`agent.tale.Tale`). `role` is that of the running
    server, and a replica's where none runs: what a server was before it ended gives it no right to be the primary.

    `upstream` is whom a replica is told to follow, None where that is nobody of the instance; `linked` that its link
    stands and nothing is being copied. `second_id` and `second_end` complete the place of a live server in the streams
    (`History`). `established` is of a primary that somebody has followed since it started.

    `primary` is who the primary is as far as this agent knows by those who decide it; None where it doesn't know.
    `wants_to_stop`: its server is about to be stopped, so that it must not be chosen for anything.
    """

    member: Member
    server: Server = Server.DOWN
    held: bool = False
    role: Role = Role.REPLICA
    upstream: Member | None = None
    linked: bool = False
    synced: bool | None = None
    data: Data = NO_DATA
    second_id: str = ""
    second_end: int = 0
    established: bool = False
    primary: Member | None = None
    wants_to_stop: bool = False

    @property
    def running(self) -> bool:
        """Whether a server process runs, loading or serving."""
        return self.server is not Server.DOWN

    @property
    def is_primary(self) -> bool:
        """Whether a running server calls itself the primary."""
        return self.server is Server.UP and self.role is Role.PRIMARY

    @property
    def history(self) -> History:
        """Its place in the streams of writes; offset 0 where it has none, or it isn't known (a log doesn't tell)."""
        return History(self.data.replication_id, self.data.offset or 0, self.second_id, self.second_end)

    def encode(self) -> bytes:
        """The tale as JSON; the same bytes for equal tales."""
        told: dict[str, object] = {
            "member": str(self.member),
            "server": self.server,
            "held": self.held,
            "role": self.role,
            "upstream": text_of(self.upstream),
            "linked": self.linked,
            "synced": self.synced,
            "data": {
                "kind": self.data.kind,
                "replication_id": self.data.replication_id,
                "offset": self.data.offset,
                "written_at": self.data.written_at,
            },
            "second_id": self.second_id,
            "second_end": self.second_end,
            "established": self.established,
            "primary": text_of(self.primary),
            "wants_to_stop": self.wants_to_stop,
        }
        return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, text: bytes) -> DatasetTale:
        """Read a tale; keys that this version doesn't know are passed over, and missing ones have their defaults.

        Raises ValueError for anything that isn't a tale.
        """
        told = Fields(json.loads(text))
        data = told.inner("data")
        return cls(
            member=member_of_text(told.get("member", "")),
            server=Server(told.get("server", Server.DOWN.value)),
            held=told.get("held", False),
            role=Role(told.get("role", Role.REPLICA.value)),
            upstream=member_or_none(told.get("upstream", "")),
            linked=told.get("linked", False),
            synced=told.optional("synced", bool),
            data=Data(
                kind=Kind(data.get("kind", Kind.NOTHING.value)),
                replication_id=data.get("replication_id", ""),
                offset=data.optional("offset", int),
                written_at=data.optional("written_at", float),
            ),
            second_id=told.get("second_id", ""),
            second_end=told.get("second_end", 0),
            established=told.get("established", False),
            primary=member_or_none(told.get("primary", "")),
            wants_to_stop=told.get("wants_to_stop", False),
        )
