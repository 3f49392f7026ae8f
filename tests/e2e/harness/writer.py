"""Writers in the cluster that go on while things happen: what was acknowledged, by whom, and the longest gap."""

import json
import subprocess
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.harness.environment import environment

_STOP = "/tmp/stop-{writer}"  # noqa: S108 - in the client's own Pod
END_S = 60


@dataclass
class Record:
    """Filled in when the writer has ended. `gap_ms`: the longest time between two acknowledged writes."""

    acknowledged: tuple[int, ...] = ()
    gap_ms: float = 0.0
    gap_at_s: float = 0.0
    errors: dict[str, int] | None = None


@dataclass(frozen=True)
class Taken:
    """A write that a server took: its number, and when it was sent and acknowledged, in seconds of one clock."""

    number: int
    sent_s: float
    acknowledged_s: float


@dataclass
class Rivals:
    """Filled in when the writer has ended: what each server took, at its own address, in the order of time."""

    taken: dict[str, list[Taken]] = field(default_factory=dict[str, list[Taken]])


@contextmanager
def writing(
    namespace: str,
    pod: str,
    host: str,
    *,
    first: int = 1_000_000,
    every_ms: float = 5,
    wait: int = 0,
    end_s: float = END_S,
) -> Generator[Record]:
    """Writes one key every `every_ms` for as long as the block runs; the record is complete after it.

    `wait`: replicas that must confirm a write before it counts. `first` is the first key's number, by which the keys of
    several writers are told apart. `end_s`: how long it may take to notice that it is to end, which is long where no
    server is left: its library tries all that it knew, several times.
    """
    record = Record()
    with _running(namespace, pod, ["record", host, str(first), str(every_ms)], [str(wait)], end_s) as told:
        yield record
    missing = frozenset(told["unconfirmed"])
    numbers = range(told["first"], told["first"] + told["acknowledged"])
    record.acknowledged = tuple(number for number in numbers if number not in missing)
    record.gap_ms, record.gap_at_s, record.errors = told["gap_ms"], told["gap_at_s"], told["errors"]


@contextmanager
def rivalling(
    namespace: str, pod: str, hosts: Iterable[str], *, first: int, every_ms: float = 20, end_s: float = END_S
) -> Generator[Rivals]:
    """Writes to each of these servers at its own address, for as long as the block runs; complete after it.

    It goes on, and what it has found stays, while the Pod's node can't be reached.
    """
    stop = _STOP.format(writer=uuid.uuid4().hex)
    command = f"python /client/client.py rivals {','.join(hosts)} {first} {every_ms} {stop}"
    _shell(namespace, pod, f"setsid {command} >{stop}.out 2>{stop}.err </dev/null & sleep 1; grep started {stop}.err")
    found = Rivals()
    yield found
    # It prints all at once, at its end.
    waiting = f"n=0; while [ ! -s {stop}.out ] && [ $n -lt {end_s:.0f} ]; do n=$((n+1)); sleep 1; done"
    told = json.loads(_shell(namespace, pod, f"touch {stop}; {waiting}; sleep 1; cat {stop}.out"))
    found.taken = {host: [Taken(*each) for each in writes] for host, writes in told.items()}


def _shell(namespace: str, pod: str, script: str) -> str:
    done = subprocess.run(
        ["kubectl", "exec", "-n", namespace, pod, "-c", "client", "--", "sh", "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * END_S,
    )
    assert done.returncode == 0, f"{script}: {done.stdout[:500]}{done.stderr}"
    return done.stdout


@contextmanager
def _running(namespace: str, pod: str, command: list[str], more: list[str], end_s: float) -> Generator[dict[str, Any]]:
    """A command of the client's script for as long as the block runs; what it printed is complete after it."""
    stop = _STOP.format(writer=uuid.uuid4().hex)
    inside = ["python", "/client/client.py", *command, stop, *more]
    process = subprocess.Popen(
        ["kubectl", "exec", "-n", namespace, pod, "-c", "client", "--", *inside],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said == "started\n", f"the writer didn't start: {said}{process.communicate()}"
    told: dict[str, Any] = {}
    try:
        yield told
        told.update(_end(process, namespace, pod, stop, end_s))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


def _end(process: subprocess.Popen[str], namespace: str, pod: str, stop: str, end_s: float) -> dict[str, Any]:
    subprocess.run(
        ["kubectl", "exec", "-n", namespace, pod, "-c", "client", "--", "touch", stop],
        env=environment(),
        check=True,
        timeout=END_S,
    )
    out, err = process.communicate(timeout=end_s)
    assert process.returncode == 0, f"the writer failed: {out}{err}"
    return json.loads(out)
