"""What was seen: one record per declared member, as that member told it itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.slots import SlotSet


class Role(StrEnum):
    """What a server is at this moment."""

    PRIMARY = "primary"
    REPLICA = "replica"


class Why(StrEnum):
    """Why a member couldn't be observed."""

    CONNECT_FAILED = "connect failed"
    NO_ANSWER = "no answer"
    NOT_UNDERSTOOD = "not understood"
    AUTH_FAILED = "authentication failed"
    RIGHT_MISSING = "right missing"
    LOADING = "loading"
    ERROR_REPLY = "error reply"


@dataclass(frozen=True)
class Peer:
    """A node as another node knows it. Its address is hearsay: it is compared, and never connected to (report C2).

    `primary_id` is "" for a primary. `failed` means that a majority agreed on it, `suspect` that the teller alone
    gets no answer, `handshake` that the two are still being introduced (the id is then a temporary one), `address` is
    "" when the teller has none. `linked` says that the teller's own link to it stands.
    """

    node_id: str
    role: Role
    primary_id: str
    address: str
    port: int
    bus_port: int
    host: str
    config_epoch: int
    slots: SlotSet
    linked: bool
    failed: bool = False
    suspect: bool = False
    handshake: bool = False


@dataclass(frozen=True)
class ReplicaLink:
    """How a replica follows: `up`, or still copying everything (`syncing`).

    `was_up` tells that the link has stood at some time since the server started, so that it has a copy of its
    primary's data, even an empty one.
    """

    up: bool
    syncing: bool
    was_up: bool


class JobState(StrEnum):
    """How a server's job of moving slots stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Job:
    """Slots that servers move by themselves, as one of the two tells it.

    `gives`: the teller gives them to the node `other_id`, otherwise it gets them from there. `name` is the same at both
    ends. `message` is the server's own word for why it failed ("" otherwise).
    """

    name: str
    gives: bool
    other_id: str
    slots: SlotSet
    state: JobState
    message: str = ""


@dataclass(frozen=True)
class NodeView:
    """One server, told by itself.

    `peers` are the other nodes that it knows, by id. `keys` counts the keys of all databases, `offset` is its
    position in the replication stream `replication_id`, in bytes. `migrating` and `importing` give, by slot, the id
    of the node at the other end of an open slot, and `open_slot_keys` how many keys it holds in each slot that is
    open anywhere. `node_timeout_ms` is its live `cluster-node-timeout`, None where nobody asked. `jobs` are the moves
    of slots that it remembers, running or ended (none before 9.0). `other_databases`: it holds keys in another database
    than 0 (since 9.0, where `cluster-databases` allows it). `fresh`: this run has seen its id before any other node
    knew it, so that nobody can have forgotten it; a single look doesn't tell.
    """

    endpoint: Endpoint
    node_id: str
    role: Role
    primary_id: str
    slots: SlotSet
    config_epoch: int
    current_epoch: int
    state_ok: bool
    version: str
    keys: int
    offset: int
    replication_id: str = ""
    link: ReplicaLink | None = None
    peers: Mapping[str, Peer] = field(default_factory=dict[str, Peer])
    migrating: Mapping[int, str] = field(default_factory=dict[int, str])
    importing: Mapping[int, str] = field(default_factory=dict[int, str])
    open_slot_keys: Mapping[int, int] = field(default_factory=dict[int, int])
    node_timeout_ms: int | None = None
    jobs: tuple[Job, ...] = ()
    other_databases: bool = False
    fresh: bool = False

    @property
    def moves_atomically(self) -> bool:
        """Whether its version can move slots by itself (`CLUSTER MIGRATESLOTS`, since 9.0)."""
        return int(self.version.partition(".")[0] or 0) >= 9

    @property
    def is_moving_slots(self) -> bool:
        """Whether a move of slots is under way in which it gives or takes."""
        return any(job.state is JobState.RUNNING for job in self.jobs)

    @property
    def running_jobs(self) -> tuple[Job, ...]:
        """The moves in which it gives slots away now."""
        return tuple(job for job in self.jobs if job.gives and job.state is JobState.RUNNING)

    @property
    def is_empty(self) -> bool:
        """Whether it is a primary that has nothing, and is given nothing at the moment."""
        busy = self.is_moving_slots or self.migrating or self.importing
        return self.role is Role.PRIMARY and not (self.slots or self.keys or busy)

    @property
    def member(self) -> Member:
        """The place in the instance that this server has."""
        return self.endpoint.member


@dataclass(frozen=True)
class Unreachable:
    """The member has a Pod with an address, and couldn't be observed. Never to be read as absent or empty.

    `detail` is one sentence for a person. `node_id` is its id where it told it nevertheless (while loading), else "".
    `for_s` tells since how many seconds it has been so (0 in a single observation).
    """

    endpoint: Endpoint
    why: Why
    detail: str
    node_id: str = ""
    for_s: float = 0.0

    @property
    def member(self) -> Member:
        """The place in the instance that couldn't be observed."""
        return self.endpoint.member


@dataclass(frozen=True)
class Absent:
    """The member has no Pod with an address now. `for_s` as in Unreachable."""

    member: Member
    for_s: float = 0.0


Outcome = NodeView | Unreachable | Absent


@dataclass(frozen=True)
class View:
    """One observation: an outcome for every declared member, and for those that are leaving."""

    outcomes: Mapping[Member, Outcome]

    @cached_property
    def nodes(self) -> Mapping[Member, NodeView]:
        """The members that answered."""
        return {m: o for m, o in self.outcomes.items() if isinstance(o, NodeView)}

    @cached_property
    def missing(self) -> Mapping[Member, Unreachable | Absent]:
        """The members that didn't."""
        return {m: o for m, o in self.outcomes.items() if not isinstance(o, NodeView)}

    @cached_property
    def member_of_id(self) -> Mapping[str, Member]:
        """Which member has a node id now, of those that answered."""
        return {n.node_id: m for m, n in self.nodes.items()}

    @cached_property
    def domains(self) -> frozenset[str]:
        """What follows the first label in the names of the members' Pods: the instance's own DNS domain."""
        hosts = (o.endpoint.host for o in self.outcomes.values() if not isinstance(o, Absent))
        return frozenset(host.partition(".")[2] for host in hosts)
