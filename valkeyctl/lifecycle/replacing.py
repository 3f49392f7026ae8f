"""Replaces Pods of a former template, whatever the architecture; whose turn it is, others decide."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from valkeyctl.dataplane import Member
from valkeyctl.dataplane.errors import Blocked, DeadlineExceeded
from valkeyctl.kube.access import Api, Object
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.eviction import delete_now, evict
from valkeyctl.kube.pods import PodFacts, pod_facts
from valkeyctl.lifecycle.props import Place
from valkeyctl.lifecycle.roll_steps import Replace

OBSERVED_S = 30.0
"""How long the StatefulSets' controller may take to notice what was declared."""
EVICT_S = 120.0
"""How long a disruption budget may keep a Pod from being evicted, all members being right."""
TOLD_AFTER_S = 3.0
"""A Pod counts as Ready some seconds after its server is in sync: that a budget waits for it needn't be told."""
_PAUSE_S = 0.1
_LOOK_S = 0.25


@dataclass(frozen=True)
class Hands:
    """What replacing is given to work with.

    `may_go_on` raises where the work must stop; `did` keeps a step that was done, `warn` shouts one, `tell` shows a
    line; `replaced` hears whose Pods are new. `deadline` by the monotonic clock.
    """

    may_go_on: Callable[[], None]
    did: Callable[[str], None]
    warn: Callable[[str], None]
    tell: Callable[[str], None]
    replaced: Callable[[Sequence[Member]], None]
    deadline: float


@dataclass
class Replacing:
    """The Pods of one instance, over one run. `leaving`: members that exist and aren't declared any more."""

    api: Api
    place: Place
    directory: Directory
    members: Sequence[Member]
    leaving: Sequence[Member]
    hands: Hands
    facts: Sequence[PodFacts] = ()
    looked_at: float = field(default=float("-inf"))
    _total: int = 0

    @property
    def outdated(self) -> list[PodFacts]:
        """The Pods of a former template, as last seen."""
        return [fact for fact in self.facts if fact.outdated]

    @property
    def progress(self) -> str:
        """How far it is, to go before a line of progress; "" where nothing is rolled."""
        return f"{self._total - len(self.outdated)} of {self._total} Pods are new; " if self._total else ""

    def look(self, *, if_older_than_s: float = 0.0) -> None:
        """Reads the facts of all members' Pods, unless they are known well enough."""
        if time.monotonic() - self.looked_at < if_older_than_s:
            return
        self.facts = pod_facts(self.directory, self.members)
        self.looked_at = time.monotonic()
        self._total = max(self._total, len(self.outdated))

    def await_controllers(self) -> None:
        """Which Pods are outdated can be told only when the StatefulSets' controller has seen the newest templates."""
        until = min(time.monotonic() + OBSERVED_S, self.hands.deadline)
        while unseen := [name_of(one) for one in self.directory.workloads() if not is_observed(one)]:
            self.hands.may_go_on()
            if time.monotonic() >= until:
                raise Blocked(
                    f"the StatefulSet controller hasn't taken notice of {', '.join(unseen[:4])} for {OBSERVED_S:.0f} s",
                    where=self.place.instance,
                    remedy="See whether the cluster's kube-controller-manager runs.",
                )
            time.sleep(_PAUSE_S)
        self.look()

    def late(self, why: str) -> DeadlineExceeded:
        """What a person is told where the time is over before all Pods are new."""
        return DeadlineExceeded(
            f"not all Pods were replaced in time: {len(self.outdated)} of {self._total} are left"
            f"{f': {why}' if why else ''}",
            where=self.place.instance,
            remedy="Run it again: it goes on from here. `timeoutSeconds` gives it more time.",
        )

    def replace(self, step: Replace) -> None:
        """Evicts these members' Pods; deletes them where they serve nothing. Errors: Blocked, those of the API."""
        facts = {fact.member: fact for fact in self.facts}
        if step.loses:
            names = ", ".join(facts[member].pod for member in step.members)
            self.hands.warn(f"{names}: the data goes with the Pod, as `allowDataLoss` permits")
        gone: list[Member] = []
        for member in step.members:
            self.hands.may_go_on()
            fact = facts[member]
            if step.idle:
                delete_now(self.api, self.place.namespace, fact.pod, uid=fact.uid)
            else:
                self._evict(fact, ours=bool(gone))
            gone.append(member)
            why = f", which couldn't start ({fact.reason or fact.phase})" if step.idle else ""
            self.hands.did(f"{member}: replace its Pod{why}")
        self.hands.replaced(gone)
        # What is known of these Pods is known to be wrong now.
        self.looked_at = float("-inf")

    def _evict(self, fact: PodFacts, *, ours: bool) -> None:
        """Asks until the budgets agree. `ours`: Pods of other shards were evicted in the same step.

        The instance's own budget allows one Pod at a time. Where a person allowed several shards at a time, or a Pod
        that is leaving isn't Ready and never may be, that this budget alone refuses is no reason to wait: the plan has
        weighed all that it protects.
        """
        began = time.monotonic()
        until = min(began + EVICT_S, self.hands.deadline)
        while refusal := evict(self.api, self.place.namespace, fact.pod, uid=fact.uid):
            self.hands.may_go_on()
            of_ours = f"disruption budget {self.place.instance} needs" in refusal
            if of_ours and (ours or self._leavers_arent_ready()):
                delete_now(self.api, self.place.namespace, fact.pod, uid=fact.uid)
                return
            if time.monotonic() - began >= TOLD_AFTER_S:
                self.hands.tell(f"{self.progress}{fact.pod} may not be evicted yet: {refusal}")
            if time.monotonic() >= until:
                raise Blocked(
                    f"{fact.pod} couldn't be evicted for {EVICT_S:.0f} s: {refusal}",
                    where=self.place.instance,
                    remedy="See which Pods aren't Ready, and why (kubectl get pods, describe pdb), and run it again.",
                )
            time.sleep(_LOOK_S)

    def _leavers_arent_ready(self) -> bool:
        return bool(self.leaving) and any(not fact.ready for fact in pod_facts(self.directory, self.leaving))


def is_observed(workload: Object) -> bool:
    """Whether a StatefulSet's status is about what is declared in it now."""
    wanted = (workload.get("metadata") or {}).get("generation")
    seen = (workload.get("status") or {}).get("observedGeneration")
    return wanted is None or int(seen or 0) >= int(wanted)


def name_of(workload: Object) -> str:
    """The name of a StatefulSet."""
    return str(workload["metadata"]["name"])
