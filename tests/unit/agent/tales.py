"""Tales of a 3x1 (or 3x2) cluster, as its members tell them, for tests that change one thing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.unit.agent.guard_cases import node_id, stream
from valkeyctl.agent.tale import Data, Follower, Kind, Owner, Server, Tale
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.slots import equal_layout
from valkeyctl.dataplane.view import Role

LAYOUT = equal_layout(3)
P0, R0, R0B, P1, P2 = Member(0, 0), Member(0, 1), Member(0, 2), Member(1, 0), Member(2, 0)


def snapshot(offset: int | None = 400, *, place: str = "") -> Data:
    """A snapshot of shard 0's last run, or of another."""
    return Data(Kind.SNAPSHOT, place or stream(0), offset, 500.0)


def log(written_at: float = 1000.0, *, full: bool = False) -> Data:
    """A log that was last written to at this time."""
    return Data(Kind.FULL_LOG if full else Kind.LOG, written_at=written_at)


def live(offset: int = 970) -> Data:
    """What a running member of shard 0 has."""
    return Data(Kind.LIVE, stream(0), offset)


def _owners(but: Member) -> tuple[Owner, ...]:
    members = [Member(shard, 0) for shard in range(3)]
    return tuple(Owner(node_id(m), m, m.shard + 1, LAYOUT[m.shard]) for m in members if m != but)


def _followers(shard: int, replicas: Iterable[Member], but: Member) -> tuple[Follower, ...]:
    return tuple(Follower(node_id(m), m, node_id(Member(shard, 0))) for m in replicas if m != but)


def primary(
    data: Data, member: Member = P0, *, server: Server = Server.DOWN, replicas: Iterable[Member] = (R0,)
) -> Tale:
    """A primary; one that is down is held."""
    return Tale(
        member=member,
        server=server,
        held=server is Server.DOWN,
        node_id=node_id(member),
        slots=LAYOUT[member.shard],
        config_epoch=member.shard + 1,
        current_epoch=3,
        data=data,
        owners=_owners(member),
        followers=_followers(member.shard, replicas, member),
    )


def replica(
    data: Data,
    member: Member = R0,
    *,
    server: Server = Server.UP,
    synced: bool | None = True,
    replicas: Iterable[Member] = (R0,),
) -> Tale:
    """A replica of the first member of its shard."""
    return Tale(
        member=member,
        server=server,
        held=server is Server.DOWN,
        node_id=node_id(member),
        role=Role.REPLICA,
        primary_id=node_id(Member(member.shard, 0)),
        current_epoch=3,
        data=data,
        synced=synced,
        owners=_owners(member),
        followers=_followers(member.shard, replicas, member),
    )


def promoted(tale: Tale, *, epoch: int = 9) -> Tale:
    """The same member after it took its primary's place."""
    return replace(
        tale,
        role=Role.PRIMARY,
        primary_id="",
        slots=LAYOUT[tale.member.shard],
        config_epoch=epoch,
        current_epoch=epoch,
        owners=tuple(owner for owner in tale.owners if owner.node_id != tale.primary_id),
    )


def told(*tales: Tale) -> dict[Member, Tale]:
    """What was heard, by member."""
    return {tale.member: tale for tale in tales}
