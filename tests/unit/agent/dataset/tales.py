"""Tales of a dataset's members."""

from __future__ import annotations

from valkeyctl.agent.dataset.tale import DatasetTale
from valkeyctl.agent.tale import Data, Kind, Server
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.view import Role

ME, SECOND, THIRD = (Member(0, ordinal) for ordinal in range(3))
STREAM = "a" * 40


def down(member: Member = ME, data: Data | None = None) -> DatasetTale:
    """One whose server is down and held."""
    return DatasetTale(member, held=True, data=data or Data())


def replica(
    member: Member,
    *,
    offset: int = 1000,
    synced: bool | None = True,
    upstream: Member | None = ME,
    linked: bool = False,
) -> DatasetTale:
    """One that runs, and has followed the primary."""
    data = Data(Kind.LIVE, STREAM, offset)
    return DatasetTale(member, Server.UP, upstream=upstream, linked=linked, synced=synced, data=data)


def empty(member: Member) -> DatasetTale:
    """One that runs, follows nobody, and has nothing."""
    return DatasetTale(member, Server.UP)


def primary(member: Member) -> DatasetTale:
    """One that is the primary."""
    return DatasetTale(member, Server.UP, role=Role.PRIMARY, data=Data(Kind.LIVE, STREAM, 2000), established=True)


SNAPSHOT = Data(Kind.SNAPSHOT, STREAM, 500, 1.0)
LOG, FULL_LOG = Data(Kind.LOG, written_at=1.0), Data(Kind.FULL_LOG, written_at=1.0)
NOTHING = Data()
