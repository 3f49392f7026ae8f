"""What a shard that leaves leaves behind: nothing on its disks, and of members that are out of reach no memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import Member, Spec, planned_layout

THREE = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)
TWO = Spec("t", 2, 1, planned_layout(2, THREE.layout), formed=True, node_timeout_ms=NODE_TIMEOUT_MS)
LONG_S = 120.0


@pytest.mark.parametrize("gone", [Member(2, 0), Member(2, 1)], ids=["primary", "replica"])
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_who_is_out_of_reach_while_its_shard_leaves_is_forgotten(line: str, gone: Member, how: str) -> None:
    # Before 9.0 a server that sets a slot waits up to 2 s for replicas, as long as it believes them to be there.
    options = {"repl-timeout": "6", "repl-ping-replica-period": "2"} if how == "frozen" else {}
    with Fleet(THREE, line, options) as fleet:
        scenes.run_fresh(fleet)
        keys = scenes.write(fleet, Member(2, 0), THREE.layout[2])
        gone_id = fleet.ids()[gone]
        if how == "killed":
            fleet.stop(gone)
        else:
            fleet.servers[gone].freeze()
        spec = replace(TWO, leaving=THREE.shard_members(2))
        view = scenes.run(fleet, spec, deadline_s=LONG_S)
        scenes.assert_ready(fleet, view, spec)
        for member in spec.members:
            assert gone_id not in str(fleet.ask(member, "CLUSTER", "NODES"))
        assert scenes.read(fleet, list(keys)) == keys


@pytest.mark.parametrize(
    "options",
    [{"appendonly": "yes", "appendfsync": "always"}, {"save": "3600 1"}],
    ids=["log", "snapshot"],
)
def test_the_disks_of_who_has_left_are_empty(line: str, options: dict[str, str]) -> None:
    """They come back with the shard, where they are kept, and have nothing that could be believed."""
    with Fleet(THREE, line, options) as fleet:
        scenes.run_fresh(fleet)
        keys = scenes.write(fleet, Member(2, 0), THREE.layout[2])
        if "save" in options:
            for member in THREE.shard_members(2):
                fleet.ask(member, "SAVE")
        spec = replace(TWO, leaving=THREE.shard_members(2))
        scenes.assert_ready(fleet, scenes.run(fleet, spec, deadline_s=LONG_S), spec)
        fleet.restart(*spec.leaving)
        assert [fleet.ask(member, "DBSIZE") for member in spec.leaving] == [0, 0]
        view = scenes.run(fleet, deadline_s=LONG_S)
        scenes.assert_ready(fleet, view)
        assert scenes.read(fleet, list(keys)) == keys
