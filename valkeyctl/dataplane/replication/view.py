"""What was seen of one dataset: one record per member, as that member told it itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from valkeyctl.dataplane.model import Address, Endpoint, Member, member_of_host
from valkeyctl.dataplane.view import Absent, ReplicaLink, Role, Unreachable


class Handover(StrEnum):
    """How a planned handover stands at the primary that gives its role away.

    WAITING: its writes are paused until the other has all of them. RUNNING: it has stepped back, and asks the other to
    take over.
    """

    NONE = "none"
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(frozen=True)
class History:
    """Where a server's data is in the streams of writes, which primaries number in bytes.

    `offset` is how far it has the stream `replication_id`, 0 where it has no place in any (it loaded a log, or never
    replicated). Up to `second_end` that stream is the same as the stream `second_id` ("" where it doesn't remember
    one): a replica that is promoted gives its stream a new name and goes on counting.
    """

    replication_id: str
    offset: int
    second_id: str = ""
    second_end: int = 0


@dataclass(frozen=True)
class ListedReplica:
    """A replica in the words of the server that it is connected to: `offset` is what it has acknowledged.

    `lag_s` are the seconds since it last did, None before the first time.
    """

    at: Address
    online: bool
    offset: int
    lag_s: int | None = None


@dataclass(frozen=True)
class ServerView:
    """One server, told by itself.

    `upstream` is what a replica is told to replicate, whether it is reached or not, and `link` how that goes; both are
    None for a primary. `run_id` is new at every start. `keys` counts the keys of all databases. `announces` is the name
    under which it tells others to know it ("" for its address). `uptime_s` is how long it has run, and `cut_off_s`
    since when a replica's link is down, None while it is up or when it never was. `established` tells of a primary that
    somebody has followed since it started, even if nothing was written yet. `has_log` tells that it writes an
    append-only file, and `cluster_mode` that it isn't one of ours.
    """

    endpoint: Endpoint
    role: Role
    run_id: str
    version: str
    keys: int
    history: History
    upstream: Address | None = None
    link: ReplicaLink | None = None
    replicas: tuple[ListedReplica, ...] = ()
    handover: Handover = Handover.NONE
    announces: str = ""
    uptime_s: int = 0
    cut_off_s: int | None = None
    established: bool = False
    has_log: bool = False
    cluster_mode: bool = False

    @property
    def member(self) -> Member:
        """The place in the instance that this server has."""
        return self.endpoint.member

    @property
    def placed(self) -> bool:
        """Whether it knows its place in a stream, so that it can be compared."""
        return self.history.offset > 0

    @property
    def has_data(self) -> bool:
        """Whether it holds keys, or is the outcome of a stream of writes, which may have deleted them all.

        A primary that is followed has none other than this, however little: nobody who is missing has more.
        """
        return self.keys > 0 or self.placed or self.established

    @property
    def linked(self) -> bool:
        """Whether it is a replica whose link stands, and that isn't copying everything."""
        return self.link is not None and self.link.up and not self.link.syncing

    @property
    def was_linked(self) -> bool:
        """Whether it has followed somebody since it started."""
        return self.link is not None and self.link.was_up


Outcome: TypeAlias = ServerView | Unreachable | Absent


@dataclass(frozen=True)
class ReplicationView:
    """One observation: an outcome for every declared member, and for those that are leaving."""

    instance: str
    outcomes: Mapping[Member, Outcome]

    @cached_property
    def nodes(self) -> Mapping[Member, ServerView]:
        """The members that answered."""
        return {m: o for m, o in self.outcomes.items() if isinstance(o, ServerView)}

    @cached_property
    def missing(self) -> Mapping[Member, Unreachable | Absent]:
        """The members that didn't."""
        return {m: o for m, o in self.outcomes.items() if not isinstance(o, ServerView)}

    def member_at(self, at: Address | None) -> Member | None:
        """The member that is known under a name or an address; None when it is none of this dataset's.

        A member that has no Pod now is known by the name that its Pod will have.
        """
        if at is None:
            return None
        for member, endpoint in self._endpoints.items():
            if at.host in (endpoint.host, endpoint.address) and at.port == endpoint.port:
                return member
        named = member_of_host(self.instance, at.host)
        domains = {endpoint.host.partition(".")[2] for endpoint in self._endpoints.values()}
        return named if named in self.outcomes and at.host.partition(".")[2] in domains else None

    @cached_property
    def _endpoints(self) -> Mapping[Member, Endpoint]:
        return {m: o.endpoint for m, o in self.outcomes.items() if not isinstance(o, Absent)}
