"""The arguments of one dataset, a primary with its replicas: as `replica`, and as `failover` with Sentinels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, model_validator

from valkeyctl.dataplane.model import MAX_REPLICAS

from . import dataset_rules
from .args import InstanceSettings, Model, Placed, Text253, between
from .problems import fail, refuse
from .sentinel_args import Sentinel


def _ordinal(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        fail("a member is named by its ordinal, counted from 0")
    return value


def _to(value: object) -> int | str:
    if value == "any":
        return "any"
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        fail("must be the ordinal of a member, counted from 0, or any")
    return value


def _automatic(value: object) -> object:
    if isinstance(value, bool):
        return {"enabled": value}
    return (
        value if isinstance(value, Mapping | BaseModel) else fail("must be true, false, or {leaseDurationSeconds: N}")
    )


Ordinal = Annotated[int, PlainValidator(_ordinal)]


class AutomaticFailover(Model):
    """Whether the agents fail over by themselves, with a Lease of Kubernetes as arbiter."""

    enabled: bool = Field(default=True, description="Whether they do. A single member has nobody to fail over to.")
    lease_duration_s: Annotated[int, between(5, 60, "must be 5 to 60 seconds")] = Field(
        default=10,
        description="For how long a primary may write without having renewed its Lease, in seconds, 5 to 60. When it "
        "is lost, another one takes writes that much later, and about two seconds more.",
    )


class Handover(Model):
    """One planned handover of the primary's role."""

    to: Annotated[int | str, PlainValidator(_to)] = Field(
        default="any", description="The ordinal of the member that is to have the role, or `any` replica in sync."
    )
    token: Text253 = Field(
        description="Any text. `pulumi up` hands over once for each new one: the date of the day will do."
    )


class DatasetSettings(InstanceSettings):
    """One dataset, whoever fails it over."""

    primary: Ordinal | None = Field(
        default=None,
        description="The ordinal of the member that is to be the primary. `pulumi up` hands the role over to it, once "
        "it is in sync; between two runs it moves where a failover takes it.",
    )
    handover: Handover | None = Field(
        default=None, description="Hands the primary's role over once, for each new `token`. Either this or `primary`."
    )
    min_replicas_to_write: Annotated[int, between(0, MAX_REPLICAS, f"must be 0 to {MAX_REPLICAS}")] | None = Field(
        default=None,
        description="How many replicas have to be in touch for the primary to take writes. Without it none; with "
        "`automaticFailover` and 2 replicas or more, one.",
    )
    min_replicas_max_lag_s: Annotated[int, between(1, 3600, "must be 1 to 3600 seconds")] | None = Field(
        default=None,
        description="How long ago, in seconds, those replicas may have answered last. Without it 10; with "
        "`automaticFailover` half of the Lease's duration at most.",
    )


class ReplicaSettings(DatasetSettings):
    """One dataset whose agents fail over by themselves, as a stack config declares it."""

    replicas: Annotated[int, between(0, MAX_REPLICAS, f"there are 0 to {MAX_REPLICAS} replicas")] = Field(
        default=1, description=f"How many replicas beside the primary, 0 to {MAX_REPLICAS}."
    )
    automatic_failover: Annotated[AutomaticFailover, BeforeValidator(_automatic)] = Field(
        default=AutomaticFailover(),
        description="Whether the agents fail over by themselves, `true`, `false`, or how: with a Lease of Kubernetes "
        "as arbiter, whose holder is the primary and stops taking writes before it ends. Without it, the next "
        "`pulumi up` promotes the best replica.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(dataset_rules.problems(self))
        return self

    @property
    def lease_duration_s(self) -> int | None:
        """How long the primary's Lease is; None where nobody is to fail over.

        Also of a single member, which holds it and needs nobody's consent: so that the first replica changes nothing.
        """
        return self.automatic_failover.lease_duration_s if self.automatic_failover.enabled else None


class FailoverSettings(DatasetSettings):
    """One dataset that Sentinels fail over, as a stack config declares it."""

    replicas: Annotated[int, between(1, MAX_REPLICAS, f"there are 1 to {MAX_REPLICAS} replicas")] = Field(
        default=2, description=f"How many replicas beside the primary, 1 to {MAX_REPLICAS}."
    )
    sentinel: Sentinel = Field(default=Sentinel(), description="The Sentinels that watch it.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(dataset_rules.problems(self))
        return self

    @property
    def lease_duration_s(self) -> None:
        """Nothing: the Sentinels decide, and no Lease."""
        return None


class ReplicaArgs(ReplicaSettings, Placed):
    """A dataset and where it lives: the arguments of `ValkeyReplica`."""


class FailoverArgs(FailoverSettings, Placed):
    """A dataset with Sentinels and where it lives: the arguments of `ValkeyFailover`."""


Dataset = ReplicaSettings | FailoverSettings
"""The settings of one dataset, whoever fails it over."""

__all__ = [
    "AutomaticFailover",
    "Dataset",
    "DatasetSettings",
    "FailoverArgs",
    "FailoverSettings",
    "Handover",
    "ReplicaArgs",
    "ReplicaSettings",
]
