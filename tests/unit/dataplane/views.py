"""Views to plan on: a formed cluster, with single facts changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.unit.dataplane.world import World
from valkeyctl.dataplane import (
    Absent,
    Blocked,
    Endpoint,
    Member,
    NodeView,
    Spec,
    Steps,
    Unreachable,
    View,
    Why,
    plan,
    planned_layout,
)
from valkeyctl.dataplane.steps import Action
from valkeyctl.dataplane.view import Peer

SPEC = Spec("t", 3, 1, planned_layout(3))
S00, S01, S10, S11, S20, S21 = SPEC.members


def formed(spec: Spec = SPEC, *, keys: bool = True) -> World:
    """A world at its goal, with something written to every shard."""
    world = World(spec)
    while isinstance(what := plan(spec, world.view()), Steps):
        for step in what.actions:
            world.take(step)
        world.settle()
    for member in spec.members if keys else ():
        world.write(member)
    world.settle()
    return world


def change(view: View, member: Member, **facts: object) -> View:
    """The same view with some facts of one member changed."""
    node = view.nodes[member]
    return View({**view.outcomes, member: replace(node, **facts)})  # type: ignore[arg-type]


def change_all(view: View, **facts: object) -> View:
    """The same view with some facts changed at every member that answered."""
    for member in view.nodes:
        view = change(view, member, **facts)
    return view


def change_peers(view: View, about: str, at: Iterable[Member], fact: Callable[[Peer], Peer | None]) -> View:
    """The same view in which these members see one node otherwise, or not at all."""
    for member in at:
        peers = dict(view.nodes[member].peers)
        if about in peers:
            seen = fact(peers.pop(about))
            peers |= {about: seen} if seen is not None else {}
        view = change(view, member, peers=peers)
    return view


def add_peer(view: View, peer: Peer, at: Iterable[Member]) -> View:
    """The same view in which these members know one node more."""
    for member in at:
        view = change(view, member, peers={**view.nodes[member].peers, peer.node_id: peer})
    return view


def absent(view: View, *members: Member, for_s: float = 60.0) -> View:
    """The same view without the Pods of these members."""
    return View({**view.outcomes, **{member: Absent(member, for_s) for member in members}})


def unreachable(
    view: View, member: Member, why: Why = Why.NO_ANSWER, *, node_id: str = "", for_s: float = 60.0
) -> View:
    """The same view in which a member didn't answer."""
    outcome = view.outcomes[member]
    assert isinstance(outcome, NodeView)
    detail = f"{outcome.endpoint.pod}: {why.value}"
    return View({**view.outcomes, member: Unreachable(outcome.endpoint, why, detail, node_id, for_s)})


def stranger(number: int, **facts: object) -> Peer:
    """A node that isn't a member's, as members see it."""
    known = formed(Spec("u", 1, 0, planned_layout(1)), keys=False)
    node = known.at(Member(0, 0))
    peer = known._peer(node)
    return replace(peer, node_id=f"{number + 0xFF00:040x}", address=f"10.9.9.{number % 250}", **facts)  # type: ignore[arg-type]


def actions(spec: Spec, view: View) -> tuple[Action, ...]:
    """What the plan does."""
    what = plan(spec, view)
    return what.actions if isinstance(what, Steps) else ()


def waits(spec: Spec, view: View) -> str:
    """What the plan waits for, in one text."""
    what = plan(spec, view)
    assert isinstance(what, Steps), what
    assert not what.actions, what.describe()
    return "; ".join(what.describe())


def blocked(spec: Spec, view: View) -> Blocked:
    """The plan, which is blocked."""
    what = plan(spec, view)
    assert isinstance(what, Blocked), what
    return what


def endpoint(member: Member, address: str) -> Endpoint:
    """Where a member's server is."""
    return Endpoint(member, f"t-{member}", f"t-{member}.headless.test.svc", address)
