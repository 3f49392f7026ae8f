"""How long it takes to make a cluster of many fresh servers, beside valkey-cli: `python -m bench.form`.

Real servers without Kubernetes, all running before the clock starts. We form them by the converge that `up` calls, the
peer by `valkey-cli --cluster create … --cluster-replicas n`. Both end when every node knows every other, sees the same
slots, serves, and has its replicas in sync, as the tests' own probe finds it by asking each of them.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bench import fleet as servers
from bench.fleet import Probe
from bench.record import save
from bench.table import Row, show
from tests.dataplane.servers import LINES, Fleet
from valkeyctl.dataplane import Spec, converge
from valkeyctl.dataplane.errors import DeadlineExceeded

#: By how much we are faster, at least. One that isn't here has no bar.
TIMES = {(32, 1): 1 / 0.6}
GIVE_UP_S = 180.0


@dataclass(frozen=True)
class Sample:
    """Seconds of one run of one shape, until every node agreed; None where that took too long."""

    line: str
    shards: int
    replicas: int
    ours_s: float | None
    peer_s: float | None


def ours(fleet: Fleet, spec: Spec, asked: Probe) -> None:
    """Form it as `up` does."""
    converge(
        spec,
        fleet.directory,
        fleet.dialer,
        deadline_s=GIVE_UP_S,
        progress=lambda _: None,
        may_go_on=lambda: None,
    )
    asked.await_right(spec.shards, spec.replicas)


def by_cli(fleet: Fleet, spec: Spec, asked: Probe) -> None:
    """Form it with valkey-cli, which takes the first nodes that it is given as primaries."""
    members = sorted(spec.members, key=lambda member: (member.ordinal, member.shard))
    addresses = [servers.address(fleet, member) for member in members]
    servers.cli("create", *addresses, "--cluster-replicas", str(spec.replicas), "--cluster-yes")
    asked.await_right(spec.shards, spec.replicas, any_shard=True)


def measure(line: str, shards: int, replicas: int) -> Sample:
    """One run: the same cluster in both ways, of servers of its own each."""
    spec = servers.spec_of(shards, replicas, formed=False)
    return Sample(line, shards, replicas, *(_seconds(way, spec, line) for way in (ours, by_cli)))


def _seconds(way: Callable[[Fleet, Spec, Probe], None], spec: Spec, line: str) -> float | None:
    with servers.fleet_of(spec, line) as fleet:
        servers.start(fleet)
        with Probe(fleet) as asked:
            began = time.monotonic()
            try:
                way(fleet, spec, asked)
            except (DeadlineExceeded, TimeoutError, subprocess.TimeoutExpired) as error:
                # More servers than the machine bears: the other way, and the other shapes, are measured all the same.
                print(f"{way.__name__}: {str(error)[:300]}", flush=True)
                return None
            return round(time.monotonic() - began, 2)


def main() -> int:
    """Measure, print a table, keep the samples. Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.form", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shapes", default="32x1,128x0", help="shards x replicas, with commas between")
    parser.add_argument("--only", default="", help="only the release lines whose name holds this")
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    servers.require_cli()
    shapes = [(int(a), int(b)) for a, b in (shape.split("x") for shape in arguments.shapes.split(","))]
    kinds = [(line, *shape) for shape in shapes for line in LINES if arguments.only in line]
    samples: list[Sample] = []
    for run in range(arguments.runs):
        for kind in kinds:
            samples.append(measure(*kind))
            print(f"run {run + 1}: {json.dumps(asdict(samples[-1]))}", flush=True)
    missed = show(
        [_row(kind, [one for one in samples if (one.line, one.shards, one.replicas) == kind]) for kind in kinds]
    )
    if arguments.keep:
        save("form", samples)
    return 1 if missed else 0


def _row(kind: tuple[str, int, int], samples: Sequence[Sample]) -> Row:
    line, shards, replicas = kind
    mine = [one.ours_s if one.ours_s is not None else GIVE_UP_S for one in samples]
    theirs = [one.peer_s if one.peer_s is not None else GIVE_UP_S for one in samples]
    return Row(f"{line}: {shards} shards x {replicas} replicas", "s", mine, theirs, times=TIMES.get((shards, replicas)))


if __name__ == "__main__":
    sys.exit(main())
