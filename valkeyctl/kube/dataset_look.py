"""One look at a dataset as a whole, servers, Sentinels, the Lease and the endpoints, and what it means. Only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from valkeyctl.dataplane.dataset_report import ENDPOINTS, DatasetReport, together
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.replication.knowledge import Knowledge
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.observe import observe
from valkeyctl.dataplane.replication.plan import plan
from valkeyctl.dataplane.replication.plan_primary import decide_primary
from valkeyctl.dataplane.replication.report import report
from valkeyctl.dataplane.replication.steps import Action
from valkeyctl.dataplane.replication.view import ReplicationView
from valkeyctl.dataplane.report import Condition, Status
from valkeyctl.dataplane.rounds import Done, Plan
from valkeyctl.dataplane.sentinel.observe import observe as observe_sentinels
from valkeyctl.dataplane.sentinel.plan import plan as plan_sentinels
from valkeyctl.dataplane.sentinel.report import report as report_sentinels
from valkeyctl.dataplane.sentinel.steps import Action as SentinelAction
from valkeyctl.dataplane.sentinel.view import SentinelsView
from valkeyctl.dataplane.sentinel.word import Word, word_of
from valkeyctl.kube.access import Api
from valkeyctl.kube.directory import Directory
from valkeyctl.kube.endpoints import Wanted, filled, slice_path, wanted
from valkeyctl.kube.labels import primary_service_name, replicas_service_name
from valkeyctl.kube.primary_lease import read_primacy
from valkeyctl.kube.watched import SentinelSide


@dataclass(frozen=True)
class DatasetLook:
    """What was seen. `spec` is the one that was planned with, with what is decided of who the primary is."""

    spec: ReplicationSpec
    view: ReplicationView
    endpoints: Mapping[Member, Endpoint]
    report: DatasetReport
    watchers: SentinelsView | None = None
    side: SentinelSide | None = None

    @property
    def plan(self) -> Plan[Action]:
        """What is to be done at the servers."""
        return plan(self.spec, self.view)

    @property
    def plan_of_sentinels(self) -> Plan[SentinelAction]:
        """What is to be done at the Sentinels."""
        if self.side is None or self.watchers is None:
            return Done()
        return plan_sentinels(self.side.spec, self.watchers)


def look_at(
    spec: ReplicationSpec,
    directory: Directory,
    dialer: Dialer,
    *,
    timeout_s: float,
    side: SentinelSide | None = None,
    by_lease: bool = False,
    recorded: int | None = None,
) -> DatasetLook:
    """Asks everybody once. `by_lease`: the agents fail over by a Lease. `recorded`: who was the primary last, as the
    status tells. Errors: those of the API.
    """
    api, namespace, instance = directory.api, directory.namespace, directory.instance
    endpoints = directory()
    view = observe(spec, endpoints, dialer, timeout_s=timeout_s)
    watchers: SentinelsView | None = None
    decided = replace(spec, last_primary=recorded)
    if side is not None:
        watchers = observe_sentinels(side.spec, side.directory(), endpoints, side.dialer, dialer, timeout_s=timeout_s)
        decided = by_word(spec, word_of(side.spec, watchers.outcomes), recorded)
    elif by_lease:
        lease = read_primacy(api, namespace, instance)
        decided = by_holder(spec, lease.holder.member if lease and lease.holder else None, recorded)
    found = together(
        report(decided, view),
        None if side is None or watchers is None else report_sentinels(side.spec, watchers),
        endpoints_condition(api, namespace, instance, wanted_endpoints(decided, view, endpoints)),
        formed=spec.formed,
    )
    return DatasetLook(decided, view, endpoints, found, watchers, side)


def by_word(spec: ReplicationSpec, word: Word, recorded: int | None) -> ReplicationSpec:
    """The specification where Sentinels decide. Pure."""
    primary = recorded if word.primary is None else word.primary.ordinal
    return replace(spec, decided_elsewhere=word.decides, last_primary=primary)


def by_holder(spec: ReplicationSpec, holder: Member | None, recorded: int | None) -> ReplicationSpec:
    """The specification where the holder of the Lease is the primary, once anybody has held it. Pure."""
    if holder is None:
        return replace(spec, last_primary=recorded)
    return replace(spec, decided_elsewhere=True, last_primary=holder.ordinal)


def wanted_endpoints(spec: ReplicationSpec, view: ReplicationView, endpoints: Mapping[Member, Endpoint]) -> Wanted:
    """Who is to be behind the Services, by this look. Pure."""
    k = Knowledge(spec, view)
    primary = decide_primary(k).primary
    if primary is None or primary.member not in endpoints:
        return Wanted()
    in_sync = [m for m, node in k.nodes.items() if node is not primary and m in endpoints and k.in_sync(node, primary)]
    return wanted(endpoints[primary.member], [endpoints[member] for member in in_sync])


def endpoints_condition(api: Api, namespace: str, instance: str, what: Wanted) -> Condition:
    """Whether the Services lead to whom they should. Errors: those of the API."""
    if what.rw is None:
        return Condition(ENDPOINTS, Status.UNKNOWN, "NoPrimary", "it isn't known who the primary is")
    wrong: list[str] = []
    for name, endpoints in ((primary_service_name(instance), what.rw), (replicas_service_name(instance), what.ro)):
        known = api.find(slice_path(namespace, name))
        if known is None:
            wrong.append(f"{name} has no EndpointSlice")
        elif filled(known, endpoints or ()) is not None:
            wrong.append(f"{name} doesn't lead to {', '.join(str(one.member) for one in endpoints or ())}")
    if wrong:
        return Condition(ENDPOINTS, Status.FALSE, "NotAsSeen", "; ".join(wrong))
    return Condition(ENDPOINTS, Status.TRUE, "AsSeen")
