"""What the roll of a set of Sentinels does next. Pure.

One Sentinel is replaced at a time, and only while all the others answer, see every primary up and could fail over
without it. The next has its turn when that one monitors again what the others do.
"""

from __future__ import annotations

from collections.abc import Mapping

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.sentinel.model import Sentinel, majority
from valkeyctl.dataplane.sentinel.names import Names
from valkeyctl.lifecycle.roll_steps import Await, Finished, PodState, Replace, idle_ones

Next = Finished | Replace | Await


def plan_roll(declared: tuple[Sentinel, ...], pods: Mapping[Member, PodState], told: Mapping[Member, Names]) -> Next:
    """`pods` are those that there are, of the declared Sentinels; `told` has the Sentinels that answer. Finished when
    all of them run, answer, and are of the newest template.
    """
    if idle := idle_ones(pods):
        return Replace(idle, idle=True)
    silent = [member for member in declared if member not in told]
    outdated = sorted((member for member, pod in pods.items() if pod.outdated and not pod.terminating), reverse=True)
    if not outdated:
        return Await(f"{', '.join(map(str, silent))} must answer") if silent else Finished()
    # One that runs and doesn't answer is mended by nothing but another Pod.
    first = next((member for member in outdated if member in silent), outdated[0])
    hindrance = _hindrance(declared, first, told)
    return Await(hindrance) if hindrance else Replace((first,))


def _hindrance(declared: tuple[Sentinel, ...], leaves: Member, told: Mapping[Member, Names]) -> str:
    """Why a Sentinel may not be stopped now; "" where it may."""
    others = [member for member in declared if member != leaves]
    if silent := [member for member in others if member not in told]:
        return f"{', '.join(map(str, silent))} must answer before"
    every = sorted({name for member in others for name in told[member].troubles})
    if every and len(others) < majority(len(declared)):
        return ""  # A single one, or two: nothing is failed over while one is replaced, whenever that is.
    for name in every:
        for member in others:
            trouble = told[member].troubles.get(name)
            if trouble is None:
                return f"{member} must monitor {name} again before"
            if trouble:
                return f"{name} isn't well for {member} ({trouble})"
    return ""
