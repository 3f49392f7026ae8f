"""Shards come and go, and slots move, under a client that writes: nothing that was acknowledged is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dataplane import scenes
from tests.dataplane.servers import NODE_TIMEOUT_MS, Fleet
from tests.dataplane.writer import Written, writing
from valkeyctl.dataplane import (
    Layout,
    Migration,
    Spec,
    View,
    planned_layout,
)
from valkeyctl.dataplane.slots import slots_moved

#: Method, on a line of servers that has it.
WAYS = [("9.1", "auto"), ("9.1", "keys"), ("8.1", "auto")]
ways = pytest.mark.parametrize(("line", "method"), WAYS, ids=["9.1 atomic", "9.1 by keys", "8.1"])


def declared(shards: int, replicas: int = 0, layout: Layout | None = None, method: str = "auto") -> Spec:
    """A formed instance of so many shards."""
    return Spec(
        "t",
        shards,
        replicas,
        layout or planned_layout(shards),
        explicit=False,
        formed=True,
        node_timeout_ms=NODE_TIMEOUT_MS,
        migration=Migration(method=method),  # type: ignore[arg-type]
    )


def become(fleet: Fleet, spec: Spec) -> Spec:
    """What Kubernetes does before Valkey is told: new Pods run, and those that aren't declared any more still do."""
    new = [member for member in spec.members if member not in fleet.servers]
    if new:
        fleet.start(*new)
    return replace(spec, leaving=tuple(sorted(set(fleet.directory()) - set(spec.members))))


def delete_the_left(fleet: Fleet, spec: Spec) -> None:
    """What Pulumi does afterwards: the StatefulSets that aren't declared any more go."""
    assert all(fleet.ask(member, "DBSIZE") == 0 for member in spec.leaving)
    if spec.leaving:
        fleet.stop(*spec.leaving)
    for member in spec.leaving:
        del fleet.servers[member]
    fleet.spec = replace(spec, leaving=())


def scale(fleet: Fleet, spec: Spec, told: scenes.Told | None = None) -> View:
    """Another declaration, made true; checks that just the fewest slots have moved."""
    before = scenes.layout_of(scenes.look(fleet))
    spec = become(fleet, spec)
    view = scenes.run(fleet, spec, told=told)
    delete_the_left(fleet, spec)
    scenes.assert_ready(fleet, view, fleet.spec)
    after = scenes.layout_of(view)
    assert after == dict(enumerate(spec.layout))
    had = tuple(before[shard] for shard in sorted(before))
    fewest = slots_moved(had, planned_layout(spec.shards, had))
    assert slots_moved(had, tuple(after[shard] for shard in sorted(after))) == fewest or spec.explicit
    return view


def assert_kept(fleet: Fleet, written: Written, keys: dict[str, str]) -> None:
    assert written.errors == []
    assert written.count > 0
    assert scenes.read(fleet, list(written.keys)) == written.keys
    assert scenes.read(fleet, list(written.deleted)) == dict.fromkeys(written.deleted)
    assert scenes.read(fleet, list(keys)) == keys


def fill(fleet: Fleet, count: int = 60) -> dict[str, str]:
    """Keys in every shard."""
    keys: dict[str, str] = {}
    view = scenes.look(fleet)
    for member in scenes.primaries(view).values():
        keys |= scenes.write(fleet, member, view.nodes[member].slots, count)
    return keys


@ways
def test_scales_out_and_in_under_a_writer(line: str, method: str) -> None:
    first = declared(3, 1)
    with Fleet(first, line) as fleet:
        scenes.run_fresh(fleet)
        keys = fill(fleet)
        told = scenes.Told()
        with writing(fleet) as written:
            four = declared(4, 1, planned_layout(4, first.layout), method)
            scale(fleet, four, told)
            three = declared(3, 1, planned_layout(3, four.layout), method)
            scale(fleet, three, told)
        assert_kept(fleet, written, keys)
        assert any("slots moved" in line.text for line in told.lines)
