"""How long a living cluster takes to change, and what its clients notice of it: `python -m bench.life`.

On the local cluster: an instance of three shards with a replica each, full of keys, and a client that writes once every
5 ms. `pulumi up --skip-preview` scales it out and in, rolls it, mends a roll that is stuck, and moves a primary's role.
Each is told with its seconds, its lost writes, and the longest time between two writes. The peer is a person with
kubectl and valkey-cli (see `hand_life`). All samples go to one JSON file in `bench/results/`.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench import hand, hand_life
from bench.hand_life import REPLICAS, SHARDS
from bench.record import save
from bench.table import Row, show
from tests.e2e.harness import probe
from tests.e2e.harness.client import Client
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.program import Stack
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small
from tests.e2e.test_roll import NO_IMAGE, ROLL_S, uids

Objects = list[dict[str, Any]]
OUT, IN, ROLL, MEND, HANDOVER = "scale-out 3→4", "scale-in 4→3", "roll", "mend", "handover"
#: Seconds of `up`, and milliseconds of the longest gap, at most.
SECONDS = {OUT: 12.0, IN: 10.0, ROLL: 40.0, MEND: 60.0}
GAP_MS = {ROLL: 100.0, HANDOVER: 100.0}
FEWEST = probe.SLOTS // (SHARDS + 1)
MEMORY = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}}


@dataclass(frozen=True)
class Sample:
    """One change. `lost` are acknowledged writes and filled keys, `moved` slots that have another shard after it."""

    scene: str
    by_hand: bool
    seconds: float
    lost: int
    gap_ms: float
    moved: int


@dataclass
class Watched:
    """An instance that a client writes to while something is done to it."""

    kube: Kube
    namespace: str
    client: Client
    keys: int
    written: int = 0
    _writers: Iterator[int] = field(default_factory=lambda: itertools.count(1_000_000, 1_000_000))

    def fill(self, size: int) -> None:
        """Give it its keys."""
        self.client.fill(INSTANCE, self.keys, size)

    def during(self, scene: str, act: Callable[[], float], *, by_hand: bool = False, shards: int = SHARDS) -> Sample:
        """Do it, under a writer; afterwards there are `shards`, and every node is right. Judges what became of keys."""
        before = self._layout()
        with self.client.writing(INSTANCE, first=next(self._writers)) as record:
            seconds = act()
        # What is asked while it writes takes the writer's share of the processor.
        if by_hand:
            hand.await_right(self.kube, self.namespace, INSTANCE, shards, REPLICAS, started=time.monotonic())
        else:
            probe.assert_ready(self.kube, self.namespace, INSTANCE, shards, REPLICAS)
        lost = len(self.client.lost(INSTANCE, record.acknowledged))
        self.written += len(record.acknowledged) - lost
        lost += max(0, self.keys + self.written - self.client.count(INSTANCE))
        after = self._layout()
        moved = sum(len(slots - after.get(shard, frozenset())) for shard, slots in before.items())
        sample = Sample(scene, by_hand, round(seconds, 2), lost, record.gap_ms, moved)
        print(json.dumps(asdict(sample), ensure_ascii=False), flush=True)
        return sample

    def _layout(self) -> dict[int, frozenset[int]]:
        return probe.layout(probe.ask_those_that_answer(self.kube, self.namespace, INSTANCE))


@dataclass
class Life:
    """One run: an instance by `up`, and all that happens to it."""

    kube: Kube
    sandbox: Sandbox
    stack: Stack
    watched: Watched
    peer: bool
    config: dict[str, Any]
    #: The objects of three shards, and those of four, for the peer.
    objects: list[Objects] = field(default_factory=list[Objects])

    def up(self, **changes: Any) -> float:
        """Declare these changes; seconds of the `up` that makes them."""
        self.config = {**self.config, **changes}
        self.stack.configure({INSTANCE: self.config})
        return self.stack.up(timeout_s=ROLL_S).seconds

    def scale(self) -> Iterator[Sample]:
        """One shard more, and it goes again."""
        self._remember_objects()
        yield self.watched.during(OUT, lambda: self.up(shards=SHARDS + 1), shards=SHARDS + 1)
        self._remember_objects()
        yield self.watched.during(IN, lambda: self.up(shards=SHARDS))

    def roll(self) -> Iterator[Sample]:
        """Every Pod is replaced."""
        yield self.watched.during(ROLL, lambda: self.up(restart="now"))
        if self.peer:
            by_hand = partial(hand_life.roll, self.kube, self.sandbox.namespace)
            yield self.watched.during(ROLL, by_hand, by_hand=True)

    def mend(self) -> Iterator[Sample]:
        """A roll is stuck at an image that isn't there, and another shard's replica is lost; then it is corrected."""
        namespace, good = self.sandbox.namespace, self.config
        before = uids(self.kube, namespace)
        self.stack.configure({INSTANCE: {**good, "image": NO_IMAGE}})
        self.stack.up(expect=-1, timeout_s=ROLL_S)
        now = uids(self.kube, namespace)
        stuck = {pod for pod in now if now[pod] != before.get(pod)}
        if len(stuck) != 1:
            raise RuntimeError(f"the roll didn't stop at the first Pod: {sorted(stuck)}")
        nodes = probe.ask_those_that_answer(self.kube, namespace, INSTANCE)
        lost = next(node.pod for node in nodes.values() if not node.is_primary and node.pod not in stuck)
        self.kube.delete("pods", namespace, lost, grace_s=0)
        eventually(
            f"{lost} comes back", lambda: uids(self.kube, namespace).get(lost) not in (None, now[lost]), timeout_s=60
        )
        yield self.watched.during(MEND, self.up)

    def hand_over(self) -> Iterator[Sample]:
        """The role of one shard's primary is declared elsewhere."""
        yield self.watched.during(HANDOVER, lambda: self.up(primaries={0: self._other_than_primary(0)}))
        if self.peer:
            by_hand = partial(hand_life.hand_over, self.kube, self.sandbox.namespace, 1)
            yield self.watched.during(HANDOVER, by_hand, by_hand=True)

    def _other_than_primary(self, shard: int) -> int:
        nodes = probe.ask(self.kube, self.sandbox.namespace, INSTANCE)
        return int(probe.replica_of(nodes, shard).pod.rsplit("-", 1)[1])

    def _remember_objects(self) -> None:
        self.objects.append(hand.manifests(self.kube, self.sandbox.namespace, INSTANCE))


SCENES: Mapping[str, Callable[[Life], Iterator[Sample]]] = {
    "scale": Life.scale,
    "roll": Life.roll,
    "mend": Life.mend,
    HANDOVER: Life.hand_over,
}


def measure(kube: Kube, scenes: Sequence[str], keys: int, size: int, *, peer: bool) -> list[Sample]:
    """One run of these scenes, on one instance, and of their peers."""
    with tempfile.TemporaryDirectory(prefix="valkey-bench-") as folder:
        sandbox = Sandbox(kube, Path(folder), "bench-life")
        by_hand = f"{sandbox.namespace}-hand"
        try:
            config = small(shards=SHARDS, replicas=REPLICAS, resources=MEMORY)
            stack = sandbox.stack(config=config)
            stack.up()
            watched = Watched(kube, sandbox.namespace, sandbox.client(stack), keys)
            watched.fill(size)
            life = Life(kube, sandbox, stack, watched, peer, config)
            samples = [sample for scene in scenes for sample in SCENES[scene](life)]
            if peer and life.objects:
                output = stack.outputs()[INSTANCE]
                stack.destroy()
                kube.create_namespace(by_hand, **{"pod-security.kubernetes.io/enforce": "restricted"})
                three, four = life.objects
                hand.make(kube, by_hand, INSTANCE, three, shards=SHARDS, replicas=REPLICAS)
                client = Client(kube, by_hand, output["secretName"], output.get("secretKey", "password"))
                samples += _scaled_by_hand(Watched(kube, by_hand, client, keys), size, four)
        finally:
            sandbox.close()
            kube.delete_namespace(by_hand)
        for namespace in (sandbox.namespace, by_hand):
            eventually(f"{namespace} goes", lambda name=namespace: kube.namespace(name) is None, timeout_s=120)
    return samples


def _scaled_by_hand(watched: Watched, size: int, four: Objects) -> Iterator[Sample]:
    watched.fill(size)
    kube, namespace = watched.kube, watched.namespace
    out, back = partial(hand_life.scale_out, kube, namespace, four), partial(hand_life.scale_in, kube, namespace)
    yield watched.during(OUT, out, by_hand=True, shards=SHARDS + 1)
    yield watched.during(IN, back, by_hand=True)


def main() -> int:
    """Measure, print a table, keep the samples. Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.life", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help=f"only scenes whose name holds this: {', '.join(SCENES)}")
    parser.add_argument("--no-peer", action="store_true", help="leave out what is done by hand")
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a value")
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    scenes = [name for name in SCENES if arguments.only in name]
    kube, samples = Kube(), list[Sample]()
    for _ in range(arguments.runs):
        samples += measure(kube, scenes, arguments.keys, arguments.size, peer=not arguments.no_peer)
    missed = show(list(_rows(samples)))
    if arguments.keep:
        save("life", samples, keys=arguments.keys, size=arguments.size)
    return 1 if missed else 0


def _rows(samples: Sequence[Sample]) -> Iterator[Row]:
    for scene in dict.fromkeys(sample.scene for sample in samples):
        yield from _rows_of(scene, [sample for sample in samples if sample.scene == scene])


def _rows_of(scene: str, samples: Sequence[Sample]) -> Iterator[Row]:
    def row(name: str, unit: str, value: Callable[[Sample], float], most: float | None, *, worst: bool = False) -> Row:
        ours, peer = ([value(one) for one in samples if one.by_hand is by_hand] for by_hand in (False, True))
        return Row(f"{scene}: {name}", unit, ours, peer, most=most, worst=worst)

    yield row("time", "s", lambda one: one.seconds, SECONDS.get(scene))
    yield row("longest gap", "ms", lambda one: one.gap_ms, GAP_MS.get(scene))
    yield row("writes lost", "", lambda one: one.lost, 0, worst=True)
    if scene in (OUT, IN):
        yield row("slots moved", "", lambda one: one.moved, FEWEST, worst=True)


if __name__ == "__main__":
    sys.exit(main())
