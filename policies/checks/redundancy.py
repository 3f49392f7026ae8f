"""Copies and votes: replicas, Sentinels, where they run, how many may go at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..model import UNKNOWN, Finding, Params, Resource, Surroundings
from ..pods import (
    configuration_lines,
    is_sentinel,
    namespace_of,
    once,
    pod_labels,
    pod_spec,
    same_namespace,
    server_of,
    servers,
    takes,
)
from ..reading import at, is_vague, items, selects, text, whole

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def replicas(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Data of which there are too few copies. A StatefulSet is a shard, or the whole of a dataset.

    One without any Pod is paused, and serves nothing: how many copies there are is judged when they come back.
    """
    if resource.kind not in ("StatefulSet", "Deployment") or server_of(resource) is None or is_sentinel(resource):
        return
    count, least = members(resource), params["minReplicas"]
    if count and count - 1 < least:
        copies = "no replica" if count == 1 else f"{count - 1} replica{'s' if count > 2 else ''}"
        yield Finding(resource, f"has {copies} beside the primary, and at least {least} are asked for")


def sentinels(resources: Sequence[Resource], _params: Params, _: Surroundings) -> Iterator[Finding]:
    """Sentinels that can't decide, or that can decide without a majority."""
    for workload in resources:
        if server_of(workload) is None or not is_sentinel(workload):
            continue
        count = members(workload)
        if count is None:
            continue
        if count < 3 or count % 2 == 0:
            yield Finding(workload, f"there are {count} Sentinels; an odd number, at least 3, can outvote a lost one")
        lines = configuration_lines(workload, resources) or []
        for quorum in (one for name, words in lines if name == "sentinel" for one in _quorums(words)):
            if not count // 2 < quorum <= count:
                most = f"a majority of {count} is {count // 2 + 1}"
                yield Finding(workload, f"the quorum is {quorum}, and {most}")


def anti_affinity(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Copies that may all run on one node."""
    if _has_copies(resource) and not _kept_apart(resource, HOST, strict=params["strength"] == "required"):
        yield Finding(resource, f"nothing{_strictly(params)} keeps its Pods on nodes of their own ({HOST})")


def zone_spread(resource: Resource, params: Params, _: Surroundings) -> Iterator[Finding]:
    """Copies that may all run in one zone."""
    if _has_copies(resource) and not _kept_apart(resource, ZONE, strict=params["strength"] == "required"):
        yield Finding(resource, f"nothing{_strictly(params)} spreads its Pods over zones ({ZONE})")


def disruption_budget(resources: Sequence[Resource], params: Params, _: Surroundings) -> Iterator[Finding]:
    """Workloads that a drain may take down whole."""
    yield from once(_budgets(resources, params["maxUnavailable"]))


def _budgets(resources: Sequence[Resource], most: int) -> Iterator[Finding]:
    budgets = [one for one in resources if one.kind == "PodDisruptionBudget" and one.is_kubernetes]
    workloads = [one for one in resources if server_of(one) is not None and _has_copies(one)]
    taken: dict[str, list[Resource]] = {}
    for workload in workloads:
        known = [(one, _takes(one, workload)) for one in budgets if same_namespace(one, workload)]
        if not any(taking is not False for _one, taking in known):
            yield Finding(workload, "no PodDisruptionBudget takes its Pods")
        for budget in (one for one, taking in known if taking):
            taken.setdefault(budget.urn, []).append(workload)
    for budget in budgets:
        pods = [members(workload) or 0 for workload in taken.get(budget.urn, [])]
        count = _may_go(at(budget.props, "spec"), sum(pods)) if pods else None
        if count is not None and count > most:
            yield Finding(budget, f"lets {count} of {sum(pods)} Pods go at once, and at most {most} may")


def _takes(budget: Resource, workload: Resource) -> bool | None:
    """Whether a budget takes the workload's Pods. Without a selector it takes none, and an empty one takes all."""
    spec = at(budget.props, "spec")
    if spec is None or spec is UNKNOWN:
        return None
    selector = at(spec, "selector")
    return False if selector is None else takes(selector, workload)


def _may_go(spec: Any, pods: int) -> int | None:
    """How many of the Pods a budget lets go at once; None where that isn't known. One that says nothing lets all go."""
    most, least = at(spec, "maxUnavailable"), at(spec, "minAvailable")
    if most is not None:
        return _share(most, pods)
    stay = 0 if least is None else _share(least, pods)
    return None if stay is None else max(0, pods - stay)


def _share(stated: Any, pods: int) -> int | None:
    """A number of Pods, or a percentage of them, which Kubernetes rounds up."""
    per_cent = text(stated).removesuffix("%")
    if text(stated).endswith("%") and per_cent.isdecimal():
        return -(-pods * int(per_cent) // 100)
    return whole(stated)


def members(resource: Resource) -> int | None:
    """How many Pods it has; None where that isn't known."""
    stated = at(resource.props, "spec", "replicas")
    if at(resource.props, "spec") is None or stated is UNKNOWN:
        return None
    return 1 if stated is None else whole(stated)


def _has_copies(resource: Resource) -> bool:
    count = members(resource) if resource.kind in ("StatefulSet", "Deployment") and resource.is_kubernetes else None
    return server_of(resource) is not None and count is not None and count > 1


def _kept_apart(resource: Resource, key: str, *, strict: bool) -> bool:
    """Whether something keeps the Pods apart by `key`, or may do so."""
    spec = pod_spec(resource)
    affinity, spread = at(spec, "affinity", "podAntiAffinity"), at(spec, "topologySpreadConstraints")
    if is_vague(affinity) or is_vague(spread):
        return True
    required = items(at(affinity, "requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = [
        at(term, "podAffinityTerm") for term in items(at(affinity, "preferredDuringSchedulingIgnoredDuringExecution"))
    ]
    firm = [one for one in items(spread) if at(one, "whenUnsatisfiable") != "ScheduleAnyway"]
    terms: list[Any] = [*required, *firm] if strict else [*required, *preferred, *items(spread)]
    return any(at(term, "topologyKey") == key and _is_of_own(term, resource) for term in terms)


def _is_of_own(term: Any, resource: Resource) -> bool:
    """Whether a term or constraint is, or may be, about the workload's own Pods. One without a selector is about none.

    A constraint binds only where its skew is less than all of the Pods.
    """
    selector, namespaces, skew = at(term, "labelSelector"), at(term, "namespaces"), whole(at(term, "maxSkew"))
    own = namespace_of(resource)
    elsewhere = bool(namespaces) and not is_vague(namespaces) and own is not UNKNOWN and own not in items(namespaces)
    if selector is None or (elsewhere and at(term, "namespaceSelector") is None):
        return False
    return selects(selector, pod_labels(resource)) is not False and (skew or 1) < (members(resource) or 2)


def _strictly(params: Params) -> str:
    return " strictly" if params["strength"] == "required" else ""


def _quorums(words: Sequence[str]) -> Iterator[int]:
    """The quorum of `sentinel monitor <name> <host> <port> <quorum>`."""
    if len(words) >= 5 and words[0].lower() == "monitor" and words[4].isdigit():
        yield int(words[4])


__all__ = ["anti_affinity", "disruption_budget", "members", "replicas", "sentinels", "servers", "zone_spread"]
