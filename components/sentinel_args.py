"""The arguments of a set of Sentinels, and of what it is to do for one dataset."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from valkeyctl.dataplane.sentinel.model import Parameters, majority
from valkeyctl.kube.labels import sentinel_set_name

from . import sentinel_rules
from .args import (
    Amounts,
    Image,
    Model,
    Persistence,
    Placed,
    Resources,
    Version,
    between,
)
from .names import sentinel_name_problem
from .problems import fail, refuse
from .versions import DEFAULT_LINE, image_of

_DEFAULTS = Parameters()
#: More than these don't make a failover safer, and each has to agree with each.
MAX_SENTINELS = 9


def _set_name(value: str) -> str:
    return fail(problem) if (problem := sentinel_name_problem(value)) else value


class SentinelResources(Resources):
    """What a Sentinel's container asks for and may use."""

    runs: ClassVar[str] = "a Sentinel"
    least_memory: ClassVar[str] = "16Mi"

    limits: Amounts = Field(default=Amounts(), description="What the container may use at most.")


class SentinelSettings(Model):
    """A set of Sentinels: its Pods."""

    replicas: Annotated[int, AfterValidator(sentinel_rules.count)] = Field(
        default=3,
        description=f"How many Sentinels, an odd number from 3 to {MAX_SENTINELS}: a majority of them decides on a "
        "failover.",
    )
    image: Image | None = Field(
        default=None, description="Image of the Sentinels, with tag or digest. Without it, that of the servers."
    )
    resources: SentinelResources = Field(
        default=SentinelResources(requests=Amounts(cpu="20m", memory="32Mi"), limits=Amounts(memory="64Mi")),
        description="CPU and memory of each Sentinel. As soon as it is written, only what is written holds.",
    )
    persistence: Persistence | None = Field(
        default=None,
        description="A volume for each Sentinel, for what it has voted for. Without a word, a small one where the "
        "instance has `persistence`. With `null`, a Sentinel whose Pod is replaced comes back under its own id, and "
        "learns the rest from the others. Fixed at creation.",
    )


class SentinelReference(Model):
    """A set of Sentinels that is there already, in the same namespace."""

    name: Annotated[str, AfterValidator(_set_name)] = Field(
        description="The name that the set belongs to: of the instance that makes it, or of a `ValkeySentinel`."
    )
    replicas: Annotated[int, AfterValidator(sentinel_rules.count)] = Field(
        default=3, description="How many Sentinels it has."
    )


class Sentinel(SentinelSettings):
    """Who watches the primary, and elects another one: Sentinels of the instance's own, or of a set that is there."""

    quorum: Annotated[int, between(1, MAX_SENTINELS, f"must be 1 to {MAX_SENTINELS}")] | None = Field(
        default=None,
        description="How many Sentinels have to call the primary down. Without it, a majority. A majority of all has "
        "to vote for a failover in any case.",
    )
    allow_small_quorum: bool = Field(
        default=False, description="Allows a quorum of less than a majority: what few can't reach is then failed over."
    )
    down_after_ms: Annotated[int, between(500, 600_000, "must be 500 to 600000 milliseconds")] = Field(
        default=_DEFAULTS.down_after_ms,
        description="For how long a server doesn't answer until a Sentinel calls it down, in milliseconds.",
    )
    failover_timeout_ms: Annotated[int, between(1000, 3_600_000, "must be 1000 to 3600000 milliseconds")] = Field(
        default=_DEFAULTS.failover_timeout_ms,
        description="How long each part of a failover may take, and half of how long the next attempt waits.",
    )
    parallel_syncs: Annotated[int, between(1, 5, "must be 1 to 5")] = Field(
        default=_DEFAULTS.parallel_syncs, description="How many replicas turn to a new primary at a time."
    )
    reference: SentinelReference | None = Field(
        default=None,
        description="A set that is there already, instead of one of the instance's own. What concerns its Pods is said "
        "where it is declared.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(sentinel_rules.problems(self))
        return self

    @property
    def members(self) -> int:
        """How many Sentinels there are, whoever makes them."""
        return self.reference.replicas if self.reference else self.replicas

    @property
    def votes(self) -> int:
        """How many of them have to call the primary down."""
        return self.quorum if self.quorum is not None else majority(self.members)

    def set_of(self, instance: str) -> str:
        """The name of the StatefulSet of the Sentinels that watch an instance."""
        return sentinel_set_name(self.owner_of(instance))

    def owner_of(self, instance: str) -> str:
        """The name that the set belongs to."""
        return self.reference.name if self.reference else instance


class SentinelArgs(SentinelSettings, Placed):
    """A set of Sentinels for several instances, and where it lives: the arguments of `ValkeySentinel`."""

    version: Version | None = Field(
        default=None,
        description=f'Version line or release, instead of an `image`. Without both: `"{DEFAULT_LINE}"`.',
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(sentinel_rules.image_problems(self))
        return self

    @property
    def server_image(self) -> str:
        """The image that is run."""
        return self.image or image_of(self.version or DEFAULT_LINE)
