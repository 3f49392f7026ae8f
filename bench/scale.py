"""How long it takes to give slots to a new shard, beside valkey-cli: `python -m bench.scale`.

Real servers without Kubernetes: three shards full of keys, and a fourth that has just started. We bring them into the
declared state by the converge that `up` calls. The peer does it on another such cluster, by `valkey-cli --cluster
add-node` and then `rebalance --cluster-use-empty-masters`. Joining and moving are told apart; the bars are on moving.
It ends when every node is right, as the tests' own probe finds it by asking each of them.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bench import fleet as servers
from bench.fleet import Probe
from bench.record import save
from bench.table import Row, show
from tests.dataplane import scenes
from tests.dataplane.servers import LINES, Fleet
from tests.e2e.harness import probe
from valkeyctl.dataplane import Member, Plan, Spec, Steps, View, converge, plan, planned_layout
from valkeyctl.dataplane.steps import MigrateSlots, MoveKeys

SHARDS = 3
NEW = SHARDS
FEWEST = probe.SLOTS // (SHARDS + 1)
TIMES = {"9.1": 20.0, "8.1": 8.0}
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Way:
    """One scale-out: seconds until the new shard was known to all, from then until all was right, slots moved."""

    joined_s: float
    moved_s: float
    moved: int


@dataclass(frozen=True)
class Sample:
    """One run with servers of one release line."""

    line: str
    keys: int
    size: int
    replicas: int
    ours: Way
    peer: Way


def ours(fleet: Fleet, spec: Spec, asked: Probe) -> tuple[float, float]:
    """Scale out as `up` does; returns when the first slot was about to move, and when all was right."""
    begun: list[float] = []

    def decide(spec: Spec, view: View) -> Plan:
        what = plan(spec, view)
        if not begun and isinstance(what, Steps) and any(isinstance(a, MigrateSlots | MoveKeys) for a in what.actions):
            begun.append(time.monotonic())
        return what

    converge(
        spec,
        fleet.directory,
        fleet.dialer,
        deadline_s=DEADLINE_S,
        progress=lambda _: None,
        may_go_on=lambda: None,
        decide=decide,
    )
    asked.await_right(spec.shards, spec.replicas)
    return begun[0], time.monotonic()


def by_cli(fleet: Fleet, spec: Spec, asked: Probe) -> tuple[float, float]:
    """Scale out with valkey-cli; returns the same two moments."""
    there = servers.address(fleet, Member(0, 0))
    primary, *replicas = spec.shard_members(NEW)
    servers.cli("add-node", servers.address(fleet, primary), there)
    primary_id = fleet.ids()[primary]
    for replica in replicas:
        asked.await_known(primary_id, but=len(replicas))
        of = ("--cluster-replica", "--cluster-master-id", primary_id)
        servers.cli("add-node", servers.address(fleet, replica), there, *of)
    asked.await_right(spec.shards, spec.replicas)
    joined = time.monotonic()
    servers.cli("rebalance", there, "--cluster-use-empty-masters")
    asked.await_right(spec.shards, spec.replicas)
    return joined, time.monotonic()


def measure(line: str, keys: int, size: int, replicas: int) -> Sample:
    """One run: the same scale-out in both ways, each on a cluster of its own."""
    return Sample(line, keys, size, replicas, *(_measured(way, line, keys, size, replicas) for way in (ours, by_cli)))


def _measured(
    way: Callable[[Fleet, Spec, Probe], tuple[float, float]], line: str, keys: int, size: int, replicas: int
) -> Way:
    first = servers.spec_of(SHARDS, replicas, formed=False)
    spec = servers.spec_of(SHARDS + 1, replicas, planned_layout(SHARDS + 1, first.layout), formed=True)
    with servers.fleet_of(first, line) as fleet:
        servers.start(fleet)
        scenes.run(fleet)
        with Probe(fleet) as asked:
            asked.await_right(SHARDS, replicas)
            before = asked.nodes()
        servers.fill(fleet, before, keys, size)
        servers.start(fleet, *spec.shard_members(NEW))
        with Probe(fleet) as asked:
            began = time.monotonic()
            joined, ended = way(fleet, spec, asked)
            held, after = asked.keys(), probe.layout(asked.nodes())
    if held != keys:
        raise RuntimeError(f"{way.__name__}: {held} keys are there of {keys}")
    moved = sum(len(slots - after[shard]) for shard, slots in probe.layout(before).items())
    if way is ours and moved != FEWEST:
        raise RuntimeError(f"{moved} slots were moved, and {FEWEST} are the fewest")
    return Way(round(joined - began, 3), round(ended - joined, 3), moved)


def main() -> int:
    """Measure, print a table, keep the samples. Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="only the release lines whose name holds this")
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a value")
    parser.add_argument("--replicas", type=int, default=0, help="of each shard")
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    servers.require_cli()
    lines, samples = [line for line in LINES if arguments.only in line], list[Sample]()
    for run in range(arguments.runs):
        for line in lines:
            samples.append(measure(line, arguments.keys, arguments.size, arguments.replicas))
            print(f"run {run + 1}: {json.dumps(asdict(samples[-1]))}", flush=True)
    missed = show([row for line in lines for row in _rows(line, [one for one in samples if one.line == line])])
    if arguments.keep:
        save("scale", samples)
    return 1 if missed else 0


def _rows(line: str, samples: Sequence[Sample]) -> list[Row]:
    def row(name: str, unit: str, value: Callable[[Way], float], *, times: float | None = None) -> Row:
        mine, theirs = [value(one.ours) for one in samples], [value(one.peer) for one in samples]
        return Row(f"{line}: {name}", unit, mine, theirs, times=times)

    return [
        row("the new shard joins", "s", lambda way: way.joined_s),
        row("slots move", "s", lambda way: way.moved_s, times=TIMES[line]),
        row("both", "s", lambda way: way.joined_s + way.moved_s),
        row("slots moved", "", lambda way: way.moved),
    ]


if __name__ == "__main__":
    sys.exit(main())
