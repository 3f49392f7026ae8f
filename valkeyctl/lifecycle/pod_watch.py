"""Whether it is worth waiting for members that don't answer: Kubernetes is asked what is wrong with their Pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from valkeyctl.dataplane import Member
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.pods import PodFacts, pod_facts
from valkeyctl.kube.trouble import trouble
from valkeyctl.lifecycle.patience import Patience

#: Kubernetes is asked what is wrong with missing Pods after they have been missed for so long, and again each so often.
POD_LOOK_S = 2.0


@dataclass
class PodWatch:
    """Of one run. `tell` takes a line of progress."""

    directory: Directory
    tell: Callable[[str], None]
    patience: Patience = field(default_factory=Patience)
    _looked_at: float = 0.0

    def look(
        self,
        missing_for_s: Iterable[float],
        everybody: Collection[Member],
        awaited: Callable[[], Collection[Member]],
    ) -> None:
        """Says what keeps those Pods that are waited for. Raises Blocked where no waiting helps."""
        now = time.monotonic()
        if now - self._looked_at < POD_LOOK_S or not any(for_s >= POD_LOOK_S for for_s in missing_for_s):
            return
        self._looked_at = now
        wanted = awaited()
        facts = [fact for fact in self.facts(everybody) if fact.member in wanted]
        lines = trouble(facts)
        if lines:
            self.tell(f"waiting for Pods: {'; '.join(lines[:3])}{' …' if len(lines) > 3 else ''}")
        self.patience.judge(facts)

    def facts(self, members: Collection[Member]) -> list[PodFacts]:
        """What Kubernetes says of these members' Pods; nothing where the API server can't be asked."""
        try:
            return pod_facts(self.directory, members)
        except KubeError:
            return []
