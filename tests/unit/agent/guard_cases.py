"""How an instance can be found: which members run, which are down with which data, which are gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from enum import Enum

from tests.unit.agent.guard_world import Copy, Pod, World
from valkeyctl.agent.tale import Data, Kind, Server
from valkeyctl.dataplane.model import Member

WRITES = 100  # what the primary had acknowledged
IN_SYNC = 97  # what had reached a replica in sync: the rest was under way
LAGGING = 70  # what a replica has whose link broke a while before
BYTES = 10  # of the stream for each write


class State(Enum):
    """How a member is found after the fault."""

    RUNNING = "runs, in sync"
    LAGGING = "runs, and its link had broken a while before"
    UNSYNCED = "runs, and never had a whole copy"
    EMPTY = "down, nothing on its disk"
    SNAPSHOT = "down, with an old snapshot"
    LOG = "down, with a log that lacks what was in memory"
    FULL_LOG = "down, with all that it acknowledged"
    REPLACED = "its Pod and disk were lost; another node is in its place"
    ABSENT = "its Pod is gone for good"


THE_TABLE = (State.RUNNING, State.EMPTY, State.SNAPSHOT, State.FULL_LOG, State.ABSENT)


def node_id(member: Member) -> str:
    """A node id that names the member."""
    return f"{member.shard:02d}{member.ordinal:02d}".ljust(40, "f")


def stream(shard: int) -> str:
    """The replication id of a shard's last run."""
    return f"{shard:02d}".ljust(40, "e")


def world_of(
    states: Mapping[Member, State],
    *,
    primary_snapshot: int = 40,
    replica_snapshot: int = 60,
    primary_ordinal: int = 0,
    told_synced: bool | None = None,
) -> World:
    """The instance a moment after the fault. `told_synced` is what the agents of stopped replicas remember."""
    shards = 1 + max(member.shard for member in states)
    primaries = {shard: node_id(Member(shard, primary_ordinal)) for shard in range(shards)}
    table = {shard: (primary, shard + 1) for shard, primary in primaries.items()}
    pods: dict[Member, Pod] = {}
    for member, state in states.items():
        primary = member.ordinal == primary_ordinal
        pod = Pod(member, node_id(member), "" if primary else primaries[member.shard], dict(table), asked_at=None)
        snapshot = primary_snapshot if primary else replica_snapshot
        log = WRITES - 5 if primary else WRITES - 4
        _furnish(pod, state, snapshot=snapshot, log=log, complete=WRITES if primary else IN_SYNC)
        if not primary and state is not State.LAGGING and state is not State.UNSYNCED:
            pod.synced = True if pod.up else told_synced
        pods[member] = pod
    world = World(pods)
    for member, state in states.items():
        if state is State.REPLACED:
            _replace_node(world, member)
    return world


def succeed(world: World, heir: Member, *, knows: Collection[Member], writes: int = 2 * WRITES) -> None:
    """Let a replica have been promoted, and written to, while its primary was away; `knows` are those who saw it too.

    Servers that run tell each other, so if one of them knows, all do.
    """
    pod, shard = world.pods[heir], heir.shard
    epoch = 1 + max(epoch for other in world.pods.values() for _, epoch in other.table.values())
    former = world.by_id[pod.primary_id]
    former.remembers = frozenset(one.member for one in world.pods.values() if one.primary_id == former.node_id)
    pod.primary_id, pod.synced, pod.linked_at = "", None, None
    place = "heir".ljust(40, "d")
    if pod.up:
        pod.live = Copy(Data(Kind.LIVE, place, writes * BYTES), writes)
    elif pod.disk.data.kind is not Kind.NOTHING:
        pod.disk = Copy(replace(pod.disk.data, replication_id=place, offset=writes * BYTES), writes)
    for member in {heir, *knows}:
        knower = world.pods[member]
        knower.table[shard] = (pod.node_id, epoch)
        if knower.primary_id == former.node_id:
            knower.primary_id = pod.node_id
            if knower.up:  # it followed the heir as long as that ran
                knower.live, knower.synced = Copy(Data(Kind.LIVE, place, writes * BYTES), writes), True


def _furnish(pod: Pod, state: State, *, snapshot: int, log: int, complete: int) -> None:
    """Give a Pod what it has in this state."""
    running = state in (State.RUNNING, State.LAGGING, State.UNSYNCED)
    pod.server = Server.UP if running else Server.DOWN
    pod.asked_at = None if running else 1.0
    pod.present = state is not State.ABSENT
    place = stream(pod.member.shard)
    match state:
        case State.RUNNING:
            pod.live, pod.linked_at = _at(place, complete), 0.0
        case State.LAGGING:
            pod.live, pod.synced, pod.linked_at = _at(place, LAGGING), False, -20.0
        case State.SNAPSHOT:
            pod.disk = Copy(Data(Kind.SNAPSHOT, place, snapshot * BYTES, 500.0), snapshot)
        case State.LOG:
            pod.disk = Copy(Data(Kind.LOG, written_at=1000.0 + log * 2), log)
        case State.FULL_LOG:
            pod.disk = Copy(Data(Kind.FULL_LOG, written_at=1000.0 + complete), complete)
        case State.UNSYNCED | State.EMPTY | State.REPLACED | State.ABSENT:
            pass


def _at(place: str, writes: int) -> Copy:
    return Copy(Data(Kind.LIVE, place, writes * BYTES), writes)


def _replace_node(world: World, member: Member) -> None:
    """Put a new node, which knows nobody's slots but those that it hears of, into a member's place."""
    pod = world.pods[member]
    former = pod.node_id
    pod.node_id = "new" + former[3:]
    pod.primary_id = ""
    pod.table = {shard: (owner, 0) for shard, (owner, _) in pod.table.items()}
    del world.by_id[former]
    world.by_id[pod.node_id] = pod
    world.former[former] = member


def copies(world: World, shard: int) -> dict[Member, int]:
    """What each member of a shard that can be reached has."""
    return {
        member: replace(pod).copy.writes for member, pod in world.pods.items() if member.shard == shard and pod.present
    }
