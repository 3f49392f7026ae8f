"""Most primaries are gone at once: nobody elects, and the best copies take over only where a person declared that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import LINES, NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import Member, Phase, errors, report

SPEC = scenes.spec_of(3, 1, node_timeout_ms=NODE_TIMEOUT_MS, formed=True)


@pytest.mark.parametrize("line", LINES)
def test_copies_take_over_when_declared_and_the_lost_come_back_as_replicas(line: str) -> None:
    with Fleet(SPEC, line) as fleet:
        view = scenes.run_fresh(fleet)
        keys: dict[str, str] = {}
        for member in scenes.primaries(view).values():
            keys |= scenes.write(fleet, member, view.nodes[member].slots)
        lost = [scenes.primaries(view)[shard] for shard in (0, 1)]
        heirs = [Member(member.shard, 1 - member.ordinal) for member in lost]
        fleet.stop(*lost)
        with pytest.raises(errors.DeadlineExceeded, match="a majority of the primaries comes back and elects"):
            scenes.run(fleet, deadline_s=3 * NODE_TIMEOUT_MS / 1000 + 2)
        assert not any(scenes.look(fleet).nodes[heir].slots for heir in heirs), "nobody declared it"

        told = scenes.Told()
        declared = replace(SPEC, takeover_after_s=1.0)
        with pytest.raises(errors.DeadlineExceeded, match="running Pod"):
            scenes.run(fleet, declared, told=told, deadline_s=15)
        assert any("TAKE OVER WITHOUT AN ELECTION" in step for step in told.done)
        for heir, gone in zip(heirs, lost, strict=True):
            fleet.await_state_ok(heir)
            assert scenes.look(fleet).nodes[heir].slots == view.nodes[gone].slots

        fleet.resume(*lost)
        after = scenes.run(fleet)
        assert report(SPEC, after).phase is Phase.READY
        assert scenes.primaries(after)[0] == heirs[0]
        assert scenes.read(fleet, list(keys)) == keys


@pytest.mark.parametrize("line", LINES)
def test_disks_that_are_all_empty_are_formed_anew_with_consent_only(line: str) -> None:
    persistent = replace(SPEC, persistent=True)
    with Fleet(persistent, line) as fleet:
        fleet.start()
        with pytest.raises(errors.Blocked, match="every disk came back empty"):
            scenes.run(fleet)
        # Meanwhile they have met: their epochs say nothing of what they held.
        with pytest.raises(errors.Blocked, match="every disk came back empty"):
            scenes.run(fleet)
        view = scenes.run(fleet, replace(persistent, accept_data_loss=True))
        scenes.assert_ready(fleet, view)
