"""The Pods of a set of Sentinels: waits until all of them answer, and replaces those of a former template."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from valkeyctl.dataplane import Dialer, Member
from valkeyctl.dataplane.errors import Blocked, DeadlineExceeded, ValkeyctlError
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.sentinel.model import SENTINEL_PORT, Sentinel, sentinel
from valkeyctl.dataplane.sentinel.names import Names, names_of
from valkeyctl.kube.eviction import delete_now, evict
from valkeyctl.kube.forward import dialer_for
from valkeyctl.kube.pods import PodFacts, facts_of
from valkeyctl.kube.secrets import read_credentials
from valkeyctl.kube.sentinel_directory import SentinelDirectory
from valkeyctl.kube.trouble import trouble
from valkeyctl.lifecycle.engine import Engine
from valkeyctl.lifecycle.patience import Patience
from valkeyctl.lifecycle.props import Place, Props, place_of
from valkeyctl.lifecycle.replacing import EVICT_S, is_observed
from valkeyctl.lifecycle.roll_steps import Finished, PodState, Replace
from valkeyctl.lifecycle.sentinel_rolling import plan_roll
from valkeyctl.lifecycle.session import api_of

PATIENCE_S = 15.0
_LOOK_S = 0.3


@dataclass(frozen=True)
class SentinelSet:
    """What `Sentinels` declares, and the ways to the Pods."""

    place: Place
    directory: SentinelDirectory
    dialer: Dialer
    replicas: int
    timeout_s: float

    @property
    def declared(self) -> tuple[Sentinel, ...]:
        """Every declared Sentinel, by ordinal."""
        return tuple(sentinel(ordinal) for ordinal in range(self.replicas))

    def facts(self) -> list[PodFacts]:
        """What Kubernetes says of the declared Sentinels' Pods. Errors: those of the API."""
        workload = self.directory.workload()
        pods = {self.directory.member_of(pod): pod for pod in self.directory.pods()}
        return [
            facts_of(one, pods[one], workload)
            if one in pods
            else PodFacts(one, f"{self.directory.set_name}-{one.ordinal}", "Absent")
            for one in self.declared
        ]


def set_of(props: Props) -> SentinelSet:
    """The set that the properties declare. Errors: those of the API; SecretMissing."""
    place = place_of(props)
    api = api_of(place, patience_s=PATIENCE_S)
    credentials = read_credentials(api, place.namespace, props.get("credentials"), "sentinel")
    port = int(props.get("port") or SENTINEL_PORT)
    return SentinelSet(
        place=place,
        directory=SentinelDirectory(api, place.namespace, str(props["set_name"]), port),
        dialer=dialer_for(place.transport, api, place.namespace, credentials),
        replicas=int(props["replicas"]),
        timeout_s=float(props.get("timeout_s") or 600),
    )


def to_do(props: Props, *, new_template: bool) -> list[str]:
    """Lines for a preview: which Sentinels are replaced; nothing where that can't be told now."""
    if props.get("paused"):
        return []
    with suppress(ValkeyctlError):  # an API server that doesn't answer is told of elsewhere
        facts = set_of(props).facts()
        outdated = sorted(
            (f.member for f in facts if f.outdated or (new_template and f.phase != "Absent")), reverse=True
        )
        if outdated:
            return [f"replace Sentinels: {', then '.join(map(str, outdated))}"]
    return []


def roll(props: Props, engine: Engine, tell: Callable[[str], None]) -> None:
    """Returns when every Sentinel runs, answers, and is of the newest template. Idempotent and resumable.

    Errors: Blocked, DeadlineExceeded, Interrupted, those of the API; SecretMissing.
    """
    if props.get("paused"):
        return
    one = set_of(props)
    with Links(one.dialer, timeout_s=TIMEOUT_S, max_parallel=MAX_PARALLEL) as links:
        _Roll(one, engine, tell, links, time.monotonic() + one.timeout_s).run()


@dataclass
class _Roll:
    set: SentinelSet
    engine: Engine
    tell: Callable[[str], None]
    links: Links
    deadline: float
    patience: Patience = field(default_factory=Patience)
    _told: str = ""

    def run(self) -> None:
        while True:
            self.engine.require()
            facts, told = self.set.facts(), self._names()
            self.patience.answered(told)
            self.patience.judge([fact for fact in facts if fact.member not in told])
            step = plan_roll(self.set.declared, self._states(facts), told)
            workload = self.set.directory.workload()
            if workload is None or not is_observed(workload):
                self._wait("the StatefulSet controller must take notice", facts)
            elif isinstance(step, Finished):
                return
            elif isinstance(step, Replace):
                self._replace(step, facts)
            else:
                self._wait(step.why, facts)

    def _names(self) -> Mapping[Member, Names]:
        told = names_of(self.links, self.set.directory())
        return {member: outcome for member, outcome in told.items() if isinstance(outcome, Names)}

    def _states(self, facts: list[PodFacts]) -> Mapping[Member, PodState]:
        return {
            fact.member: PodState(fact.member, outdated=fact.outdated, runs=fact.started, terminating=fact.terminating)
            for fact in facts
            if fact.phase != "Absent"
        }

    def _replace(self, step: Replace, facts: list[PodFacts]) -> None:
        api, namespace = self.set.directory.api, self.set.directory.namespace
        by_member = {fact.member: fact for fact in facts}
        for member in step.members:
            fact = by_member[member]
            if step.idle:
                delete_now(api, namespace, fact.pod, uid=fact.uid)
            else:
                self._evict(fact)
            self.engine.info(f"{member}: replace its Pod")
        self.patience.forget(step.members)

    def _evict(self, fact: PodFacts) -> None:
        until = min(time.monotonic() + EVICT_S, self.deadline)
        while refusal := evict(self.set.directory.api, self.set.directory.namespace, fact.pod, uid=fact.uid):
            self.engine.require()
            if time.monotonic() >= until:
                raise Blocked(
                    f"{fact.pod} couldn't be evicted for {EVICT_S:.0f} s: {refusal}",
                    where=self.set.directory.set_name,
                    remedy="See which Pods aren't Ready, and why (kubectl get pods, describe pdb), and run it again.",
                )
            time.sleep(_LOOK_S)

    def _wait(self, why: str, facts: list[PodFacts]) -> None:
        lines = trouble(facts)
        line = f"{why}. Pods: {'; '.join(lines)}" if lines else why
        if time.monotonic() >= self.deadline:
            raise DeadlineExceeded(
                f"the Sentinels weren't ready in time: {line}",
                where=self.set.directory.set_name,
                remedy="Run it again: it goes on from here. `timeoutSeconds` gives it more time.",
            )
        if line != self._told:
            self._told = line
            self.tell(line)
        time.sleep(_LOOK_S)
