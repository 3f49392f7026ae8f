"""On which nodes, and in which zones, an instance's Pods are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from valkeyctl.dataplane import Member
from valkeyctl.kube.access import Api, Object, path_of
from valkeyctl.kube.errors import ApiForbidden
from valkeyctl.kube.labels import ZONE_LABEL
from valkeyctl.kube.pods import PodFacts

_AT_ONCE = 8


@dataclass(frozen=True)
class Placement:
    """`nodes`: the node of each member, those left out that aren't on any. `zones`: the zone of each node, those left
    out of which it isn't known. `may_read`: whether nodes could be asked, where their Pods don't tell the zone.
    """

    nodes: Mapping[Member, str] = field(default_factory=dict[Member, str])
    zones: Mapping[str, str] = field(default_factory=dict[str, str])
    may_read: bool = True


def placement_of(api: Api, facts: Sequence[PodFacts]) -> Placement:
    """Where the members are whose Pods' facts are given.

    From Kubernetes 1.35 on Pods carry their node's zone, and nodes needn't be read; before, who may not read them knows
    no zones. Errors: those of the API, but for that right.
    """
    nodes = {fact.member: fact.node for fact in facts if fact.node}
    zones = {fact.node: fact.zone for fact in facts if fact.node and fact.zone}
    try:
        zones |= zones_of(read_nodes(api, (name for name in nodes.values() if name not in zones)))
    except ApiForbidden:
        return Placement(nodes, zones, may_read=False)
    return Placement(nodes, zones)


def read_nodes(api: Api, names: Iterable[str]) -> list[Object]:
    """The nodes of these names that there are. Errors: those of the API; ApiForbidden where they may not be read."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = pool.map(api.find, [path_of("v1", "nodes", None, name) for name in sorted(set(names))])
        return [node for node in found if node is not None]


def zones_of(nodes: Iterable[Object]) -> dict[str, str]:
    """The zone of each node that has one, by the node's name."""
    told = ((str(node["metadata"]["name"]), (node["metadata"].get("labels") or {}).get(ZONE_LABEL)) for node in nodes)
    return {name: str(zone) for name, zone in told if zone}
