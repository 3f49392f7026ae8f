"""Where primaries' roles are to be in the end, by what is declared and by where Kubernetes has put the Pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from valkeyctl.dataplane import Done, Spec, View, plan
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.plan_handover import owner_of
from valkeyctl.dataplane.plan_replicas import in_sync
from valkeyctl.dataplane.shards import decide_shards
from valkeyctl.kube.nodes import Placement, placement_of
from valkeyctl.kube.pods import PodFacts
from valkeyctl.lifecycle.session import Session
from valkeyctl.lifecycle.spreading import Roles, spread

NO_ZONES = "nodes may not be read (`get` on `nodes`), so that primaries are spread over nodes and not over zones"


def with_roles(
    session: Session, view: View, facts: Sequence[PodFacts], tell: Callable[[str], None] = lambda _line: None
) -> Spec:
    """The session's specification, its `primaries` where they are to be in the end, as things are now.

    Asks for the nodes only where spreading is declared; `tell` is told where they may not be read. Errors: those of the
    API.
    """
    declaration = session.declaration
    if not declaration.spread_primaries:
        return session.spec
    placement = placement_of(session.api, facts)
    if not placement.may_read:
        tell(NO_ZONES)
    return spread_roles(session.spec, view, placement, prefer_zero=declaration.prefer_ordinal_zero)


def spread_roles(spec: Spec, view: View, placement: Placement, *, prefer_zero: bool) -> Spec:
    """The specification with `primaries` for all shards that have slots; those that it names already come first. Pure.

    As long as anything but roles is to be done, it is left as it is: who is in sync, and where, is about to change, and
    a role would move twice.
    """
    k = Knowledge(replace(spec, primaries={}), view)
    if not isinstance(plan(k.spec, view), Done):
        return spec
    owners = [(shard, owner) for shard in decide_shards(k) if (owner := owner_of(k, shard)) is not None]
    roles = Roles(
        primaries={shard.index: owner.member.ordinal for shard, owner in owners},
        able={
            shard.index: [node.member.ordinal for node in shard.nodes if in_sync(node, owner)]
            for shard, owner in owners
        },
        fixed=spec.primaries,
        prefer_zero=prefer_zero,
    )
    return replace(spec, primaries={**spec.primaries, **spread(roles, placement)})
