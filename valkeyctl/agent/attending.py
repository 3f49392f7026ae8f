"""What every turn does beside healing: stop in time, and tell what was seen and done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from valkeyctl.agent.runtime import Runtime
from valkeyctl.dataplane import Condition, Phase, Progress
from valkeyctl.dataplane.errors import Interrupted
from valkeyctl.kube.access import Api
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.lease import Lease
from valkeyctl.kube.named_directory import NamedDirectory
from valkeyctl.kube.pods import pod_facts
from valkeyctl.kube.status import InstanceStatus, write_seen
from valkeyctl.kube.trouble import pod_conditions, trouble

LOOK_AGAIN_S = 2.0
"""How often a turn sees whether the instance is still declared: one that is being destroyed isn't."""
SOURCE = "leader"


@dataclass
class Attending:
    """One turn under the Lease. `before` is the status as it was last told, `state` what is declared."""

    runtime: Runtime
    api: Api
    lease: Lease
    directory: NamedDirectory
    state: object
    declared: Callable[[], object]
    before: InstanceStatus
    done: tuple[str, ...] = ()
    _recorder: Recorder | None = None
    _looked_at: float = field(default_factory=time.monotonic)

    def may_go_on(self) -> None:
        """Raises where the work must stop: the agent ends, the Lease is lost or wished for, nothing is declared."""
        self.runtime.beat(SOURCE)
        if self.runtime.stopping.is_set():
            raise Interrupted("the agent is asked to end")
        self.lease.check()
        if time.monotonic() - self._looked_at >= LOOK_AGAIN_S:
            now = self.declared()
            self._looked_at = time.monotonic()
            if now != self.state:
                raise Interrupted("it is not declared like this any more")
            self.lease.check()

    def progress(self, now: Progress) -> None:
        """Tell what was done."""
        self.done = now.done
        for line in now.new:
            (self.runtime.log.warning if "TAKE OVER" in line else self.runtime.log.info)(SOURCE, line)
            self._events().step(line)

    def tell(self, seen: InstanceStatus, why_not: str, failure: str, *, begun: bool = False) -> None:
        """Write what was seen into the status, and an Event where that is news. What can't be told stops nothing.

        `seen` is the status as before with what was observed, `why_not` why it isn't Ready. A turn that is `begun` says
        what is wrong; what was said of it before stays until it is known better.
        """
        failure = self.before.failure if begun else failure
        whose = self.before.failure_of if begun else self._who
        status = replace(
            seen,
            conditions=self._conditions(tuple(seen.conditions), failure),
            done=self.done or self.before.done,
            failure=failure,
            failure_of=whose if failure else "",
            observed_at="",
            observer=self._who,
        )
        news = (status.phase, status.failure) != (self.before.phase, self.before.failure)
        place = self.runtime.environment
        try:
            write_seen(self.api, place.namespace, place.instance, status)
        except KubeError as error:
            self.runtime.log.warning(SOURCE, f"the status could not be written: {error}")
        if news or self.done:
            bad = status.phase != Phase.READY
            text = failure or (why_not if bad else self._summary())
            self._events().phase(status.phase, f"{self._who}: {text}", bad=bad)
        self.before = status

    def log(self, text: str) -> None:
        """One line."""
        self.runtime.log.info(SOURCE, text)

    @property
    def _who(self) -> str:
        return f"agent {self.runtime.environment.pod}"

    def _summary(self) -> str:
        return f"all is as declared again ({len(self.done)} steps)" if self.done else "all is as declared"

    def _conditions(self, found: tuple[Condition, ...], failure: str) -> tuple[Condition, ...]:
        """Those of Valkey, and where something is missing those of the Pods."""
        try:
            facts = pod_facts(self.directory, self.directory.members)
        except KubeError:
            return found
        if failure and (lines := trouble(facts)):
            self.log(f"Pods: {'; '.join(lines[:5])}")
        return (*found, *pod_conditions(facts))

    def _events(self) -> Recorder:
        if self._recorder is None:
            try:
                workloads = self.directory.workloads()
            except KubeError:
                workloads = []
            place = self.runtime.environment
            self._recorder = Recorder(self.api, place.namespace, place.instance, workloads, create_only=True)
        return self._recorder
