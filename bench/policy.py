"""What the policy pack costs a preview: `python -m bench.policy`.

Previews production's stack with one cluster of 16 shards and 2 replicas, not deployed, with the pack and without (the
peer), one after the other in each run. Tells how long the pack takes to load, and what it adds once it is loaded.
"""

import argparse
import copy
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.record import save
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import Sandbox
from tests.e2e.test_policies_environments import Environment

LOADS_IN_S, ADDS_S = 3.0, 1.0
PACK = ("--policy-pack", "policies", "--policy-pack-config", "policies/profiles/prod.json")


@dataclass(frozen=True)
class Sample:
    """Seconds of one run: a preview without the pack, one with it, and of that, until the pack was loaded."""

    bare_s: float
    judged_s: float
    load_s: float

    @property
    def added_s(self) -> float:
        """What judging adds, loading apart."""
        return self.judged_s - self.bare_s - self.load_s


def measure(environment: Environment) -> Sample:
    """One run."""
    bare = environment.stack.run("preview").seconds
    started = time.monotonic()
    running = environment.stack.start("preview", *PACK)
    while "Loading policy packs...: done" not in running.output() and running.process.poll() is None:
        time.sleep(0.02)
    load = time.monotonic() - started
    judged = environment.stack.finish(running).seconds
    return Sample(round(bare, 2), round(judged, 2), round(load, 2))


def main() -> int:
    """Measure, and say whether the bars are met. Exit code 1 when one is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.policy", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="valkey-bench-") as folder:
        sandbox = Sandbox(Kube(), Path(folder), "bench-policy")
        try:
            environment = Environment(sandbox, "prod")
            config = copy.deepcopy(environment.config)
            catalog = config["valkey:instances"]["catalog"]
            config["valkey:instances"] = {"catalog": {**catalog, "shards": 16, "replicas": 2}}
            environment.declare(config)
            samples = [measure(environment) for _ in range(arguments.runs)]
        finally:
            sandbox.close()
    for sample in samples:
        print(json.dumps(asdict(sample)))
    load, added = (statistics.median(values) for values in zip(*((s.load_s, s.added_s) for s in samples), strict=True))
    print(f"median: loads in {load:.2f} s (bar {LOADS_IN_S}), adds {added:.2f} s (bar {ADDS_S})")
    if arguments.keep:
        save("policy", samples)
    return int(load > LOADS_IN_S or added > ADDS_S)


if __name__ == "__main__":
    raise SystemExit(main())
