"""What a roll goes by and what it does, whatever the architecture: frozen records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from valkeyctl.dataplane import Member
from valkeyctl.kube.pods import PodFacts


@dataclass(frozen=True)
class PodState:
    """A member's Pod, as far as a roll goes by it. `runs`: its server's process runs, whether or not it answers."""

    member: Member
    exists: bool = True
    outdated: bool = False
    runs: bool = True
    terminating: bool = False


@dataclass(frozen=True)
class Finished:
    """No Pod is of a former template."""


@dataclass(frozen=True)
class Replace:
    """Replace these Pods now, all of them at once.

    `idle`: they serve nothing, and no disruption budget has to agree. `loses`: their shards' data goes with them.
    """

    members: tuple[Member, ...]
    idle: bool = False
    loses: bool = False


@dataclass(frozen=True)
class Await:
    """Nothing may be replaced yet; `why`, for people."""

    why: str


@dataclass(frozen=True)
class Refuse:
    """Nothing more may be replaced without a person."""

    reason: str
    remedy: str


def states(facts: Sequence[PodFacts], *, all_outdated: bool = False) -> Mapping[Member, PodState]:
    """What a roll goes by, of the facts of Pods. `all_outdated`: as it will be when the template has changed."""
    return {
        fact.member: PodState(
            fact.member,
            exists=fact.phase != "Absent",
            outdated=fact.outdated or (all_outdated and fact.phase != "Absent"),
            runs=fact.server_runs,
            terminating=fact.terminating,
        )
        for fact in facts
    }


def idle_ones(pods: Mapping[Member, PodState]) -> tuple[Member, ...]:
    """The Pods of a former template that run no server.

    Whatever keeps them from starting, their own template can't be mended any more. They hold nothing that a volume
    doesn't keep, so all go at once: that is what a corrected config is waiting for.
    """
    return tuple(m for m, pod in pods.items() if pod.outdated and pod.exists and not pod.terminating and not pod.runs)


def absent_ones(pods: Mapping[Member, PodState]) -> frozenset[Member]:
    """The members without a Pod that runs a server, or whose Pod is about to go."""
    return frozenset(m for m, pod in pods.items() if not pod.exists or pod.terminating or not pod.runs)
