"""What the agent of a dataset does whose turn it is: bring Valkey back to what is declared, and tell of it.

With the very plan that `up` uses, and less freedom: never with consent to a loss of data, never a handover. Where
somebody else decides who the primary is, that is asked anew at every look. Heavy: imported only when there is something
to heal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from valkeyctl.agent.attending import Attending
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.turns import End, Held, Turn, why_not
from valkeyctl.dataplane import Blocked, Condition, Credentials, Dialer, DirectDialer, Done, Member, Phase, errors
from valkeyctl.dataplane.dataset_report import together
from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.dataplane.replication.converge import converge
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import PATIENCE_S, ReplicationSpec
from valkeyctl.dataplane.replication.observe import observe
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.replication.steps import Action, Demote, HandOver, Promote
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.rounds import Plan, Round
from valkeyctl.dataplane.sentinel.report import SentinelReport
from valkeyctl.kube.dataset_look import endpoints_condition, wanted_endpoints
from valkeyctl.kube.declared_dataset import DeclaredDataset
from valkeyctl.kube.endpoints import Wanted, write_endpoints
from valkeyctl.kube.errors import ApiConflict, KubeError
from valkeyctl.kube.named_directory import NamedDirectory
from valkeyctl.kube.status import InstanceStatus, read_status

TURN_S = 60.0
"""So long a turn works at most; what isn't healed then is told, and tried again later."""
BESIDES_S = 10.0
"""The same for what is left to do besides, where the dataset itself can't be healed."""
SHARD = "s0"
"""The dataset among the primaries of a status."""


class Besides(Protocol):
    """What else has to be as declared for the dataset to be Ready: what its Sentinels monitor."""

    def look(self, state: DeclaredDataset, attending: Attending) -> SentinelReport:
        """What was found. Changes nothing."""
        ...

    def heal(
        self, state: DeclaredDataset, attending: Attending, primary: Member | None, deadline_s: float
    ) -> SentinelReport:
        """Bring it about; what was found in the end. `primary` is what the servers say. Raises as `converge`."""
        ...


@dataclass(frozen=True)
class Way:
    """How a dataset is healed, by who decides who its primary is.

    `primary` tells it now (None: nobody keeps it, or it isn't known). Nobody is promoted while `decided_elsewhere`.
    `hands_off`: nor is anybody's role changed. `besides` is what else is looked at. `learn` is told what is declared.
    """

    primary: Callable[[], Member | None]
    decided_elsewhere: Callable[[], bool]
    hands_off: bool
    learn: Callable[[DeclaredDataset | None], None]
    besides: Besides | None = None


def heal(held: Held[DeclaredDataset], way: Way) -> Turn:
    """Heal and tell, while the Lease is held. Errors: Interrupted, where it was stopped; those of the API, where
    nothing could be begun.
    """
    place = held.runtime.environment
    # An `up` may have declared something else since the Lease was free.
    state, before = held.declared(), read_status(held.api, place.namespace, place.instance)
    way.learn(state)
    if state is None or (before is not None and before.destroying):
        return Turn(End.NOT_DECLARED, "" if state is None else "the instance is being destroyed")
    if not state.may_heal:
        return Turn(why_not(state))
    if not _is_of(place, state):
        return Turn(End.OUTDATED)
    formed = state.formed or bool(before and before.formed)
    spec = ReplicationSpec(
        state.instance,
        state.replicas,
        last_primary=_last_primary(before, state),
        formed=formed,
        persistent=state.persistent,
        patience_s=PATIENCE_S,
    )
    directory = NamedDirectory(held.api, place.namespace, place.instance, spec.members, state.port)
    attending = Attending(
        held.runtime, held.api, held.lease, directory, state, held.declared, before or InstanceStatus("")
    )
    dialer = held.dialer or DirectDialer(Credentials(password=held.runtime.password().decode()))
    return _Work(attending, state, spec, dialer, way).heal(held.missing_since)


def _is_of(place: Environment, state: DeclaredDataset) -> bool:
    """Whether this Pod was made for what is declared: while an instance is moved to another way of deciding who its
    primary is, its former Pods stand still.
    """
    mine = (place.architecture, place.automatic_failover_s is not None)
    return mine == (state.architecture, state.automatic_failover_s is not None)


def _last_primary(before: InstanceStatus | None, state: DeclaredDataset) -> int | None:
    """Who was the primary when somebody last saw all of it; None where that isn't known, or isn't declared any more."""
    pod = "" if before is None else before.primaries.get(SHARD, "")
    ordinal = pod.rpartition("-")[2]
    return int(ordinal) if ordinal.isdigit() and int(ordinal) <= state.replicas else None


@dataclass
class _Work:
    """One turn's work under the Lease."""

    _attending: Attending
    _state: DeclaredDataset
    _spec: ReplicationSpec
    _dialer: Dialer
    _way: Way
    _led: Wanted | None = None

    def heal(self, missing_since: Mapping[Member, float]) -> Turn:
        attending, way = self._attending, self._way
        endpoints = attending.directory()
        attending.runtime.peers.learn({member: endpoint.address for member, endpoint in endpoints.items()})
        view = observe(self._spec, endpoints, self._dialer)
        what = self._decide(self._spec, view)
        besides = way.besides.look(self._state, attending) if way.besides else None
        if isinstance(what, Done) and (besides is None or besides.ready):
            if attending.before.phase != Phase.READY:
                self._tell(view, "", besides)
            return Turn(End.RIGHT)
        lines = what.describe() if isinstance(what, Round) else (what.reason,) if isinstance(what, Blocked) else ()
        amiss = [one.message for one in besides.conditions if one.message] if besides else []
        attending.log(f"to heal: {'; '.join([*lines, *amiss][:5])}")
        self._tell(view, "", besides, begun=True)
        try:
            view = converge(
                self._spec,
                attending.directory,
                self._dialer,
                deadline_s=TURN_S,
                progress=attending.progress,
                may_go_on=attending.may_go_on,
                missing_since=missing_since,
                decide=self._decide,
            )
            besides = self._heal_besides(view, besides, TURN_S)
        except Interrupted:
            raise
        except KubeError as error:
            return Turn(End.STOPPED, str(error))
        except ValkeyctlError as error:
            seen = getattr(error, "view", None)
            view = seen if isinstance(seen, ReplicationView) else view
            failure = f"{error.what.rstrip('.')}. {error.remedy}".rstrip()
            if seen is view:
                # A member that stays away keeps nobody from watching the others.
                with suppress(errors.Blocked, errors.DeadlineExceeded):
                    besides = self._heal_besides(view, besides, BESIDES_S)
            self._tell(view, failure, besides)
            return Turn(End.NOT_HEALED, str(error))
        self._tell(view, "", besides)
        return Turn(End.HEALED)

    def _heal_besides(
        self, view: ReplicationView, besides: SentinelReport | None, deadline_s: float
    ) -> SentinelReport | None:
        if self._way.besides is None or (besides is not None and besides.ready and deadline_s < TURN_S):
            return besides
        found = decide_primary(Knowledge(self._now(self._spec), view)).primary
        primary = None if found is None else found.member
        return self._way.besides.heal(self._state, self._attending, primary, deadline_s)

    def _decide(self, spec: ReplicationSpec, view: ReplicationView) -> Plan[Action]:
        """The plan by who is the primary now; and clients are led there."""
        spec = self._now(spec)
        self._lead_clients(spec, view)
        what = plan(spec, view)
        if not self._way.hands_off or not isinstance(what, Round):
            return what
        kept = tuple(step for step in what.actions if not isinstance(step, Promote | Demote | HandOver))
        return replace(what, actions=kept)

    def _now(self, spec: ReplicationSpec) -> ReplicationSpec:
        """With who is the primary by now, where that is somebody else's to say."""
        if not self._way.decided_elsewhere():
            return spec
        primary = self._way.primary()
        named = None if primary not in spec.members else primary.ordinal
        return replace(spec, decided_elsewhere=True, last_primary=named)

    def _lead_clients(self, spec: ReplicationSpec, view: ReplicationView) -> None:
        if spec.decided_elsewhere:
            primary = decide_primary(Knowledge(spec, view)).primary
            if primary is None or primary.member.ordinal != spec.last_primary:
                return
        what = wanted_endpoints(spec, view, {member: node.endpoint for member, node in view.nodes.items()})
        if what == self._led:
            return
        place = self._attending.runtime.environment
        try:
            for line in write_endpoints(self._attending.api, place.namespace, place.instance, what):
                self._attending.log(f"clients go to {line}")
            self._led = what
        except ApiConflict:
            pass  # somebody else wrote: the next look tells what is to be there now
        except KubeError as error:
            self._attending.log(f"clients can't be led: {error}")

    def _tell(
        self, view: ReplicationView, failure: str, besides: SentinelReport | None, *, begun: bool = False
    ) -> None:
        spec, before = self._now(self._spec), self._attending.before
        found = together(report(spec, view), besides, self._endpoints(spec, view), formed=spec.formed)
        status = replace(
            before,
            phase=str(found.phase),
            conditions=found.conditions,
            primaries=found.primaries or before.primaries,
            server_version=found.server_version or before.server_version,
            formed=spec.formed or found.phase is Phase.READY,
        )
        self._attending.tell(status, found.conditions[0].message, failure, begun=begun)

    def _endpoints(self, spec: ReplicationSpec, view: ReplicationView) -> Condition | None:
        place = self._attending.runtime.environment
        what = wanted_endpoints(spec, view, {member: node.endpoint for member, node in view.nodes.items()})
        try:
            return endpoints_condition(self._attending.api, place.namespace, place.instance, what)
        except KubeError:
            return None
