"""Agents that end, freeze and come back, beside servers that do the same."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

from tests.agent import scenes
from tests.agent.pods import CHECKOUT, Pods, eventually
from tests.dataplane.scenes import key_in
from valkeyctl.dataplane import Member

SPEC = scenes.SPEC
#: Measured: see there. Its questions to the server and the turns of its threads, each some times a second.
WAKES_IN_A_SECOND = 25
ONE, OTHER = Member(0, 0), Member(0, 1)


def test_an_agent_that_ends_leaves_its_server_alone() -> None:
    with Pods(SPEC, "9.1") as pods:
        scenes.formed(pods)
        pod = pods.pods[ONE]
        before = pods.ask(ONE, "INFO", "server")
        pod.kill_agent()
        pods.ask(ONE, "SET", key_in(SPEC.layout[0], 1), "x")
        pod.start_agent()
        eventually(lambda: pod.probe("/ready")[0] == 200, pods)
        assert _run_id(pods.ask(ONE, "INFO", "server")) == _run_id(before)


def test_a_server_that_died_beside_a_dead_agent_waits_for_the_next_agent() -> None:
    """And doesn't start before: its replica takes over by the servers' own election meanwhile."""
    with Pods(SPEC, "9.1") as pods:
        scenes.formed(pods)
        keys = scenes.fill(pods, 0)
        pod = pods.pods[ONE]
        pod.kill_agent()
        pod.kill_server()
        eventually(lambda: scenes.is_primary(pods, OTHER), pods)
        time.sleep(1.0)
        assert not pod.listens()
        pod.start_agent()
        eventually(lambda: scenes.ready(pods) and not scenes.is_primary(pods, ONE), pods)
        assert scenes.held_by(pods, OTHER, keys)


def test_a_frozen_agent_holds_its_server_until_it_thaws() -> None:
    with Pods(SPEC, "9.1") as pods:
        scenes.formed(pods)
        keys = scenes.fill(pods, 0)
        pod = pods.pods[ONE]
        assert pod.agent is not None
        pod.agent.send_signal(signal.SIGSTOP)
        pod.kill_server()
        eventually(lambda: scenes.is_primary(pods, OTHER), pods)
        assert not pod.listens()
        pod.agent.send_signal(signal.SIGCONT)
        eventually(lambda: scenes.ready(pods) and not scenes.is_primary(pods, ONE), pods)
        assert scenes.held_by(pods, OTHER, keys)


def test_ends_at_once_when_it_is_asked_to() -> None:
    with Pods(SPEC, "9.1") as pods:
        scenes.formed(pods)
        pod = pods.pods[ONE]
        assert pod.agent is not None
        pod.agent.terminate()
        assert pod.agent.wait(5) == 0


def test_a_container_that_waits_ends_when_it_is_asked_to() -> None:
    """It is the first process of its container, for which SIGTERM does nothing by itself."""
    with Pods(SPEC, "9.1") as pods:
        scenes.formed(pods)
        pod = pods.pods[ONE]
        pod.kill_agent()
        pod.stopped = True
        pod.kill_server()
        script = str(CHECKOUT / "components" / "start.sh")
        waiting = subprocess.Popen(["sh", script], env=pod.environment)
        time.sleep(0.5)
        assert waiting.poll() is None
        waiting.terminate()
        assert waiting.wait(5) == 143


def test_hardly_wakes_at_rest() -> None:
    """How often its threads wake doesn't depend on the machine; what that costs of a processor is measured in bench."""
    with Pods(SPEC, "9.1") as pods:
        scenes.formed(pods)
        time.sleep(3.0)
        before = {member: _wakes(pod.agent) for member, pod in pods.pods.items()}
        time.sleep(10.0)
        in_a_second = {member: (_wakes(pod.agent) - before[member]) / 10.0 for member, pod in pods.pods.items()}
        assert max(in_a_second.values()) < WAKES_IN_A_SECOND, in_a_second
        assert min(in_a_second.values()) > 0, "nobody is watching"


def _run_id(info: object) -> str:
    return next(line for line in str(info).splitlines() if line.startswith("run_id:"))


def _wakes(process: subprocess.Popen[bytes] | None) -> int:
    """How often the threads that a process has now have gone to sleep since they began."""
    assert process is not None
    statuses = Path(f"/proc/{process.pid}/task").glob("*/status")
    return sum(int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)$", one.read_text(), re.M)[0]) for one in statuses)
