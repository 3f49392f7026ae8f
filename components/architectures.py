"""The architectures: what each takes in a stack config, and what of the shared defaults is meant for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, PlainValidator, ValidationError

from valkeyctl.kube.labels import CLUSTER, FAILOVER, REPLICA

from .args import ClusterArgs, ClusterSettings, Model
from .dataset_args import FailoverArgs, FailoverSettings, ReplicaArgs, ReplicaSettings
from .overlay import laid_over
from .owned import owned_reason
from .problems import Problem, fail, gathered, nearest, refuse

_WHICH = (
    "`cluster`: shards, of which each has a primary; `failover`: one primary, which Sentinels fail over; `replica`: "
    "one primary, which the agents fail over, or a single server. From `failover` to `replica` and back an instance "
    "moves in place; from and to `cluster` it doesn't."
)


class _Instance(Model):
    protect: bool = Field(
        default=False,
        description="Pulumi refuses to delete or replace anything of the instance, until an `up` with `false` here.",
    )


class ClusterInstance(ClusterSettings, _Instance):
    """An instance that is a cluster."""

    architecture: Literal["cluster"] = Field(default="cluster", description=_WHICH)


class FailoverInstance(FailoverSettings, _Instance):
    """An instance that is one dataset with Sentinels."""

    architecture: Literal["failover"] = Field(description=_WHICH)


class ReplicaInstance(ReplicaSettings, _Instance):
    """An instance that is one dataset without."""

    architecture: Literal["replica"] = Field(description=_WHICH)


AnyInstance = ClusterInstance | FailoverInstance | ReplicaInstance
InstanceArgs = ClusterArgs | FailoverArgs | ReplicaArgs

#: Architecture → what its instances take.
INSTANCES: Mapping[str, type[AnyInstance]] = {
    CLUSTER: ClusterInstance,
    FAILOVER: FailoverInstance,
    REPLICA: ReplicaInstance,
}
#: What belongs to one instance, and so can't be a default.
OF_ONE_INSTANCE: Mapping[str, str] = {
    "slots": "a layout belongs to one instance; write it there",
    "primaries": "members belong to one instance; write it there",
    "primary": "members belong to one instance; write it there",
    "handover": "a handover belongs to one instance; write it there",
}


def keys_of(architecture: str) -> tuple[str, ...]:
    """The keys that instances of an architecture take."""
    return tuple(str(field.alias) for field in INSTANCES[architecture].model_fields.values())


def architecture_of(own: object, defaults: object = None) -> str:
    """What an instance says that it is, as far as that is one; else what the defaults say; else a cluster."""
    for said in (own, defaults):
        value = cast("Mapping[str, Any]", said).get("architecture") if isinstance(said, Mapping) else None
        if value is not None:
            return value if isinstance(value, str) and value in INSTANCES else CLUSTER
    return CLUSTER


def with_defaults(defaults: Mapping[str, Any], instances: Mapping[str, Any]) -> dict[str, Any]:
    """Each instance with the defaults under what it says itself. What isn't even a mapping is left for its validator.

    A default that an architecture doesn't take is passed over for its instances, as long as there is an instance that
    does take it: one that nobody takes is a mistake.
    """
    in_use = {architecture_of(own, defaults) for own in instances.values()}
    return {
        name: laid_over(_meant_for(architecture_of(own, defaults), defaults, in_use), cast("Mapping[str, Any]", own))
        if isinstance(own, Mapping)
        else own
        for name, own in instances.items()
    }


def _meant_for(architecture: str, defaults: Mapping[str, Any], in_use: Collection[str]) -> dict[str, Any]:
    taken = keys_of(architecture)
    others = {key for other in in_use for key in keys_of(other)}
    meant = {key: value for key, value in defaults.items() if key in taken or key not in others}
    config = meant.get("config")
    if isinstance(config, Mapping) and not INSTANCES[architecture].cluster_mode and CLUSTER in in_use:
        told = cast("Mapping[Any, Any]", config)
        meant["config"] = {name: value for name, value in told.items() if not _clusters_alone(str(name))}
    return meant


def _clusters_alone(setting: str) -> bool:
    return bool(owned_reason(setting, cluster=False)) and not owned_reason(setting)


def _architecture_problem(value: object) -> str:
    if isinstance(value, str) and value in INSTANCES:
        return ""
    hint = nearest(value, INSTANCES) if isinstance(value, str) else ""
    return f"must be {', '.join(INSTANCES)}{hint}"


def _foreign_keys(architecture: str, value: Mapping[str, Any]) -> dict[str, str]:
    """Keys that the architecture doesn't take → why."""
    taken = keys_of(architecture)
    reasons: dict[str, str] = {}
    for key in value:
        takers = [other for other in INSTANCES if key in keys_of(other)]
        if key in taken:
            continue
        if takers:
            whose = " and ".join(f"architecture: {other}" for other in takers)
            reasons[key] = f"is a key of {whose}, and this is architecture: {architecture}"
        else:
            reasons[key] = f"unknown key{nearest(key, taken)}"
    return reasons


def _instance(value: object) -> AnyInstance:
    """An instance of the architecture that it says. Everything that is wrong with it is told at once."""
    if isinstance(value, ClusterInstance | FailoverInstance | ReplicaInstance):
        return value
    if not isinstance(value, Mapping):
        fail("must be a mapping")
    told = {str(key): one for key, one in cast("Mapping[Any, Any]", value).items()}
    stated = told.get("architecture", CLUSTER)
    problems: list[Problem] = []
    if reason := _architecture_problem(stated):
        # Which keys it may have follows from it: with a wrong one there is no telling what else is wrong.
        refuse([Problem(("architecture",), stated, reason)])
    architecture = str(stated)
    for key, reason in _foreign_keys(architecture, told).items():
        problems.append(Problem((key,), told[key], reason))
    known = {key: one for key, one in told.items() if key in keys_of(architecture)}
    try:
        made = INSTANCES[architecture].model_validate(known, by_alias=True, by_name=False)
    except ValidationError as error:
        gathered(error, problems)
    refuse(problems)
    return made


#: One instance of Valkey, as a stack config declares it.
Instance = Annotated[AnyInstance, PlainValidator(_instance)]


def placed(instance: AnyInstance, **where: Any) -> InstanceArgs:
    """The arguments of the component that an instance is made by: what is declared, and where."""
    settings, args = _MADE_BY[instance.architecture]
    return args(**{field: getattr(instance, field) for field in settings.model_fields}, **where)


_MADE_BY: Mapping[str, tuple[type[Model], type[InstanceArgs]]] = {
    CLUSTER: (ClusterSettings, ClusterArgs),
    FAILOVER: (FailoverSettings, FailoverArgs),
    REPLICA: (ReplicaSettings, ReplicaArgs),
}
