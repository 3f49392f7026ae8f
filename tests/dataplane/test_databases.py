"""Keys in other databases than 0, which clusters of 9.0 and newer may have: a slot changes hands in all of them."""

from __future__ import annotations

from dataclasses import replace

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from valkeyctl.dataplane import Member, Migration, Spec, parse_layout

COUNT = 50
BEFORE, AFTER = parse_layout({0: "0-8191", 1: "8192-16383"}), parse_layout({0: "0-99", 1: "100-16383"})


def test_they_go_with_their_slots_or_stay_where_they_are() -> None:
    """Sent key by key they would be lost, and silently: the former owner deletes them when its slot is another's."""
    spec = Spec("t", 2, 0, BEFORE, explicit=True, formed=True, node_timeout_ms=NODE_TIMEOUT_MS)
    with Fleet(spec, "9.1", options={"cluster-databases": "4"}) as fleet:
        scenes.run_fresh(fleet)
        giver, taker = Member(0, 0), Member(1, 0)
        keys = [scenes.key_in(BEFORE[0], 100 + number) for number in range(COUNT)]
        with fleet.client(giver) as client:
            client.connection_pool.connection_kwargs["db"] = 3
            client.connection_pool.reset()
            for key in keys:
                client.set(key, key)
        by_keys = replace(spec, layout=AFTER, migration=Migration(method="keys"))
        assert "s0-0 holds keys in other databases than 0" in str(scenes.blocked_reason(fleet, by_keys))
        view = scenes.look(fleet, spec)
        assert (view.nodes[giver].keys, view.nodes[taker].keys) == (COUNT, 0)
        assert view.nodes[giver].slots == BEFORE[0]
        assert not view.nodes[giver].migrating
        view = scenes.run(fleet, replace(by_keys, migration=Migration(method="auto")))
        assert (view.nodes[giver].keys, view.nodes[taker].keys) == (0, COUNT)
