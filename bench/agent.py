"""What the agents do when something breaks, beside the same cluster with its agents frozen: `python -m bench.agent`.

Each scene makes a cluster of 3 shards with a replica each on the local cluster, lets a client write (once every 5 ms),
breaks something, and tells how many acknowledged writes were lost, how long writes stopped at most, and after how long
every node was right again without anybody's help. The peer is the server alone: the same with all agents stopped.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.e2e.harness import inside
from tests.e2e.harness.breakable import Breakable
from tests.e2e.harness.client import Client
from tests.e2e.harness.inside import AGENT
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small

RESULTS = Path(__file__).parent / "results"
NODE_TIMEOUT_MS = 2000
GIVE_UP_S, PEER_GIVE_UP_S = 90.0, 20.0
"""The peer, which nobody helps, is either right again soon or stays as it is."""
#: How long the writer goes on after the fault: long enough for the server's own election.
AFTER_S = 8.0


@dataclass(frozen=True)
class Scene:
    """A fault, and its bars: lost acknowledged writes, gap in ms, seconds until whole. None: no bar."""

    name: str
    config: dict[str, object]
    act: Callable[[Breakable], None]
    wait: int = 0
    written_s: float = 3.0
    most_lost: int | None = None
    most_gap_ms: float | None = None
    most_whole_s: float | None = None
    writes: bool = True


@dataclass(frozen=True)
class Sample:
    """One run of one scene. `whole_s` is None where it wasn't whole again within the time."""

    scene: str
    agents: bool
    lost: int
    gap_ms: float
    whole_s: float | None


def _scenes() -> tuple[Scene, ...]:
    gap = NODE_TIMEOUT_MS + 1500.0
    own = {"cluster-node-timeout": NODE_TIMEOUT_MS}
    plain: dict[str, object] = {"config": own}
    disks: dict[str, object] = {**plain, "persistence": {"size": "64Mi"}}
    snapshots: dict[str, object] = {**disks, "config": {**own, "appendonly": "no", "save": "1 1"}}
    return (
        Scene("kill -9 of a primary", plain, lambda b: b.kill(b.primaries()[:1]), most_lost=5, most_gap_ms=gap),
        Scene(
            "the same after 60 s",
            plain,
            lambda b: b.kill(b.primaries()[:1]),
            written_s=60,
            most_lost=5,
            most_gap_ms=gap,
        ),
        Scene("the same with snapshots", snapshots, lambda b: b.kill(b.primaries()[:1]), most_lost=5, most_gap_ms=gap),
        Scene("the same with WAIT 1", plain, lambda b: b.kill(b.primaries()[:1]), wait=1, most_lost=0, most_gap_ms=gap),
        Scene("kill -9 of three primaries", plain, lambda b: b.kill(b.primaries()[:3])),
        Scene(
            "a primary's Pod deleted",
            plain,
            lambda b: b.delete(b.primaries()[:1]),
            most_lost=0,
            most_gap_ms=300,
            most_whole_s=8,
        ),
        Scene("all Pods deleted", plain, lambda b: b.delete(b.nodes()), most_whole_s=12, writes=False),
        Scene(
            "all Pods deleted, with volumes",
            disks,
            lambda b: b.delete(b.nodes()),
            most_whole_s=15,
            most_lost=0,
            writes=False,
        ),
    )


def measure(kube: Kube, scene: Scene, *, agents: bool) -> Sample:
    """One run of one scene on a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="valkey-bench-") as folder:
        sandbox = Sandbox(kube, Path(folder), "bench-agent")
        frozen: list[inside.Process] = []
        try:
            stack = sandbox.stack(config=small(**scene.config))
            stack.up()
            broken, client = Breakable(kube, sandbox.namespace), sandbox.client(stack)
            if not agents:
                frozen += inside.find(sandbox.namespace, AGENT).values()
                for process in frozen:
                    process.freeze()
            return _played(scene, broken, client, agents=agents)
        finally:
            for process in frozen:
                process.thaw()
            sandbox.close()


def _played(scene: Scene, broken: Breakable, client: Client, *, agents: bool) -> Sample:
    give_up_s = GIVE_UP_S if agents else PEER_GIVE_UP_S
    if not scene.writes:
        acknowledged = client.write(INSTANCE, 3000)
        began = time.monotonic()
        scene.act(broken)
        whole_s, gap_ms = _whole_after(broken, began, give_up_s), 0.0
    else:
        with ThreadPoolExecutor(1) as pool, client.writing(INSTANCE, wait=scene.wait) as record:
            time.sleep(scene.written_s)
            began = time.monotonic()
            scene.act(broken)
            # Not looked at in the first moment: to ask every node takes the writer's share of the CPU.
            looking = pool.submit(_whole_after, broken, began, give_up_s, first_s=2.5, pause_s=0.5)
            time.sleep(max(0.0, AFTER_S - (time.monotonic() - began)))
        whole_s, acknowledged, gap_ms = looking.result(), list(record.acknowledged), record.gap_ms
    lost = len(client.lost(INSTANCE, acknowledged)) if whole_s is not None else -1
    return Sample(scene.name, agents, lost, gap_ms, whole_s)


def _whole_after(
    broken: Breakable, began: float, give_up_s: float, *, first_s: float = 0.2, pause_s: float = 0.1
) -> float | None:
    """Seconds from the fault until every node is right; None where that takes too long."""
    time.sleep(first_s)
    while time.monotonic() - began < give_up_s:
        if broken.whole():
            return round(time.monotonic() - began, 1)
        time.sleep(pause_s)
    return None


@dataclass(frozen=True)
class Rest:
    """One agent at rest: memory in MiB, CPU in percent of a core."""

    memory_mib: float
    cpu_percent: float


def rest(kube: Kube, seconds: float = 60.0) -> list[Rest]:
    """What the agents of a cluster cost while nothing happens."""
    with tempfile.TemporaryDirectory(prefix="valkey-bench-") as folder:
        sandbox = Sandbox(kube, Path(folder), "bench-rest")
        try:
            sandbox.stack(config=small()).up()
            time.sleep(10)
            agents = inside.find(sandbox.namespace, AGENT)
            before = {pod: process.cpu_s for pod, process in agents.items()}
            time.sleep(seconds)
            return [
                Rest(round(process.memory_bytes / 2**20, 1), round((process.cpu_s - before[pod]) / seconds * 100, 2))
                for pod, process in agents.items()
            ]
        finally:
            sandbox.close()


def main() -> int:
    """Measure, print a table, keep the samples. Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="only scenes whose name holds this")
    parser.add_argument("--no-peer", action="store_true", help="leave out the runs with frozen agents")
    parser.add_argument("--keep", action="store_true", help="keep the samples in bench/results/")
    arguments = parser.parse_args()
    kube, samples = Kube(), list[Sample]()
    scenes = [scene for scene in _scenes() if arguments.only in scene.name]
    resting = [] if arguments.only else rest(kube)
    for one in resting:
        print(f"at rest: {one.memory_mib} MiB, {one.cpu_percent} % of a core", flush=True)
    for _ in range(arguments.runs):
        for scene in scenes:
            peers = (True,) if arguments.no_peer or scene.most_whole_s else (True, False)
            for agents in peers:
                samples.append(measure(kube, scene, agents=agents))
                print(json.dumps(asdict(samples[-1])), flush=True)
    missed = [line for scene in scenes for line in _judge(scene, samples)]
    if any(one.memory_mib > 48 or one.cpu_percent > 0.5 for one in resting):
        missed.append("at rest: more than 48 MiB or 0.5 % of a core")
    print("\n".join(missed) or "every bar is met")
    if arguments.keep:
        _save(samples, resting)
    return 1 if missed else 0


def _judge(scene: Scene, samples: list[Sample]) -> list[str]:
    """What is above its bar: the median of gaps and times, and the worst of losses."""
    those = [sample for sample in samples if sample.scene == scene.name and sample.agents]
    whole = [sample.whole_s if sample.whole_s is not None else GIVE_UP_S for sample in those]
    found = (
        ("lost", max(sample.lost for sample in those), scene.most_lost),
        ("gap in ms", statistics.median(sample.gap_ms for sample in those), scene.most_gap_ms),
        ("seconds until whole", statistics.median(whole), scene.most_whole_s),
    )
    lines = [
        f"{scene.name}: {name} {value}, the bar is {bar}"
        for name, value, bar in found
        if bar is not None and value > bar
    ]
    return lines + ([f"{scene.name}: not whole again"] if max(whole) >= GIVE_UP_S else [])


def _save(samples: list[Sample], resting: list[Rest]) -> None:
    RESULTS.mkdir(exist_ok=True)
    record = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "rest": [asdict(one) for one in resting],
        "samples": [asdict(sample) for sample in samples],
    }
    path = RESULTS / f"agent-{time.strftime('%Y-%m-%d')}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"kept in {path}")


if __name__ == "__main__":
    raise SystemExit(main())
