"""Who is to be primary, so that no zone and no node has more of them than it must: against trying all that there is."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.views import absent, change, formed
from tests.unit.lifecycle.rolling_world import spec_of
from valkeyctl.dataplane import Done, Member, Steps, plan
from valkeyctl.dataplane.steps import HandOver
from valkeyctl.dataplane.view import ReplicaLink
from valkeyctl.kube.nodes import Placement
from valkeyctl.lifecycle.roles import spread_roles
from valkeyctl.lifecycle.spreading import Roles, spread

Table = dict[int, list[str]]


def at(table: Table, zones: Mapping[str, str] | None = None) -> Placement:
    """`{0: ["a", "b"]}`: the members of shard 0 are on nodes a and b; "" is nowhere. Zones are called as nodes, in
    capitals.
    """
    nodes = {Member(shard, o): node for shard, mine in table.items() for o, node in enumerate(mine) if node}
    return Placement(nodes, {node: node[0].upper() for node in nodes.values()} if zones is None else zones)


def everybody(table: Table, primaries: Mapping[int, int], **more: object) -> Roles:
    able = {shard: range(len(mine)) for shard, mine in table.items()}
    return replace(Roles(primaries, able), **more)  # type: ignore[arg-type]


# --- tables ----------------------------------------------------------------------------------------------------------

RING: Table = {0: ["a", "b"], 1: ["b", "c"], 2: ["c", "a"]}
SAME: Table = {0: ["a", "b"], 1: ["a", "b"], 2: ["a", "c"]}
#: Two nodes in the zone A.
TWO_IN_A: Table = {0: ["a1", "b"], 1: ["a1", "a2"], 2: ["b", "c"]}


@pytest.mark.parametrize(
    ("table", "now", "wanted"),
    [
        pytest.param(RING, {0: 0, 1: 0, 2: 0}, {0: 0, 1: 0, 2: 0}, id="spread already"),
        pytest.param(RING, {0: 1, 1: 1, 2: 1}, {0: 1, 1: 1, 2: 1}, id="spread otherwise, and no better at ordinal 0"),
        pytest.param(RING, {0: 0, 1: 0, 2: 1}, {0: 0, 1: 0, 2: 0}, id="one too many on a"),
        pytest.param(SAME, {0: 0, 1: 0, 2: 0}, {0: 0, 1: 1, 2: 1}, id="all on a, of equals the lowest ordinals"),
        pytest.param(SAME, {0: 1, 1: 0, 2: 1}, {0: 1, 1: 0, 2: 1}, id="who is there already stays"),
        pytest.param(TWO_IN_A, {0: 0, 1: 0, 2: 0}, {0: 1, 1: 0, 2: 1}, id="zones before nodes"),
        pytest.param({0: ["a", "a"], 1: ["a", "a"]}, {0: 1, 1: 0}, {0: 1, 1: 0}, id="nothing to choose"),
        pytest.param({0: ["a"], 1: ["a"]}, {0: 0, 1: 0}, {0: 0, 1: 0}, id="no replicas"),
        pytest.param({}, {}, {}, id="no shard"),
    ],
)
def test_roles_go_where_the_most_loaded_place_has_least(
    table: Table, now: dict[int, int], wanted: dict[int, int]
) -> None:
    assert spread(everybody(table, now), at(table)) == wanted


def test_nodes_of_a_zone_that_must_have_them_share_them() -> None:
    table: Table = {0: ["a1", "a2"], 1: ["a1", "a2"], 2: ["a1", "a3"]}
    assert spread(everybody(table, {0: 0, 1: 0, 2: 0}), at(table)) == {0: 0, 1: 1, 2: 1}


def test_what_a_person_names_goes_first_and_the_others_make_room() -> None:
    assert spread(everybody(RING, {0: 0, 1: 0, 2: 0}, fixed={0: 1}), at(RING)) == {0: 1, 1: 1, 2: 1}
    # Also where it is named for one that isn't in sync, or of which it isn't known where it is.
    assert spread(Roles({0: 0, 1: 0}, fixed={0: 1}), at({0: ["a", ""], 1: ["b", "a"]})) == {0: 1, 1: 0}


def test_who_is_not_in_sync_is_not_chosen() -> None:
    able = {0: [0, 1], 1: [0], 2: [0, 1]}
    assert spread(Roles({0: 0, 1: 0, 2: 1}, able), at(RING)) == {0: 0, 1: 0, 2: 0}
    assert spread(Roles({0: 0, 1: 0, 2: 0}, {0: [0], 1: [0], 2: [0]}), at(SAME)) == {0: 0, 1: 0, 2: 0}


def test_ordinal_zero_is_preferred_where_the_spread_is_as_good() -> None:
    assert spread(everybody(RING, {0: 1, 1: 1, 2: 1}, prefer_zero=True), at(RING)) == {0: 0, 1: 0, 2: 0}
    assert spread(everybody(SAME, {0: 1, 1: 0, 2: 1}, prefer_zero=True), at(SAME)) == {0: 1, 1: 0, 2: 1}
    # It outweighs that no role moves, and not the load.
    assert spread(everybody(SAME, {0: 1, 1: 1, 2: 1}, prefer_zero=True), at(SAME)) == {0: 0, 1: 1, 2: 1}


def test_a_place_that_is_not_known_attracts_nobody_and_drives_nobody_away() -> None:
    table: Table = {0: ["a", ""], 1: ["a", "b"], 2: ["", "b"]}
    assert spread(everybody(table, {0: 0, 1: 0, 2: 0}), at(table)) == {0: 0, 1: 1, 2: 0}
    assert spread(everybody({0: ["", ""]}, {0: 1}), at({})) == {0: 1}


def test_nodes_without_a_zone_are_zones_of_their_own() -> None:
    # Nobody may read nodes: by their names alone.
    assert spread(everybody(TWO_IN_A, {0: 0, 1: 0, 2: 0}), at(TWO_IN_A, {})) == {0: 0, 1: 1, 2: 0}
    # One node has no label: it is no better than a zone, and no worse.
    zones = {"a1": "A", "a2": "A", "b": "B"}
    assert spread(everybody(TWO_IN_A, {0: 0, 1: 0, 2: 0}), at(TWO_IN_A, zones)) == {0: 1, 1: 0, 2: 1}
    # A node that is called as a zone is not that zone.
    table: Table = {0: ["a", "x"], 1: ["x", "a"]}
    assert spread(everybody(table, {0: 0, 1: 0}), at(table, {"a": "x"})) == {0: 0, 1: 0}


# --- properties ------------------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Roles, Placement]:
    shards, members = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    names = [f"n{number}" for number in range(draw(st.integers(1, 5)))]
    zones = {name: draw(st.sampled_from(["x", "y", "z", ""])) for name in names}
    nodes = {
        Member(shard, ordinal): draw(st.sampled_from([*names, ""]))
        for shard in range(shards)
        for ordinal in range(members)
    }
    ordinal = st.integers(0, members - 1)
    roles = Roles(
        primaries={shard: draw(ordinal) for shard in range(shards)},
        able={shard: draw(st.sets(ordinal)) for shard in range(shards)},
        fixed=draw(st.dictionaries(st.integers(0, shards - 1), ordinal, max_size=2)),
        prefer_zero=draw(st.booleans()),
    )
    known = {member: node for member, node in nodes.items() if node}
    return roles, Placement(known, {name: zone for name, zone in zones.items() if zone})


def judged(roles: Roles, placement: Placement, chosen: Mapping[int, int]) -> tuple[int, ...]:
    """How bad a choice is: what comes first counts most."""
    nodes = [placement.nodes.get(Member(s, o), f"?{s}-{o}") for s, o in chosen.items()]
    places = Counter(("zone", placement.zones[node]) if node in placement.zones else ("node", node) for node in nodes)
    return (
        max(places.values()),
        max(Counter(nodes).values()),
        sum(o != 0 for o in chosen.values()) if roles.prefer_zero else 0,
        sum(roles.primaries[s] != o for s, o in chosen.items()),
        sum(chosen.values()),
    )


def all_ways(roles: Roles, placement: Placement) -> list[dict[int, int]]:
    """Every choice that is allowed."""
    options = [
        [roles.fixed[shard]]
        if shard in roles.fixed
        else [now, *(o for o in sorted(roles.able[shard]) if o != now and Member(shard, o) in placement.nodes)]
        for shard, now in roles.primaries.items()
    ]
    return [dict(zip(roles.primaries, ordinals, strict=True)) for ordinals in product(*options)]


@given(clusters())
@settings(max_examples=300, deadline=None)
def test_no_other_way_is_better(cluster: tuple[Roles, Placement]) -> None:
    roles, placement = cluster
    chosen, ways = spread(roles, placement), all_ways(roles, placement)
    assert chosen in ways
    assert judged(roles, placement, chosen) == min(judged(roles, placement, way) for way in ways)


@given(clusters())
@settings(max_examples=100, deadline=None)
def test_planned_again_at_the_result_nothing_moves(cluster: tuple[Roles, Placement]) -> None:
    roles, placement = cluster
    chosen = spread(roles, placement)
    # A former primary is in sync again by then.
    able = {shard: {*mine, roles.primaries[shard]} for shard, mine in roles.able.items()}
    widened = spread(replace(roles, primaries=chosen, able=able), placement)
    assert widened == chosen


@given(clusters())
@settings(max_examples=100, deadline=None)
def test_roles_move_only_where_the_load_gets_better_or_ordinals_demand_it(cluster: tuple[Roles, Placement]) -> None:
    roles, placement = cluster
    if roles.fixed:
        return
    chosen = spread(roles, placement)
    before, after = (judged(roles, placement, way)[:3] for way in (roles.primaries, chosen))
    assert (chosen != roles.primaries) == (after < before)


@pytest.mark.parametrize("nodes", [3, 12, 128, 768])
def test_the_largest_instance_is_spread_to_the_best_there_is(nodes: int) -> None:
    shards, members = 128, 6
    table = {s: [f"n{(s * 7 + o * 5) % nodes}" for o in range(members)] for s in range(shards)}
    zones = {f"n{number}": str(number % 3) for number in range(nodes)}
    roles = everybody(table, dict.fromkeys(range(shards), 0))
    # All in one zone, as far as that is possible.
    placement = at(table, zones)
    worst = {s: max(range(members), key=lambda o: zones[table[s][o]]) for s in table}
    for now in (roles.primaries, worst):
        chosen = spread(replace(roles, primaries=now), placement)
        in_zone, on_node, *_ = judged(roles, placement, chosen)
        assert in_zone == -(-shards // min(3, nodes))
        assert on_node == -(-shards // min(nodes, shards))
        assert spread(replace(roles, primaries=chosen), placement) == chosen


# --- in the specification --------------------------------------------------------------------------------------------

SPEC = spec_of(3, 1)
ON_A: Table = {0: ["a", "b"], 1: ["a", "c"], 2: ["a", "b"]}


def test_the_specification_names_who_is_to_be_primary_and_handovers_get_there() -> None:
    world, placement = formed(SPEC), at(ON_A)
    for _ in range(10):
        spec = spread_roles(SPEC, world.view(), placement, prefer_zero=False)
        if isinstance(what := plan(spec, world.view()), Done):
            break
        assert isinstance(what, Steps)
        handed = [step for step in what.actions if isinstance(step, HandOver)]
        assert len(handed) == 1
        world.take(handed[0])
        world.settle()
    nodes = [placement.nodes[world.primary_of(shard)] for shard in range(3)]
    assert sorted(nodes) == ["a", "b", "c"]
    world.check()


def test_while_anything_else_is_to_be_done_no_role_is_spread() -> None:
    declared = replace(SPEC, primaries={1: 0})
    view, placement = formed(SPEC).view(), at(ON_A)
    down = change(view, Member(2, 1), link=ReplicaLink(up=False, syncing=False, was_up=True))
    assert spread_roles(declared, down, placement, prefer_zero=False) == declared
    assert spread_roles(declared, absent(view, Member(1, 1)), placement, prefer_zero=False) == declared


def test_a_role_that_is_named_moves_there_and_the_others_are_spread_around_it() -> None:
    spec = spread_roles(replace(SPEC, primaries={0: 1}), formed(SPEC).view(), at(ON_A), prefer_zero=False)
    assert spec.primaries == {0: 1, 1: 1, 2: 0}
