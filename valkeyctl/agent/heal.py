"""What the agent does whose turn it is: bring Valkey back to what is declared, and tell of it.

With the very plan that `up` uses, and less freedom: never with consent to a loss of data, never towards anything that
`up` has not declared. Heavy: imported only when there is something to heal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from valkeyctl.agent.environment import Environment
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.turns import End, Turn, why_not
from valkeyctl.dataplane import (
    Blocked,
    Condition,
    Credentials,
    Dialer,
    DirectDialer,
    Done,
    Member,
    Phase,
    Progress,
    Report,
    Spec,
    View,
    converge,
    describe_layout,
    observe,
    plan,
    report,
)
from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import DeclaredState
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.events import Recorder
from valkeyctl.kube.lease import Lease
from valkeyctl.kube.named_directory import NamedDirectory
from valkeyctl.kube.pods import pod_facts
from valkeyctl.kube.status import InstanceStatus, read_status, write_seen
from valkeyctl.kube.trouble import pod_conditions, trouble

TURN_S = 60.0
"""So long a turn works at most; what isn't healed then is told, and tried again later."""
LOOK_AGAIN_S = 2.0
"""How often a turn sees whether the instance is still declared: one that is being destroyed isn't."""
SOURCE = "leader"


def heal(
    runtime: Runtime,
    api: Api,
    lease: Lease,
    *,
    declared: Callable[[], DeclaredState | None],
    missing_since: Mapping[Member, float],
    dialer: Dialer | None = None,
) -> Turn:
    """Heal and tell, while the Lease is held. `declared` reads what is declared now, `missing_since` is as for
    `converge`, `dialer` how to get to servers (None: to their addresses, with the password that the own server takes).

    Errors: Interrupted, where it was stopped; those of the API, where nothing could be begun.
    """
    place = runtime.environment
    # An `up` may have declared something else since the Lease was free.
    state, before = declared(), read_status(api, place.namespace, place.instance)
    if state is None or (before is not None and before.destroying):
        return Turn(End.NOT_DECLARED, "" if state is None else "the instance is being destroyed")
    if not state.may_heal:
        return Turn(why_not(state))
    formed = state.spec.formed or bool(before and before.formed)
    # Nobody has seen a plan of what an agent would move; it only ends what was begun.
    spec = replace(state.spec, formed=formed, may_move=False)
    reach = dialer or DirectDialer(Credentials(password=runtime.password().decode()))
    return _Work(runtime, api, lease, state, spec, before or InstanceStatus(""), reach).heal(missing_since, declared)


@dataclass
class _Work:
    """One turn's work under the Lease. `state` is what is declared, `spec` the same with what the status knows."""

    _runtime: Runtime
    _api: Api
    _lease: Lease
    _state: DeclaredState
    _spec: Spec
    _before: InstanceStatus
    _dialer: Dialer
    _recorder: Recorder | None = None
    _done: tuple[str, ...] = ()
    _looked_at: float = field(default_factory=time.monotonic)

    @cached_property
    def _directory(self) -> NamedDirectory:
        place = self._place
        return NamedDirectory(self._api, place.namespace, place.instance, self._spec.members, self._state.port)

    @property
    def _place(self) -> Environment:
        return self._runtime.environment

    def heal(self, missing_since: Mapping[Member, float], declared: Callable[[], DeclaredState | None]) -> Turn:
        endpoints = self._directory()
        self._runtime.peers.learn({member: endpoint.address for member, endpoint in endpoints.items()})
        view = observe(self._spec, endpoints, self._dialer)
        what = plan(self._spec, view)
        if isinstance(what, Done):
            if self._before.phase != Phase.READY:
                self._tell(view, "")
            return Turn(End.RIGHT)
        lines = what.describe() if not isinstance(what, Blocked) else (what.reason,)
        self._log(f"to heal: {'; '.join(lines[:5])}")
        self._tell(view, "", begun=True)
        try:
            view = converge(
                self._spec,
                self._directory,
                self._dialer,
                deadline_s=TURN_S,
                progress=self._progress,
                may_go_on=lambda: self._may_go_on(declared),
                missing_since=missing_since,
            )
        except Interrupted:
            raise
        except KubeError as error:
            return Turn(End.STOPPED, str(error))
        except ValkeyctlError as error:
            seen = getattr(error, "view", None)
            self._tell(seen if isinstance(seen, View) else view, f"{error.what.rstrip('.')}. {error.remedy}".rstrip())
            return Turn(End.NOT_HEALED, str(error))
        self._tell(view, "")
        return Turn(End.HEALED)

    def _may_go_on(self, declared: Callable[[], DeclaredState | None]) -> None:
        """Raises where the work must stop: the agent ends, the Lease is lost or wished for, nothing is declared."""
        self._runtime.beat(SOURCE)
        if self._runtime.stopping.is_set():
            raise Interrupted("the agent is asked to end")
        self._lease.check()
        if time.monotonic() - self._looked_at >= LOOK_AGAIN_S:
            now = declared()
            self._looked_at = time.monotonic()
            if now != self._state:
                raise Interrupted("it is not declared like this any more")
            self._lease.check()

    # --- telling -----------------------------------------------------------------------------------------------------

    def _progress(self, now: Progress) -> None:
        self._done = now.done
        for line in now.new:
            (self._runtime.log.warning if "TAKE OVER" in line else self._runtime.log.info)(SOURCE, line)
            self._events().step(line)

    def _tell(self, view: View, failure: str, *, begun: bool = False) -> None:
        """Write what was seen into the status, and an Event where that is news. What can't be told stops nothing."""
        found = report(self._spec, view)
        # A turn that begins says what is wrong; what was said of it before stays until it is known better.
        failure = self._before.failure if begun else failure
        whose = self._before.failure_of if begun else f"agent {self._place.pod}"
        status = replace(
            self._before,
            phase=str(found.phase),
            conditions=self._conditions(found, failure),
            layout=describe_layout(found.layout) if any(found.layout) else self._before.layout,
            primaries=dict(found.primaries),
            server_version=found.server_version or self._before.server_version,
            done=self._done or self._before.done,
            failure=failure,
            failure_of=whose if failure else "",
            formed=self._spec.formed or found.phase is Phase.READY,
            observed_at="",
            observer=f"agent {self._place.pod}",
        )
        news = (status.phase, status.failure) != (self._before.phase, self._before.failure)
        try:
            write_seen(self._api, self._place.namespace, self._place.instance, status)
        except KubeError as error:
            self._runtime.log.warning(SOURCE, f"the status could not be written: {error}")
        if news or self._done:
            bad = found.phase is not Phase.READY
            text = failure or (found.condition("Ready").message if bad else self._summary())
            self._events().phase(status.phase, f"agent {self._place.pod}: {text}", bad=bad)
        self._before = status

    def _summary(self) -> str:
        return f"all is as declared again ({len(self._done)} steps)" if self._done else "all is as declared"

    def _conditions(self, found: Report, failure: str) -> tuple[Condition, ...]:
        """Those of Valkey, and where something is missing those of the Pods."""
        try:
            facts = pod_facts(self._directory, self._spec.members)
        except KubeError:
            return found.conditions
        if failure and (lines := trouble(facts)):
            self._log(f"Pods: {'; '.join(lines[:5])}")
        return (*found.conditions, *pod_conditions(facts))

    def _events(self) -> Recorder:
        if self._recorder is None:
            try:
                workloads = self._directory.workloads()
            except KubeError:
                workloads = []
            place = self._place
            self._recorder = Recorder(self._api, place.namespace, place.instance, workloads, create_only=True)
        return self._recorder

    def _log(self, text: str) -> None:
        self._runtime.log.info(SOURCE, text)
