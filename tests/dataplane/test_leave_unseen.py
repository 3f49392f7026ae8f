"""A shard leaves while one of its members is out of reach: it is forgotten all the same, and nobody waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import Member, Spec, planned_layout

THREE = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)
TWO = Spec("t", 2, 1, planned_layout(2, THREE.layout), formed=True, node_timeout_ms=NODE_TIMEOUT_MS)


@pytest.mark.parametrize("gone", [Member(2, 0), Member(2, 1)], ids=["primary", "replica"])
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_who_is_out_of_reach_while_its_shard_leaves_is_forgotten(line: str, gone: Member, how: str) -> None:
    with Fleet(THREE, line) as fleet:
        scenes.run_fresh(fleet)
        keys = scenes.write(fleet, Member(2, 0), THREE.layout[2])
        gone_id = fleet.ids()[gone]
        if how == "killed":
            fleet.stop(gone)
        else:
            fleet.servers[gone].freeze()
        spec = replace(TWO, leaving=THREE.shard_members(2))
        view = scenes.run(fleet, spec)
        scenes.assert_ready(fleet, view, spec)
        for member in spec.members:
            assert gone_id not in str(fleet.ask(member, "CLUSTER", "NODES"))
        assert scenes.read(fleet, list(keys)) == keys
