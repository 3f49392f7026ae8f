"""What the agent does whose turn it is: bring Valkey back to what is declared, and tell of it.

With the very plan that `up` uses, and less freedom: never with consent to a loss of data, never towards anything that
`up` has not declared. Heavy: imported only when there is something to heal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from valkeyctl.agent.attending import Attending
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.turns import End, Turn, why_not
from valkeyctl.dataplane import (
    Blocked,
    Credentials,
    Dialer,
    DirectDialer,
    Done,
    Member,
    Phase,
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
from valkeyctl.kube.lease import Lease
from valkeyctl.kube.named_directory import NamedDirectory
from valkeyctl.kube.status import InstanceStatus, read_status

TURN_S = 60.0
"""So long a turn works at most; what isn't healed then is told, and tried again later."""


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
    directory = NamedDirectory(api, place.namespace, place.instance, spec.members, state.port)
    attending = Attending(runtime, api, lease, directory, state, declared, before or InstanceStatus(""))
    return _Work(attending, spec, reach).heal(missing_since)


@dataclass
class _Work:
    """One turn's work under the Lease. `spec` is what is declared with what the status knows."""

    _attending: Attending
    _spec: Spec
    _dialer: Dialer

    def heal(self, missing_since: Mapping[Member, float]) -> Turn:
        attending = self._attending
        endpoints = attending.directory()
        attending.runtime.peers.learn({member: endpoint.address for member, endpoint in endpoints.items()})
        view = observe(self._spec, endpoints, self._dialer)
        what = plan(self._spec, view)
        if isinstance(what, Done):
            if attending.before.phase != Phase.READY:
                self._tell(view, "")
            return Turn(End.RIGHT)
        lines = what.describe() if not isinstance(what, Blocked) else (what.reason,)
        attending.log(f"to heal: {'; '.join(lines[:5])}")
        self._tell(view, "", begun=True)
        try:
            view = converge(
                self._spec,
                attending.directory,
                self._dialer,
                deadline_s=TURN_S,
                progress=attending.progress,
                may_go_on=attending.may_go_on,
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

    def _tell(self, view: View, failure: str, *, begun: bool = False) -> None:
        found, before = report(self._spec, view), self._attending.before
        status = replace(
            before,
            phase=str(found.phase),
            conditions=found.conditions,
            layout=describe_layout(found.layout) if any(found.layout) else before.layout,
            primaries=dict(found.primaries),
            server_version=found.server_version or before.server_version,
            formed=self._spec.formed or found.phase is Phase.READY,
        )
        self._attending.tell(status, found.condition("Ready").message, failure, begun=begun)
