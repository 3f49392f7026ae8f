"""How long Pods that don't start are waited for: as long as waiting may help, and no longer."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from valkeyctl.dataplane import Member, View
from valkeyctl.dataplane.errors import Blocked
from valkeyctl.kube.pods import NO_WORKLOAD, PodFacts
from valkeyctl.kube.trouble import advice

#: For how many seconds a Pod may show a reason, without its server answering meanwhile, until the work ends over it.
#: What nobody but a person can mend is told at once, and so is a StatefulSet that went: Pulumi has had its turn to make
#: it. A registry may have a bad moment, of which the second try tells; a server may fail to start because of another;
#: a quota is lifted by somebody else.
PATIENCE_S: dict[str, float] = {
    NO_WORKLOAD: 4.0,
    "InvalidImageName": 4.0,
    "ErrImageNeverPull": 4.0,
    "ErrImagePull": 20.0,
    "ImagePullBackOff": 20.0,
    "CreateContainerConfigError": 20.0,
    "CreateContainerError": 20.0,
    "RunContainerError": 20.0,
    "CrashLoopBackOff": 25.0,
    "FailedCreate": 120.0,
}
#: What registries say of an image that they don't have: then there is nothing to wait for.
NO_SUCH_IMAGE = ("not found", "manifest unknown", "does not exist", "name unknown")
NO_SUCH_IMAGE_S = 4.0


@dataclass
class Patience:
    """Since when each member's Pod can't start. A container that crashes again and again runs now and then: that it
    answers is what ends it.
    """

    _since: dict[Member, float] = field(default_factory=dict[Member, float])

    def answered(self, view: View) -> None:
        """Members that answer are well."""
        for member in view.nodes:
            self._since.pop(member, None)

    def judge(self, facts: Sequence[PodFacts]) -> None:
        """Raises Blocked once waiting for one of these Pods won't help. Those of a former template aren't looked at:
        they are replaced.
        """
        now = time.monotonic()
        hopeless: list[PodFacts] = []
        for fact in facts:
            if not fact.stuck or fact.outdated:
                continue
            since = self._since.setdefault(fact.member, now)
            if now - since >= patience_s(fact):
                hopeless.append(fact)
        if hopeless:
            raise stuck(hopeless)

    def forget(self, members: Collection[Member]) -> None:
        """These members' Pods are new ones."""
        for member in members:
            self._since.pop(member, None)


def patience_s(fact: PodFacts) -> float:
    """How long this Pod's trouble is waited out."""
    longest = PATIENCE_S.get(fact.reason, 120.0)
    if fact.reason in ("ErrImagePull", "ImagePullBackOff") and any(word in fact.message for word in NO_SUCH_IMAGE):
        return min(longest, NO_SUCH_IMAGE_S)
    return longest


def stuck(facts: Sequence[PodFacts]) -> Blocked:
    """What a person is told of Pods that can't start."""
    names = ", ".join(fact.pod for fact in facts[:4])
    more = f" and {len(facts) - 4} more" if len(facts) > 4 else ""
    todo = "; ".join(advice(facts)) or "see what keeps them from it"
    remedy = f"{todo[0].upper()}{todo[1:]}."
    if any(fact.reason != NO_WORKLOAD for fact in facts):
        remedy += " Correct it and run it again: these Pods are then replaced."
    return Blocked(f"Pods can't start: {names}{more}", remedy=remedy)
