"""Is something off in the dataset? Judged by what the own server tells alone, and by what whoever decides has seen.

Pure; see `agent.judge`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from valkeyctl.agent.dataset.state import DatasetState, of_dataset
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.judge import Judgement
from valkeyctl.agent.state import ServerState
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.view import Role

Named = Callable[[str], Member | None]


def judge(
    environment: Environment,
    state: ServerState,
    declared: Collection[Member],
    *,
    member_at: Named,
    primary: Member | None,
    seen: Iterable[str] = (),
) -> Judgement:
    """What the last look at the own server means.

    `member_at` tells whose a host name or an address is, `primary` is who was decided to be the primary as far as is
    known, and `seen` are troubles that whoever decides has seen.
    """
    live = of_dataset(state)
    if live is None:
        return Judgement()
    me = environment.member
    role = Role.PRIMARY if live.is_primary else Role.REPLICA
    if role is Role.PRIMARY:
        listed = _listed(live, member_at)
        alive = {me, *(member for member, online in listed.items() if online)}
        found = list(_of_a_primary(me, listed, declared, primary))
    else:
        upstream = None if live.upstream is None else member_at(live.upstream.host)
        # Of the others it knows nothing, so that they count as alive: the turns are theirs by their ordinals.
        gone = {upstream} if not live.linked else set[Member | None]()
        alive = {me, *(member for member in declared if member not in gone)}
        found = list(_of_a_replica(live, upstream, declared, primary))
    if live.announces != environment.host:
        found.append("it doesn't announce its name")
    return Judgement((*found, *seen), frozenset(alive), role)


def _listed(live: DatasetState, member_at: Named) -> dict[Member, bool]:
    """The members that follow a primary, and whether they are online."""
    listed = live.view(Endpoint(Member(0, 0), "", "", "")).replicas
    named = [(member_at(one.at.host), one.online) for one in listed]
    return {member: online for member, online in named if member is not None}


def _of_a_primary(
    me: Member, listed: dict[Member, bool], declared: Collection[Member], primary: Member | None
) -> Iterator[str]:
    if primary is not None and primary != me:
        yield f"it is a primary beside {primary}"
    for member in sorted(set(declared) - {me}):
        if member not in listed:
            yield f"{member} does not follow it"
        elif not listed[member]:
            yield f"{member} is not yet in sync"
    for member in sorted(set(listed) - set(declared)) if declared else ():
        yield f"{member} is not declared"


def _of_a_replica(
    live: DatasetState, upstream: Member | None, declared: Collection[Member], primary: Member | None
) -> Iterator[str]:
    if upstream is None:
        yield "it follows nobody of this instance"
    elif primary is not None and upstream != primary:
        yield f"it follows {upstream}, and {primary} is the primary"
    elif declared and upstream not in declared:
        yield f"it follows {upstream}, which is not declared"
    if not live.linked:
        yield "its link to its primary is not up"
