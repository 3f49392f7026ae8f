"""Servers that are killed come back with nothing lost, though their own disks have less (reports C15, F4, F5)."""

from __future__ import annotations

import time

import pytest

from tests.agent import scenes
from tests.agent.pods import NODE_TIMEOUT_MS, Pods, eventually
from tests.agent.writer import Writer
from valkeyctl.dataplane import Member

SPEC = scenes.SPEC
SNAPSHOTS = {"save": "3600 1"}
LOG = {"appendonly": "yes"}
#: The servers alone need the node timeout and an election.
GAP_S = NODE_TIMEOUT_MS / 1000 + 1.5


@pytest.mark.parametrize("settings", [{}, SNAPSHOTS], ids=["empty", "old snapshot"])
def test_primary(line: str, settings: dict[str, str]) -> None:
    """One primary, with nothing on its disk or an old snapshot: its replica takes over, and it joins that."""
    with Pods(SPEC, line, settings) as pods:
        scenes.formed(pods)
        keys = scenes.fill(pods, 0)
        if settings:
            pods.ask(Member(0, 0), "SAVE")
        with Writer(pods, 0) as writer:
            time.sleep(1.0)
            pods.pods[Member(0, 0)].kill_server()
            eventually(lambda: scenes.is_primary(pods, Member(0, 1)), pods)
            eventually(lambda: not scenes.is_primary(pods, Member(0, 0)) and scenes.ready(pods), pods)
        print(f"gap {writer.gap_s * 1000:.0f} ms, {len(writer.acked)} writes")  # noqa: T201
        assert scenes.held_by(pods, Member(0, 1), keys)
        assert len(writer.acked) > 10
        assert writer.lost(Member(0, 1)) == []
        assert writer.gap_s < GAP_S, pods.logs()


@pytest.mark.parametrize("shards", [(0, 1), (0, 1, 2)], ids=["two", "all"])
def test_primaries(line: str, shards: tuple[int, ...]) -> None:
    """Most of them, or all, at once: no majority can vote, and their agents vouch for them."""
    with Pods(SPEC, line) as pods:
        scenes.formed(pods)
        keys = {shard: scenes.fill(pods, shard) for shard in range(3)}
        with Writer(pods, 0) as writer:
            time.sleep(0.5)
            for shard in shards:
                pods.pods[Member(shard, 0)].kill_server()
            for shard in shards:
                eventually(lambda shard=shard: scenes.is_primary(pods, Member(shard, 1)), pods)
            eventually(lambda: scenes.ready(pods), pods)
        print(f"gap {writer.gap_s * 1000:.0f} ms, {len(writer.acked)} writes")  # noqa: T201
        for shard in range(3):
            assert scenes.held_by(pods, Member(shard, 1 if shard in shards else 0), keys[shard])
            assert scenes.is_primary(pods, Member(shard, 1 if shard in shards else 0))
        assert writer.lost(Member(0, 1)) == []
        assert writer.gap_s < GAP_S, pods.logs()


@pytest.mark.parametrize("settings", [SNAPSHOTS, LOG], ids=["snapshots", "log"])
def test_all_servers(line: str, settings: dict[str, str]) -> None:
    """All at once: nobody's memory is left, and each shard goes on from the best that is on a disk."""
    with Pods(SPEC, line, settings) as pods:
        scenes.formed(pods)
        keys = {shard: scenes.fill(pods, shard) for shard in range(3)}
        if settings is SNAPSHOTS:
            for member in SPEC.members:
                pods.ask(member, "SAVE")
        else:
            time.sleep(2.5)  # until the logs are on the disk
        for pod in pods.pods.values():
            pod.kill_server()
        eventually(lambda: all("DOWN" not in str(pods.ask(m, "CLUSTER", "INFO")) for m in SPEC.members), pods, 60)
        eventually(lambda: scenes.ready(pods), pods, 60)
        for shard in range(3):
            (primary,) = [m for m in SPEC.shard_members(shard) if scenes.is_primary(pods, m)]
            assert scenes.held_by(pods, primary, keys[shard])


def test_replica(line: str) -> None:
    """A replica starts again at once, and nothing else happens."""
    with Pods(SPEC, line) as pods:
        scenes.formed(pods)
        first = scenes.run_id(pods, Member(0, 1))
        with Writer(pods, 0) as writer:
            pods.pods[Member(0, 1)].kill_server()
            # A probe may still tell of the server that has ended.
            eventually(lambda: scenes.run_id(pods, Member(0, 1)) != first and scenes.ready(pods), pods)
        assert scenes.is_primary(pods, Member(0, 0))
        assert "it stands in" not in pods.logs()
        assert writer.lost(Member(0, 1)) == []
