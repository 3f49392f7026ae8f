"""Changes by hand: `refresh` shows them, the next `up` heals them, and no key is lost."""

from collections.abc import Callable

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.sandbox import INSTANCE, unattended

pytestmark = pytest.mark.xdist_group("drift")
FORMED = unattended()

Nodes = dict[str, probe.Node]


def _replica_reset(kube: Kube, namespace: str, nodes: Nodes) -> None:
    probe.command(kube, namespace, probe.replica_of(nodes, 1).pod, "CLUSTER RESET SOFT")


def _replica_elsewhere(kube: Kube, namespace: str, nodes: Nodes) -> None:
    other = probe.primary_of(nodes, 2).node_id
    probe.command(kube, namespace, probe.replica_of(nodes, 0).pod, f"CLUSTER REPLICATE {other}")


def _slots_deleted(kube: Kube, namespace: str, nodes: Nodes) -> None:
    for node in nodes.values():
        probe.command(kube, namespace, node.pod, "CLUSTER DELSLOTSRANGE 100 200 6000 6000")


def _slot_left_open(kube: Kube, namespace: str, nodes: Nodes) -> None:
    source, target = probe.primary_of(nodes, 0), probe.primary_of(nodes, 1)
    probe.command(kube, namespace, target.pod, f"CLUSTER SETSLOT 7 IMPORTING {source.node_id}")
    probe.command(kube, namespace, source.pod, f"CLUSTER SETSLOT 7 MIGRATING {target.node_id}")


CHANGES: dict[str, Callable[[Kube, str, Nodes], None]] = {
    "a replica was reset": _replica_reset,
    "a replica follows another shard": _replica_elsewhere,
    "slots were deleted on every node": _slots_deleted,
    "a slot was left open": _slot_left_open,
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_by_hand_is_shown_and_healed(formed: Formed, kube: Kube, change: str) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 1500)
    ids, layout = {pod: node.node_id for pod, node in nodes.items()}, probe.layout(nodes)
    CHANGES[change](kube, formed.namespace, nodes)
    assert probe.faults(probe.ask(kube, formed.namespace, INSTANCE), INSTANCE, 3, 1), "the change had no effect"

    shown = formed.stack.run("refresh", "--yes", "--skip-preview")
    assert shown.log.refreshed() == {f"Topology {INSTANCE}"}, shown.output
    topology = next(item for item in formed.stack.resources() if item["type"].endswith(":Topology"))
    assert topology["outputs"]["phase"] != "Ready"
    planned = formed.stack.run("preview")
    assert planned.log.operations()[f"Topology {INSTANCE}"] == "update", planned.output

    healed = formed.stack.up()
    assert healed.changes() == {f"Topology {INSTANCE}": "update"}, healed.output
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert {pod: node.node_id for pod, node in after.items()} == ids
    assert probe.layout(after) == layout
    assert formed.client.lost(INSTANCE, written) == []
    assert formed.stack.outputs()[INSTANCE]["phase"] == "Ready"


def test_a_change_by_hand_is_healed_by_up_alone(formed: Formed, kube: Kube) -> None:
    # `options.refresh: always` makes every `up` a reconciliation; nobody has to think of `refresh`.
    nodes = formed.sound()
    _replica_elsewhere(kube, formed.namespace, nodes)
    assert formed.stack.up().changes() == {f"Topology {INSTANCE}": "update"}
    probe.assert_ready(kube, formed.namespace, INSTANCE)


def test_up_without_refresh_heals_too(formed: Formed, kube: Kube) -> None:
    # The topology looks at Valkey itself when it is compared, so equal inputs are not enough to skip it.
    nodes = formed.sound()
    _slots_deleted(kube, formed.namespace, nodes)
    assert formed.stack.up("--refresh=false").changes() == {f"Topology {INSTANCE}": "update"}
    probe.assert_ready(kube, formed.namespace, INSTANCE)
