"""Before a shard gets fewer members: its primary's role moves to one that stays, while all of them still run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from valkeyctl.dataplane import Progress, converge
from valkeyctl.dataplane.errors import Blocked, DeadlineExceeded, ValkeyctlError
from valkeyctl.dataplane.plan_roles import leaving_primaries, plan_retreat
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.status import read_status
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.present import present, sizes_of
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.session import api_of, hold_for_up

WITHIN_S = 60.0
"""How long members that stay may take to be in sync. Then nothing is taken out."""
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Retreating:
    """What is declared: so many replicas, and how to speak to the servers."""

    replicas: int
    port: int = 6379
    credentials: Mapping[str, str | None] | None = None


def too_many(place: Place, replicas: int) -> bool:
    """Whether a StatefulSet of a formed instance asks for more members than are declared.

    It is asked for on each run, so that an `up` that was killed between two StatefulSets is gone on with.
    """
    with suppress(ValkeyctlError):  # an API server that doesn't answer is told of elsewhere
        status = read_status(api_of(place), place.namespace, place.instance)
        if status is None or not status.formed or status.destroying:
            return False
        sizes = sizes_of(place, Directory(api_of(place), place.namespace, place.instance))
        return any(size > 1 + replicas for size in sizes)
    return False


def roles_that_move(place: Place, declared: Retreating) -> list[str]:
    """A line for each primary that is to go, for a preview; nothing where that can't be told now."""
    with suppress(ValkeyctlError):
        found = present(place, port=declared.port, credentials=declared.credentials)
        if found is not None:
            owners = leaving_primaries(found.spec, found.look(), keep=1 + declared.replicas)
            return [f"move the role of {owner.member}, a primary, to a member that stays" for owner in owners]
    return []


def retreat(place: Place, declared: Retreating, engine: Engine, tell: Callable[[str], None]) -> None:
    """Returns when no primary is among the members that are to go. Idempotent.

    Under the instance's Lease. Errors: LeaseHeld; Blocked, where no member that stays can take a role over;
    Interrupted; those of the API.
    """
    found = present(place, port=declared.port, credentials=declared.credentials, patience_s=PATIENCE_S)
    if found is None:
        return
    keep = 1 + declared.replicas

    def progress(now: Progress) -> None:
        for line in now.new:
            engine.info(line)
        tell(now.text)

    with hold_for_up(found.api, place, engine, tell) as lease:

        def may_go_on() -> None:
            engine.require()
            lease.check()

        try:
            converge(
                found.spec,
                found.directory,
                found.dialer,
                deadline_s=WITHIN_S,
                progress=progress,
                may_go_on=may_go_on,
                decide=lambda spec, view: plan_retreat(spec, view, keep=keep),
            )
        except DeadlineExceeded as error:
            raise Blocked(
                f"replicas can't be taken out now, and none was: {error.what.partition('. ')[2] or error.what}",
                where=place.instance,
                remedy=f"Bring the instance into order with its present replicas first, then declare "
                f"{declared.replicas}.",
            ) from error
