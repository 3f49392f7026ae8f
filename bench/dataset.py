"""How long a dataset takes to come up, to change, and to fail over: `python -m bench.dataset`.

On the local cluster, for `replica` (three members, failed over by a Lease) and `failover` (three members and three
Sentinels): from nothing to Ready by `pulumi up --skip-preview`. Then, under a client that writes through the Service
`rw` once every 5 ms: a planned handover and a roll by `up`, a kill -9 of the primary's server, and a primary whose
server and agent freeze in the same moment, which is what the loss of a node is to the others. Each is told with its
seconds, its lost writes, and the longest time between two writes.

The peers: from nothing, a person with kubectl and valkey-cli who has the very same objects (see `hand_dataset`); where
there are Sentinels, a client that asks these instead of using the Service, through the same event. All samples go to
one JSON file in `bench/results/`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import hand, hand_dataset
from bench.record import save
from bench.table import Row, show
from tests.e2e.harness import dataset_probe, inside
from tests.e2e.harness.dataset import BOTH, FAILOVER, REPLICA, Dataset, client_of, small
from tests.e2e.harness.inside import AGENT, SERVER
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE, Sandbox

UP, HANDOVER, ROLL, KILL, LOST = "up", "handover", "roll", "kill -9 of the server", "server and agent frozen"
FAULTS = (KILL, LOST)
REPLICAS, SENTINELS = 2, 3
LEASE_S = 10.0
SECONDS = {(REPLICA, UP): 12.0, (FAILOVER, UP): 20.0}
#: Without writes at most, in ms. The Sentinels call a server down after 2 s; a Lease is valid for 10 s.
GAP_MS = {
    **{(one, scene): 1000.0 for one in BOTH for scene in (HANDOVER, ROLL)},
    (FAILOVER, KILL): 5000.0,
    (REPLICA, KILL): (LEASE_S + 2) * 1000,
    (REPLICA, LOST): (LEASE_S + 2) * 1000,
}
#: A handover and a roll lose nothing; what is in flight when a server is killed is a handful of writes.
MOST_LOST = {HANDOVER: 0, ROLL: 0, KILL: 5, LOST: 5}
#: How long the writer goes on after a fault, and how long before.
AFTER_S, BEFORE_S = 20.0, 2.0


@dataclass(frozen=True)
class Sample:
    """One change; `peer` says whose. `lost` are acknowledged writes that aren't there afterwards."""

    architecture: str
    scene: str
    peer: bool
    seconds: float
    lost: int = 0
    gap_ms: float = 0.0


@dataclass
class Life:
    """One dataset, and all that happens to it."""

    dataset: Dataset
    written: int = 0

    def during(self, scene: str, act: Callable[[], object], *, after_s: float = 0.5) -> Iterator[Sample]:
        """Do it while a client writes on each way to the primary, and wait until all is right again."""
        dataset = self.dataset
        self.written += 1
        with dataset.writing(first=self.written * 10_000_000) as records:
            time.sleep(BEFORE_S)
            began = time.monotonic()
            act()
            seconds = time.monotonic() - began
            # Nobody looks meanwhile: what is asked of the servers takes the writers' share of the processor.
            time.sleep(max(after_s, AFTER_S - seconds if scene in FAULTS else 0.0))
        dataset.healed()
        for record, peer in zip(records, (False, True), strict=False):
            yield _told(
                Sample(
                    dataset.architecture, scene, peer, round(seconds, 2), len(dataset.missing([record])), record.gap_ms
                )
            )

    def hand_over(self) -> Iterator[Sample]:
        """The primary's role is declared elsewhere."""
        there = int(self.dataset.ready().replicas[0].pod[-1])
        return self.during(HANDOVER, lambda: self.dataset.configured(primary=there))

    def roll(self) -> Iterator[Sample]:
        """Every Pod of the servers is replaced."""
        return self.during(ROLL, lambda: self.dataset.configured(restart=f"now-{self.written}"))

    def kill(self) -> Iterator[Sample]:
        """The primary's server is killed: its Pod stays, and the agent in it."""
        primary = self.dataset.primary()
        return self.during(KILL, lambda: self.dataset.kill_server(primary))

    def lose(self) -> Iterator[Sample]:
        """The primary's server and its agent freeze at the same time: nobody hands anything over."""
        primary, namespace = self.dataset.primary(), self.dataset.namespace
        both = [inside.one(namespace, primary, what) for what in (AGENT, SERVER)]

        def freeze() -> None:
            for process in both:
                process.freeze()

        def thaw() -> None:
            for process in both:
                process.thaw()

        try:
            yield from self.during(LOST, freeze)
        finally:
            thaw()


SCENES = {HANDOVER: Life.hand_over, ROLL: Life.roll, KILL: Life.kill, LOST: Life.lose}


def measure(kube: Kube, architecture: str, scenes: Sequence[str], *, by_hand: bool) -> Iterator[Sample]:
    """One run: a dataset from nothing, these scenes, and another one from nothing by hand."""
    with tempfile.TemporaryDirectory(prefix="valkey-bench-") as folder:
        sandbox = Sandbox(kube, Path(folder), f"bench-{architecture}")
        elsewhere = f"{sandbox.namespace}-hand"
        try:
            config = small(architecture)
            stack = sandbox.stack(config=config)
            seconds = stack.up().seconds
            watchers = SENTINELS if architecture == FAILOVER else 0
            dataset_probe.assert_ready(kube, stack.namespace, INSTANCE, REPLICAS, watchers)
            yield _told(Sample(architecture, UP, peer=False, seconds=round(seconds, 2)))
            objects = hand.manifests(kube, stack.namespace, INSTANCE)
            life = Life(Dataset(sandbox, stack, client_of(sandbox, stack), architecture, REPLICAS, watchers))
            for scene in scenes:
                yield from SCENES[scene](life)
            stack.destroy()
            if by_hand:
                kube.create_namespace(elsewhere, **{"pod-security.kubernetes.io/enforce": "restricted"})
                seconds = hand_dataset.make(kube, elsewhere, objects, REPLICAS, watchers)
                yield _told(Sample(architecture, UP, peer=True, seconds=round(seconds, 2)))
        finally:
            sandbox.close()
            kube.delete_namespace(elsewhere)
        for namespace in (sandbox.namespace, elsewhere):
            eventually(f"{namespace} goes", lambda name=namespace: kube.namespace(name) is None, timeout_s=120)


def _told(sample: Sample) -> Sample:
    print(json.dumps(asdict(sample)), flush=True)
    return sample


def main() -> int:
    """Measure, print a table, keep the samples. Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.dataset", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--architectures", default=",".join(BOTH), help="which of them, with commas between")
    parser.add_argument("--only", default="", help=f"only scenes whose name holds this: {', '.join(SCENES)}")
    parser.add_argument("--no-peer", action="store_true", help="leave out what is done by hand")
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    scenes = [name for name in SCENES if arguments.only in name]
    kube, samples = Kube(), list[Sample]()
    for _ in range(arguments.runs):
        for architecture in arguments.architectures.split(","):
            samples += measure(kube, architecture, scenes, by_hand=not arguments.no_peer)
    missed = show(list(_rows(samples)))
    if arguments.keep:
        save("dataset", samples)
    return 1 if missed else 0


def _rows(samples: Sequence[Sample]) -> Iterator[Row]:
    for architecture, scene in dict.fromkeys((sample.architecture, sample.scene) for sample in samples):
        those = [sample for sample in samples if (sample.architecture, sample.scene) == (architecture, scene)]
        yield from _rows_of(architecture, scene, those)


def _rows_of(architecture: str, scene: str, samples: Sequence[Sample]) -> Iterator[Row]:
    def row(name: str, unit: str, value: Callable[[Sample], float], most: float | None, *, worst: bool = False) -> Row:
        ours, peer = ([value(one) for one in samples if one.peer is peer] for peer in (False, True))
        return Row(f"{architecture}, {scene}: {name}", unit, ours, peer, most=most, worst=worst)

    if scene not in FAULTS:
        yield row("time", "s", lambda one: one.seconds, SECONDS.get((architecture, scene)))
    if scene != UP:
        yield row("longest gap", "ms", lambda one: one.gap_ms, GAP_MS.get((architecture, scene)))
        yield row("writes lost", "", lambda one: one.lost, MOST_LOST[scene], worst=True)


if __name__ == "__main__":
    sys.exit(main())
