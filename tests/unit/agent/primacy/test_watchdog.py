"""watchdog.sh: what it ends, what it leaves alone, and that signals and ends pass through it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from valkeyctl.agent.primacy.fence import ALONE, FILE, Fence, boot_time

SCRIPT = Path(__file__).resolve().parents[4] / "components" / "watchdog.sh"
SERVER = """
trap 'echo asked >>"$VALKEY_RUN/said"; exit 7' TERM
echo started >>"$VALKEY_RUN/said"
while :; do sleep 0.05; done
"""


class Guarded:
    """A server that is none, started by the script."""

    def __init__(self, run: Path, **variables: str) -> None:
        self.run = run
        (run / "start.sh").write_text(SERVER)
        environment = {
            "PATH": os.environ["PATH"],
            "VALKEY_RUN": str(run),
            "VALKEY_START": str(run / "start.sh"),
            **variables,
        }
        self.process = subprocess.Popen(["sh", str(SCRIPT)], env=environment, start_new_session=True)

    def await_start(self) -> None:
        eventually(lambda: "started" in self.said)

    @property
    def said(self) -> str:
        said = self.run / "said"
        return said.read_text() if said.exists() else ""

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    Fence(tmp_path)
    server = Guarded(tmp_path, VALKEY_AUTOMATIC_FAILOVER="10")
    server.await_start()
    yield server
    server.end()


def eventually(holds: Callable[[], object], timeout_s: float = 20.0) -> float:
    began_at = time.monotonic()
    while not holds():
        assert time.monotonic() - began_at < timeout_s, "not in time"
        time.sleep(0.01)
    return time.monotonic() - began_at


def test_a_primary_is_ended_when_its_time_is_over(guarded: Guarded) -> None:
    until = boot_time() + 2.0
    Fence(guarded.run).arm(until)
    eventually(lambda: guarded.process.poll() is not None)
    assert guarded.process.returncode == 128 + signal.SIGKILL
    assert boot_time() >= until - 0.02
    assert "asked" not in guarded.said, "it isn't asked, it is killed"


def test_a_frozen_primary_is_ended_too(guarded: Guarded) -> None:
    server = int(subprocess.check_output(["pgrep", "-f", str(guarded.run / "start.sh")]).split()[0])
    os.kill(server, signal.SIGSTOP)
    Fence(guarded.run).arm(boot_time() + 1.5)
    eventually(lambda: guarded.process.poll() is not None)
    assert guarded.process.returncode == 128 + signal.SIGKILL


def test_a_primary_whose_time_goes_on_is_left_alone(guarded: Guarded) -> None:
    fence = Fence(guarded.run)
    for _ in range(8):
        fence.arm(boot_time() + 1.2)
        time.sleep(0.4)
        assert guarded.process.poll() is None


@pytest.mark.parametrize("state", ["replica", "alone"])
def test_others_are_left_alone(guarded: Guarded, state: str) -> None:
    fence = Fence(guarded.run)
    fence.arm(ALONE if state == "alone" else boot_time() + 1.3)
    if state == "replica":
        fence.stand_down()
    time.sleep(2.5)
    assert guarded.process.poll() is None


@pytest.mark.parametrize("text", [None, "", "primary", "primary soon", "whatever"])
def test_where_nothing_says_how_long_it_is_ended(guarded: Guarded, text: str | None) -> None:
    Fence(guarded.run).arm(boot_time() + 60)
    time.sleep(1.2)
    if text is None:
        (guarded.run / FILE).unlink()
    else:
        (guarded.run / FILE).write_text(text)
    eventually(lambda: guarded.process.poll() is not None)
    assert guarded.process.returncode == 128 + signal.SIGKILL


def test_what_was_said_of_the_server_before_it_does_not_count(tmp_path: Path) -> None:
    """That has ended; this one isn't let start before the agent has written something else."""
    (tmp_path / FILE).write_text("primary 100\n")
    server = Guarded(tmp_path, VALKEY_AUTOMATIC_FAILOVER="10")
    try:
        server.await_start()
        time.sleep(1.5)
        assert server.process.poll() is None
        fence = Fence(tmp_path)
        fence.stand_down()
        time.sleep(1.5)
        assert server.process.poll() is None
        (tmp_path / FILE).write_text("primary 100\n")
        eventually(lambda: server.process.poll() is not None)
    finally:
        server.end()


def test_a_request_to_end_is_passed_on_and_waited_for(guarded: Guarded) -> None:
    guarded.process.terminate()
    eventually(lambda: guarded.process.poll() is not None)
    assert guarded.process.returncode == 7
    assert "asked" in guarded.said


def test_it_ends_with_its_server(guarded: Guarded) -> None:
    server = int(subprocess.check_output(["pgrep", "-f", str(guarded.run / "start.sh")]).split()[0])
    os.kill(server, signal.SIGKILL)
    assert eventually(lambda: guarded.process.poll() is not None) < 5.0
    assert guarded.process.returncode == 128 + signal.SIGKILL


def test_without_automatic_failover_nothing_is_watched(tmp_path: Path) -> None:
    server = Guarded(tmp_path)
    try:
        server.await_start()
        time.sleep(1.2)
        assert server.process.poll() is None
        assert "start.sh" in Path(f"/proc/{server.process.pid}/cmdline").read_text(), "it has become the server"
    finally:
        server.end()
