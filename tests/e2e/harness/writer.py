"""A writer in the cluster that goes on while things happen: what was acknowledged, and the longest gap."""

import json
import subprocess
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
    stop = _STOP.format(writer=uuid.uuid4().hex)
    command = ["python", "/client/client.py", "record", host, str(first), str(every_ms), stop, str(wait)]
    process = subprocess.Popen(
        ["kubectl", "exec", "-n", namespace, pod, "-c", "client", "--", *command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said == "started\n", f"the writer didn't start: {said}{process.communicate()}"
    record = Record()
    try:
        yield record
        told = _end(process, namespace, pod, stop, end_s)
        missing = frozenset(told["unconfirmed"])
        numbers = range(told["first"], told["first"] + told["acknowledged"])
        record.acknowledged = tuple(number for number in numbers if number not in missing)
        record.gap_ms, record.gap_at_s, record.errors = told["gap_ms"], told["gap_at_s"], told["errors"]
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
