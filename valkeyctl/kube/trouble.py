"""What is wrong with an instance's Pods, told to a person: equal causes once, and what to do about each. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from valkeyctl.dataplane import Condition, Status
from valkeyctl.kube.labels import SERVER_CONTAINER
from valkeyctl.kube.pods import NO_WORKLOAD, NODE_LOST, SCALED_DOWN, PodFacts

_NAMES_SHOWN = 6
_CAUSES_SHOWN = 4
#: An image that can't be had shows these in turn, a moment each.
_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})
#: What makes equal messages differ: the names of Pods and StatefulSets, their ids, and how long something is put off.
_OWN = re.compile(r"-s\d+(-\d+)?\b|pod=\S+|\b\d+(m|s)(\d+s)?\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_STARTS_NOT = frozenset({"CrashLoopBackOff", "RunContainerError", "CreateContainerError", "Error", "OOMKilled"})


def trouble(facts: Sequence[PodFacts]) -> list[str]:
    """One line for each cause, with the Pods that share it: `sessions-s0-0, sessions-s1-0: ErrImagePull (…)`."""
    return [_line(same) for same in _by_cause(facts)]


def pod_conditions(facts: Sequence[PodFacts]) -> tuple[Condition, ...]:
    """PodsScheduled, PodsStarted and PodsOutdated; each names the Pods and what Kubernetes says of them."""
    unscheduled = [f for f in facts if not f.scheduled]
    unstarted = [f for f in facts if f.scheduled and (f.reason == NODE_LOST or f.terminating or not f.started)]
    outdated = [f.pod for f in facts if f.outdated]
    nowhere = "PodAbsent" if all(f.phase == "Absent" for f in unscheduled) else "PodUnschedulable"
    return (
        _condition("PodsScheduled", unscheduled, nowhere),
        _condition("PodsStarted", unstarted, "ContainersNotRunning"),
        Condition(
            "PodsOutdated",
            Status.TRUE if outdated else Status.FALSE,
            "RevisionBehind" if outdated else "AllCurrent",
            f"still run the former template: {', '.join(outdated)}" if outdated else "",
        ),
    )


def advice(facts: Sequence[PodFacts]) -> list[str]:
    """What a person can do about each cause, without repeating itself; nothing where waiting is all there is."""
    return list(dict.fromkeys(line for same in _by_cause(facts) for line in _advice(same)))


def _advice(same: Sequence[PodFacts]) -> Iterator[str]:
    fact = same[0]
    setting = "image" if fact.container in ("", SERVER_CONTAINER) else "agent.image"
    if fact.reason in _IMAGE_REASONS:
        named = f"`{setting}`: {fact.image}" if fact.image else f"`{setting}`"
        yield f"check {named} (its name, its tag, and that the nodes reach the registry)"
    elif fact.reason == NODE_LOST:
        for node in sorted({one.node for one in same}):
            yield f"bring node {node} back; where it is gone for good, `kubectl delete node {node}` frees its Pods"
    elif fact.reason in (SCALED_DOWN, NO_WORKLOAD):
        yield "run `pulumi up`: it puts back what is declared"
    elif fact.reason == "PodUnschedulable":
        yield "make room on the nodes, or declare smaller `resources`"
    elif fact.reason == "CreateContainerConfigError":
        yield "make what is named here (a Secret, a ConfigMap, a key of it)"
    elif fact.reason in _STARTS_NOT:
        container = f" -c {fact.container}" if fact.container else ""
        yield f"see why: `kubectl logs {fact.pod}{container} --previous`"


def _by_cause(facts: Sequence[PodFacts]) -> list[list[PodFacts]]:
    causes: dict[tuple[str, ...], list[PodFacts]] = {}
    for fact in facts:
        if fact.reason:
            causes.setdefault(_cause(fact), []).append(fact)
    return list(causes.values())


def _cause(fact: PodFacts) -> tuple[str, ...]:
    if fact.reason in _IMAGE_REASONS and fact.image:
        return ("image", fact.container, fact.image)
    return (fact.reason, fact.container, _OWN.sub("", fact.message))


def _line(same: Sequence[PodFacts]) -> str:
    # Of an image that can't be had the registry's own words say most, and that it is put off least.
    said = next((one for one in same if one.reason != "ImagePullBackOff"), same[0])
    return f"{_names(same)}: {said.reason}{f' ({said.message})' if said.message else ''}"


def _names(facts: Sequence[PodFacts]) -> str:
    names = [fact.pod for fact in facts]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _condition(kind: str, failing: Sequence[PodFacts], fallback: str) -> Condition:
    if not failing:
        return Condition(kind, Status.TRUE, "AllPods")
    silent = [fact for fact in failing if not fact.reason]
    lines = [*trouble(failing), *([_names(silent)] if silent else [])]
    first = next((fact.reason for fact in failing if fact.reason), fallback)
    more = f"; and {len(lines) - _CAUSES_SHOWN} more causes" if len(lines) > _CAUSES_SHOWN else ""
    return Condition(kind, Status.FALSE, first, "; ".join(lines[:_CAUSES_SHOWN]) + more)
