"""Sentinels that several instances of a stack share: each reference leads to a set, and agrees with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from .args import InstanceSettings
from .dataset_args import FailoverSettings
from .names import sentinel_name_problem
from .problems import Problem
from .sentinel_args import SentinelReference

Any_ = TypeVar("Any_", bound=InstanceSettings)


def sentinel_problems(instances: Mapping[str, InstanceSettings]) -> Iterator[Problem]:
    """Whose Sentinels can't be called after it, and references to what has none. Names of other programs are theirs."""
    for name, instance in instances.items():
        if not isinstance(instance, FailoverSettings):
            continue
        reference = instance.sentinel.reference
        if reference is None:
            if problem := sentinel_name_problem(name):
                yield Problem((name,), name, problem)
            continue
        owner = instances.get(reference.name)
        at = (name, "sentinel", "reference")
        if owner is not None and (not isinstance(owner, FailoverSettings) or owner.sentinel.reference is not None):
            reason = "is an instance of this stack that has no Sentinels of its own"
            yield Problem((*at, "name"), reference.name, reason)
        elif isinstance(owner, FailoverSettings) and _differs(reference, owner.sentinel.replicas):
            reason = f"{reference.name} has {owner.sentinel.replicas}; leave it out, and it follows from there"
            yield Problem((*at, "replicas"), reference.replicas, reason)


def referred(instances: Mapping[str, Any_]) -> dict[str, Any_]:
    """The same, where each reference to an instance of the stack knows how many Sentinels that has."""
    return {name: _knowing(instance, instances) for name, instance in instances.items()}


def _knowing(instance: Any_, instances: Mapping[str, InstanceSettings]) -> Any_:
    if not isinstance(instance, FailoverSettings) or instance.sentinel.reference is None:
        return instance
    reference = instance.sentinel.reference
    owner = instances.get(reference.name)
    if not isinstance(owner, FailoverSettings):
        return instance
    known = reference.model_copy(update={"replicas": owner.sentinel.replicas})
    return instance.model_copy(update={"sentinel": instance.sentinel.model_copy(update={"reference": known})})


def _differs(reference: SentinelReference, replicas: int) -> bool:
    return "replicas" in reference.model_fields_set and reference.replicas != replicas
