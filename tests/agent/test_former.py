"""A disk that is kept comes back with its shard: what a member left on it that was out of reach then is set aside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.agent import scenes
from tests.agent.pods import Pods, eventually
from tests.dataplane.scenes import read, run
from tests.dataplane.servers import Fleet
from valkeyctl.dataplane import Member, Spec, planned_layout

THREE = scenes.SPEC
TWO = Spec("t", 2, 1, planned_layout(2, THREE.layout), formed=True, node_timeout_ms=THREE.node_timeout_ms)
SNAPSHOTS, LOG = {"save": "3600 1"}, {"appendonly": "yes", "appendfsync": "always"}


def leave(pods: Pods, out_of_reach: Member) -> None:
    """Have shard 2 leave, without one of its members, and its Pods go; their folders stay."""
    pods.pods[out_of_reach].stop()
    spec = replace(TWO, leaving=THREE.shard_members(2))
    run(pods, spec)
    pods.spec = TWO
    for member in THREE.shard_members(2):
        if member != out_of_reach:
            pods.pods[member].stop()


@pytest.mark.parametrize("gone", [Member(2, 0), Member(2, 1)], ids=["primary", "replica"])
@pytest.mark.parametrize(
    ("settings", "data"), [(SNAPSHOTS, "dump.rdb"), (LOG, "appendonlydir")], ids=["snapshot", "log"]
)
def test_the_disk_of_a_member_that_was_forgotten(line: str, settings: dict[str, str], data: str, gone: Member) -> None:
    with Pods(THREE, line, settings) as pods:
        scenes.formed(pods)
        keys = scenes.fill(pods, 2)
        if settings is SNAPSHOTS:
            pods.ask(gone, "SAVE")
        gone_id = str(pods.ask(gone, "CLUSTER", "MYID"))
        leave(pods, gone)
        # What is deleted meanwhile must not come back with the disk.
        deleted = next(key for key in keys if Fleet.slot(key) in TWO.layout[0])
        pods.ask(Member(0, 0), "DEL", deleted)
        del keys[deleted]
        pods.spec = THREE
        for member in THREE.shard_members(2):
            pods.pods[member].start()
        eventually(lambda: all(pods.ask(member, "PING") for member in THREE.shard_members(2)), pods)
        run(pods, THREE)
        eventually(lambda: scenes.ready(pods), pods)
        assert gone_id not in str(pods.ask(Member(0, 0), "CLUSTER", "NODES"))
        folders = list((pods.pods[gone].folder / "data").glob("set-aside-*"))
        assert [{data, "nodes.conf"} <= {left.name for left in folder.iterdir()} for folder in folders] == [True]
        assert gone_id in (folders[0] / "nodes.conf").read_text()
        for member in set(THREE.members) - {gone}:
            assert not list((pods.pods[member].folder / "data").glob("set-aside-*")), f"{member} left nothing"
        assert read(pods, [*keys, deleted]) == {**keys, deleted: None}
