"""How long `pulumi up` takes from nothing to Ready, beside the same by hand: `python -m bench.up`.

For each shape and run, on the local cluster with images present: `pulumi up --skip-preview` of a new stack in a new
namespace, a second `up`, and then the peer (see `hand`) with the very same Pods. Ready is what the tests' own probe
finds Ready, asked at the end of `up`. All samples go to one JSON file in `bench/results/`.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import hand
from bench.profile import chart
from bench.record import save
from bench.table import spread
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import Result
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small

BARS_S = {(3, 1): 10.0, (6, 1): 15.0}


@dataclass(frozen=True)
class Sample:
    """Seconds of one run: the first `up`, the second, and the same cluster by hand."""

    shards: int
    replicas: int
    up_s: float
    again_s: float
    hand_s: float


def measure(kube: Kube, shards: int, replicas: int, *, charts: list[str]) -> Sample:
    """One run of one shape. Appends the profiles of both updates to `charts`."""
    with tempfile.TemporaryDirectory(prefix="valkey-bench-") as folder:
        sandbox = Sandbox(kube, Path(folder), f"bench-{shards}x{replicas}")
        peer = f"{sandbox.namespace}-hand"
        try:
            stack = sandbox.stack(config=small(shards=shards, replicas=replicas))
            first = stack.up()
            probe.assert_ready(kube, sandbox.namespace, INSTANCE, shards, replicas)
            again = stack.up("--expect-no-changes")
            charts += [
                _chart(f"{shards}x{replicas}, from nothing", first),
                _chart(f"{shards}x{replicas}, again", again),
            ]
            objects = hand.manifests(kube, sandbox.namespace, INSTANCE)
            stack.destroy()
            _gone(kube, sandbox.namespace)
            kube.create_namespace(peer, **{"pod-security.kubernetes.io/enforce": "restricted"})
            by_hand = hand.make(kube, peer, INSTANCE, objects, shards=shards, replicas=replicas)
        finally:
            sandbox.close()
            kube.delete_namespace(peer)
        _gone(kube, sandbox.namespace)
        _gone(kube, peer)
    return Sample(shards, replicas, round(first.seconds, 2), round(again.seconds, 2), round(by_hand, 2))


def main() -> int:
    """Measure, print a table, keep the samples. Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.up", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--shapes", default="3x1,6x1", help="shards x replicas, with commas between")
    parser.add_argument("--charts", type=Path, help="write where the time went to this file")
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    shapes = [tuple(int(number) for number in shape.split("x")) for shape in arguments.shapes.split(",")]
    kube, samples, charts = Kube(), [], []
    for run in range(arguments.runs):
        for shards, replicas in shapes:
            sample = measure(kube, shards, replicas, charts=charts)
            samples.append(sample)
            print(f"run {run + 1}: {json.dumps(asdict(sample))}", flush=True)
            if arguments.charts:
                arguments.charts.write_text("\n\n".join(charts) + "\n")
    missed = _table(samples)
    if arguments.keep:
        save("up", samples)
    return 1 if missed else 0


def _table(samples: list[Sample]) -> bool:
    missed = False
    print(f"{'shape':<8}{'up':>22}{'up again':>22}{'by hand':>22}{'up / by hand':>14}")
    for shape in sorted({(sample.shards, sample.replicas) for sample in samples}):
        those = [sample for sample in samples if (sample.shards, sample.replicas) == shape]
        ratio = statistics.median(sample.up_s / sample.hand_s for sample in those)
        columns = [spread([getattr(sample, key) for sample in those], "s") for key in ("up_s", "again_s", "hand_s")]
        print(f"{shape[0]}x{shape[1]:<6}" + "".join(f"{column:>22}" for column in columns) + f"{ratio:>14.2f}")
        bar = BARS_S.get(shape)
        if bar and statistics.median(sample.up_s for sample in those) > bar:
            print(f"  missed: the median of `up` is above {bar:.0f} s")
            missed = True
    return missed


def _chart(title: str, result: Result) -> str:
    return f"## {title}\n\n```\n{chart(result.log.marks, result.seconds)}\n```"


def _gone(kube: Kube, namespace: str) -> None:
    eventually(f"namespace {namespace} goes", lambda: kube.namespace(namespace) is None, timeout_s=120)


if __name__ == "__main__":
    sys.exit(main())
