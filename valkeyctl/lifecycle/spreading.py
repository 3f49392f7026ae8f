"""Which member of each shard is to be its primary, so that no zone and no node holds more primaries than it must.

Each primary has a vote: with most of them in one place, the loss of that place leaves nobody to elect their successors.
It is a flow: a unit for each shard goes to one of its members' nodes, from there to the node's zone, and no more units
through any zone, and then through any node, than it takes. Of all that fit, the cheapest flow moves the fewest roles.
So it is the best that there is, found in polynomial time: tenths of a second for 128 shards of six members.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.model import MAX_REPLICAS
from valkeyctl.kube.nodes import Placement
from valkeyctl.lifecycle.flow import Network

Spot = tuple[str, str]
"""A node or a zone by its name, or a member in whose stead neither is known; first, which of these."""


@dataclass(frozen=True)
class Roles:
    """Where primaries are and may be, ordinals by shard.

    `primaries`: who is it now. `able`: who else could take over. `fixed`: who is to be it whatever comes of it, as a
    person declared. `prefer_zero`: of equally good spreads, one with as many at ordinal 0 as there can be.
    """

    primaries: Mapping[int, int]
    able: Mapping[int, Collection[int]] = field(default_factory=dict[int, Collection[int]])
    fixed: Mapping[int, int] = field(default_factory=dict[int, int])
    prefer_zero: bool = False


def spread(roles: Roles, placement: Placement) -> dict[int, int]:
    """Who is to be primary: for each shard that has one, an ordinal. Pure and deterministic.

    In this order: the zone with the most has as few as possible; then the node with the most; then, where that is
    preferred, the most are at ordinal 0; then the fewest roles move; then the ordinals' sum is lowest. Planned again at
    the result, nothing moves.

    A node whose zone isn't known is a zone of its own. A member of which it isn't known where it is takes no role over;
    one that it has it may keep, and then counts as alone at its place.
    """
    shards = sorted(roles.primaries)
    choices = [_choices(roles, placement, shard) for shard in shards]
    free = [[replace(choice, cost=0) for choice in mine] for mine in choices]
    in_zone = 1 + _Board(free, in_zone=1, on_node=len(shards)).widen_zones()
    on_node = 1 + _Board(free, in_zone=in_zone, on_node=1).widen_nodes()
    return dict(zip(shards, _Board(choices, in_zone=in_zone, on_node=on_node).cheapest(), strict=True))


@dataclass(frozen=True)
class _Choice:
    """A member that may be its shard's primary, where it is, and what that costs in all that comes after the load."""

    ordinal: int
    node: Spot
    zone: Spot
    cost: int


def _choices(roles: Roles, placement: Placement, shard: int) -> list[_Choice]:
    now, fixed = roles.primaries[shard], roles.fixed.get(shard)
    if fixed is not None:
        return [_choice(roles, placement, Member(shard, fixed), now)]
    placed = {ordinal for ordinal in roles.able.get(shard, ()) if Member(shard, ordinal) in placement.nodes}
    return [_choice(roles, placement, Member(shard, ordinal), now) for ordinal in sorted({now, *placed})]


def _choice(roles: Roles, placement: Placement, member: Member, now: int) -> _Choice:
    # One of what comes first costs more than all shards together can cost in what comes after it.
    shards = len(roles.primaries)
    astray = int(roles.prefer_zero and member.ordinal != 0)
    moves = int(member.ordinal != now)
    cost = (astray * (shards + 1) + moves) * (shards * MAX_REPLICAS + 1) + member.ordinal
    name = placement.nodes.get(member)
    node = ("member", str(member)) if name is None else ("node", name)
    zone = placement.zones.get(name or "")
    return _Choice(member.ordinal, node, node if zone is None else ("zone", zone), cost)


class _Board:
    """The network: from shards to nodes, from nodes to zones, from zones to the end of all."""

    def __init__(self, choices: Sequence[Sequence[_Choice]], *, in_zone: int, on_node: int) -> None:
        """A zone takes `in_zone` units in, and a node `on_node`."""
        zone_of = {choice.node: choice.zone for mine in choices for choice in mine}
        # A node without a zone, and the zone that it is then, are two points.
        nodes = {node: len(choices) + at for at, node in enumerate(zone_of)}
        zones = {zone: len(choices) + len(nodes) + at for at, zone in enumerate(dict.fromkeys(zone_of.values()))}
        self._choices = choices
        self._end = len(choices) + len(nodes) + len(zones)
        self._network = Network(self._end + 1)
        self._ways = [
            [(self._network.draw(shard, nodes[choice.node], cost=choice.cost), choice.ordinal) for choice in mine]
            for shard, mine in enumerate(choices)
        ]
        self._nodes = [self._network.draw(nodes[node], zones[zone], room=on_node) for node, zone in zone_of.items()]
        self._zones = [self._network.draw(zone, self._end, room=in_zone) for zone in zones.values()]

    def widen_zones(self) -> int:
        """By how much each zone has to take in more, so that all shards find a place."""
        return self._fill(self._zones)

    def widen_nodes(self) -> int:
        """The same of each node."""
        return self._fill(self._nodes)

    def cheapest(self) -> list[int]:
        """Where there is room for all: the ordinals, by shard, that cost the least together."""
        self._fill(())
        return [next(ordinal for way, ordinal in ways if self._network.is_full(way)) for ways in self._ways]

    def _fill(self, narrow: Sequence[int]) -> int:
        """Finds a place for one shard after the other, and widens what is too narrow for it; returns how often."""
        widened = 0
        for shard in range(len(self._choices)):
            while not self._network.send(shard, self._end):
                for arc in narrow:
                    self._network.widen(arc)
                widened += 1
        return widened
