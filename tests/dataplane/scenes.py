"""What the tests do with a fleet: converge it, go step by step, write and read keys, and judge it from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import valkey
from valkey.crc import key_slot

from tests.dataplane.servers import Fleet
from valkeyctl.dataplane import (
    Member,
    NodeView,
    Phase,
    Progress,
    SlotSet,
    Spec,
    Steps,
    View,
    apply,
    converge,
    errors,
    observe,
    plan,
    planned_layout,
    report,
)
from valkeyctl.dataplane.freshness import Freshness
from valkeyctl.dataplane.plan_replicas import in_sync

DEADLINE_S = 40.0
# Commands that change nothing; whatever else a server counts, somebody wrote.
READS = {"info", "ping", "hello", "auth", "select", "config|get"} | {
    f"cluster|{word}" for word in ("nodes", "info", "myid", "getslotmigrations")
}
BETWEEN_SERVERS = {"replconf", "psync", "ping", "auth"}


def spec_of(shards: int, replicas: int, **fields: object) -> Spec:
    """A specification with the layout that the planner gives a new instance."""
    return Spec("t", shards, replicas, planned_layout(shards), **fields)  # type: ignore[arg-type]


def other_spec(shards: int, replicas: int) -> Spec:
    """The specification of another instance."""
    return Spec("u", shards, replicas, planned_layout(shards))


@dataclass
class Told:
    """What a converge told while it ran."""

    lines: list[Progress] = field(default_factory=list[Progress])

    def __call__(self, progress: Progress) -> None:
        self.lines.append(progress)

    @property
    def done(self) -> tuple[str, ...]:
        """The steps that were done, as they were told."""
        return self.lines[-1].done if self.lines else ()


def run(
    fleet: Fleet,
    spec: Spec | None = None,
    *,
    told: Told | None = None,
    deadline_s: float = DEADLINE_S,
    may_go_on: Callable[[], None] = lambda: None,
) -> View:
    """Converge a fleet to its specification, or to another."""
    return converge(
        spec or fleet.spec,
        fleet.directory,
        fleet.dialer,
        deadline_s=deadline_s,
        progress=told or Told(),
        may_go_on=may_go_on,
    )


def run_fresh(fleet: Fleet) -> View:
    """Start a fleet's servers and form it."""
    fleet.start()
    return run(fleet)


def look(fleet: Fleet, spec: Spec | None = None) -> View:
    """One observation."""
    return observe(spec or fleet.spec, fleet.directory(), fleet.dialer)


def take_steps(fleet: Fleet, count: int, spec: Spec | None = None) -> int:
    """Take the first `count` steps one by one, each planned anew; returns how many there were before all was done."""
    spec, freshness = spec or fleet.spec, Freshness()
    taken_at: dict[object, float] = {}
    taken, deadline = 0, time.monotonic() + DEADLINE_S
    while taken < count:
        what = plan(spec, View(freshness.mark(look(fleet, spec).outcomes)))
        if not isinstance(what, Steps):
            break
        now = time.monotonic()
        assert now < deadline, what.describe()
        due = [s for s in what.actions if now - taken_at.get(s, float("-inf")) >= s.settles_in_s]
        if not due:
            time.sleep(0.02)
            continue
        taken_at[due[0]] = now
        apply(due[0], fleet.directory(), fleet.dialer)
        taken += 1
    return taken


def assert_ready(fleet: Fleet, view: View, spec: Spec | None = None) -> None:
    """The instance is in the declared state, as every server itself says in its own words."""
    spec = spec or fleet.spec
    found = report(spec, view)
    assert found.phase is Phase.READY, found.conditions
    assert len(found.primaries) == spec.shards
    for member in spec.members:
        info = str(fleet.ask(member, "CLUSTER", "INFO"))
        assert "cluster_state:ok" in info
        assert "cluster_slots_assigned:16384" in info
        assert "cluster_slots_ok:16384" in info
        assert f"cluster_size:{sum(1 for slots in found.layout if slots)}\r" in info
        nodes = [line for line in str(fleet.ask(member, "CLUSTER", "NODES")).splitlines() if "handshake" not in line]
        assert len(nodes) == len(spec.members), "no stale entry"
        assert not any("fail" in line or "[" in line for line in nodes), "no failed node and no open slot"


def primaries(view: View) -> dict[int, Member]:
    """Each shard's primary, as it says itself."""
    return {m.shard: m for m, node in view.nodes.items() if node.slots}


def layout_of(view: View) -> dict[int, SlotSet]:
    """Each shard's slots, as its primary says itself."""
    return {m.shard: node.slots for m, node in view.nodes.items() if node.slots}


def replicas_of(view: View, primary: NodeView) -> list[Member]:
    """The members in sync with a primary."""
    return [m for m, node in view.nodes.items() if node is not primary and in_sync(node, primary)]


def key_in(slots: SlotSet, number: int) -> str:
    """A key whose slot is in the set."""
    slot = slots.ranges[0][0] + number % (slots.ranges[0][1] - slots.ranges[0][0] + 1)
    return f"{{{_TAGS[slot]}}}{number}"


def write(fleet: Fleet, member: Member, slots: SlotSet, count: int = 20) -> dict[str, str]:
    """Write keys of these slots to a primary and wait until its replicas have them; what was written."""
    keys = {key_in(slots, number): str(number) for number in range(count)}
    with fleet.client(member) as client:
        for key, value in keys.items():
            client.set(key, value)
        replicas = int(client.info("replication")["connected_slaves"])
        if replicas:
            client.wait(replicas, 5000)
    return keys


def read(fleet: Fleet, keys: Sequence[str]) -> dict[str, str | None]:
    """Read keys as a cluster client does."""
    endpoint = next(iter(fleet.directory().values()))
    client = valkey.ValkeyCluster(
        host=endpoint.address, port=endpoint.port, password=fleet.password, decode_responses=True
    )
    try:
        return {key: client.get(key) for key in keys}
    finally:
        client.close()


def commands_counted(fleet: Fleet, members: Iterable[Member] | None = None) -> dict[Member, dict[str, int]]:
    """How often each server (or each of these) has carried out each command."""
    counts: dict[Member, dict[str, int]] = {}
    for member in members or fleet.directory():
        with fleet.client(member) as client:
            stats: Mapping[str, Mapping[str, int]] = client.info("commandstats")
        counts[member] = {name.removeprefix("cmdstat_"): values["calls"] for name, values in stats.items()}
    return counts


def assert_only_reads(before: Mapping[Member, Mapping[str, int]], after: Mapping[Member, Mapping[str, int]]) -> None:
    """Between two counts, nobody told any server to change anything."""
    for member, counts in after.items():
        grown = {name for name, calls in counts.items() if calls > before[member].get(name, 0)}
        assert grown <= READS | BETWEEN_SERVERS, (str(member), grown - READS)


def blocked_reason(fleet: Fleet, spec: Spec | None = None) -> errors.Blocked:
    """Converge, expecting that a person is needed; the error."""
    try:
        run(fleet, spec)
    except errors.Blocked as error:
        return error
    raise AssertionError("the converge wasn't blocked")


def _tags() -> dict[int, str]:
    """A hash tag for every slot."""

    tags: dict[int, str] = {}
    number = 0
    while len(tags) < 16384:
        tags.setdefault(key_slot(str(number).encode()), str(number))
        number += 1
    return tags


_TAGS = _tags()
