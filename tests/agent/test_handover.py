"""Handing over before a stop, for servers that don't do it themselves."""

from __future__ import annotations

import subprocess
import time

from tests.agent import scenes
from tests.agent.pods import CHECKOUT, NODE_TIMEOUT_MS, Pod, Pods, eventually
from tests.agent.writer import Writer
from valkeyctl.dataplane import Member

SPEC = scenes.SPEC
ONE, OTHER = Member(0, 0), Member(0, 1)


def hook(pod: Pod, within_s: float = 20.0) -> str:
    """Run the preStop hook as a kubelet does; what it says."""
    done = subprocess.run(
        ["sh", str(CHECKOUT / "components" / "handover.sh")],
        env={**pod.environment, "VALKEY_HANDOVER_S": "2"},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=True,
    )
    return done.stdout.strip()


def test_hands_over_and_stops_with_nothing_lost() -> None:
    with Pods(SPEC, "8.1") as pods:
        scenes.formed(pods)
        pod = pods.pods[ONE]
        with Writer(pods, 0) as writer:
            time.sleep(0.5)
            began = time.monotonic()
            told = hook(pod)
            took_s = time.monotonic() - began
            pod.stopped = True
            pod.kill_server()
            time.sleep(1.0)
        print(f"handed over in {took_s * 1000:.0f} ms, gap {writer.gap_s * 1000:.0f} ms")  # noqa: T201
        assert told == "handover.sh: handed over: the server is a replica now"
        assert scenes.is_primary(pods, OTHER)
        assert writer.lost(OTHER) == []
        # An election of the servers' own couldn't have begun before.
        assert writer.gap_s < NODE_TIMEOUT_MS / 1000, pods.logs()


def test_a_replica_has_nothing_to_hand_over() -> None:
    with Pods(SPEC, "8.1") as pods:
        scenes.formed(pods)
        assert hook(pods.pods[OTHER]) == "handover.sh: the server is a replica"
        assert scenes.is_primary(pods, ONE)


def test_without_a_replica_in_sync_it_says_so() -> None:
    with Pods(SPEC, "8.1") as pods:
        scenes.formed(pods)
        pods.pods[OTHER].stop()
        eventually(lambda: "connected_slaves:0" in str(pods.ask(ONE, "INFO", "replication")), pods)
        assert hook(pods.pods[ONE]) == "handover.sh: there is no replica in sync to hand over to"


def test_a_dead_agent_does_not_take_the_servers_time() -> None:
    with Pods(SPEC, "8.1") as pods:
        scenes.formed(pods)
        pods.pods[ONE].kill_agent()
        began = time.monotonic()
        assert hook(pods.pods[ONE]) == "handover.sh: the agent did not answer in time"
        assert time.monotonic() - began < 6


def test_members_that_are_to_rest_take_over_from_nobody() -> None:
    """As in a pause: all of them are told so, and then they stop, one a moment before the other."""
    with Pods(SPEC, "8.1") as pods:
        scenes.formed(pods)
        for member in SPEC.members:
            pods.ask(member, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
        pod = pods.pods[ONE]
        assert hook(pod) == "handover.sh: no replica took over"
        pod.stopped = True
        pod.kill_server()
        eventually(lambda: "its server is told not to" in pods.logs(), pods)
        # Longer than the servers' own election would take.
        time.sleep(2 * NODE_TIMEOUT_MS / 1000)
        assert not scenes.is_primary(pods, OTHER)
