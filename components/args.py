"""The arguments of an instance: what they are, which values they take, and what holds when nothing is said.

One set of models for the stack config (camelCase keys) and for programs (`ClusterArgs(shards=3)`). Frozen; unknown
keys, wrong types and impossible values are refused. What concerns one value is checked here, what concerns several in
`rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import pulumi
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator
from pydantic.alias_generators import to_camel

from valkeyctl.dataplane import SlotSet
from valkeyctl.dataplane.errors import InvalidSlots
from valkeyctl.dataplane.model import MAX_REPLICAS, MAX_SHARDS
from valkeyctl.dataplane.model import Migration as MoveDefaults
from valkeyctl.lifecycle import Connection

from . import rules
from .memory import LEAST_AGENT_LIMIT, LEAST_LIMIT
from .names import namespace_problem, object_name_problem
from .problems import Problem, fail, refuse
from .quantity import quantity, size_bytes
from .server_config import ConfigValue, plain
from .versions import DEFAULT_LINE, image_of, image_problem, reference_problem, version_problem

_MOVES = MoveDefaults()

#: A stock Python; the agent brings all else along. The minor version alone, so that repairs of Python arrive.
AGENT_IMAGE = "python:3.13-slim"


def yaml_key(name: str) -> str:
    """The key of a field in a stack config: `storage_class_name` is storageClassName, `timeout_s` timeoutSeconds."""
    return to_camel(f"{name}econds" if name.endswith("_s") else name)


class Model(BaseModel):
    """What all arguments have in common. Programs use the fields' names, stack configs the keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=yaml_key,
        validate_by_name=True,
        validate_by_alias=True,
    )


def _cpu(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        fail("must be an amount of CPU, like 100m or 0.5")
    try:
        amount = quantity(str(value))
    except ValueError as error:
        fail(str(error))
    if not amount:
        fail("must be more than 0")
    return str(value)


#: Nothing here is smaller, be it memory or a volume: the unit has been forgotten.
LEAST_BYTES = 2**20


def _bytes(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        fail("must be an amount of bytes, like 128Mi or 1Gi")
    try:
        size = size_bytes(str(value))
    except ValueError as error:
        fail(str(error))
    if size < LEAST_BYTES:
        unit = "byte" if size == 1 else "bytes"
        hint = (
            f"did you mean {value}Gi?" if str(value).isdigit() and size < 10_000 else "the least that is taken is 1Mi"
        )
        fail(f"{size} {unit}; {hint}")
    return str(value)


def _object_name(value: str) -> str:
    if problem := object_name_problem(value):
        fail(problem)
    return value


def _secret_key(value: str) -> str:
    if len(value) > 253 or not re.fullmatch(r"[-._a-zA-Z0-9]+", value):
        fail("a key of a Secret has letters, digits, hyphens, dots and underscores, at most 253")
    return value


def _version(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        fail(f'must be text; write "{value}", in quotes')
    if not isinstance(value, str):
        fail("must be text")
    if problem := version_problem(value):
        fail(problem)
    return value


def _image(value: str) -> str:
    if problem := image_problem(value):
        fail(problem)
    return value


def _agent_image(value: str) -> str:
    if problem := reference_problem(value, AGENT_IMAGE):
        fail(problem)
    return value


def _between(lowest: int, highest: int, reason: str) -> AfterValidator:
    def check(value: int) -> int:
        return value if lowest <= value <= highest else fail(reason)

    return AfterValidator(check)


def _slots(value: object) -> dict[int, str]:
    if not isinstance(value, Mapping):
        fail('must be a mapping from shard to slots, like {"0": "0-5460", "1": "5461-10922", "2": "10923-16383"}')
    slots: dict[int, str] = {}
    problems: list[Problem] = []
    for key, ranges in value.items():
        text = str(ranges) if isinstance(ranges, int) and not isinstance(ranges, bool) else ranges
        if not re.fullmatch(r"0|[1-9]\d{0,2}", str(key)):
            problems.append(Problem((str(key),), ranges, "a shard is named by its number, counted from 0"))
        elif not isinstance(text, str):
            problems.append(Problem((str(key),), ranges, 'must be text with slots, like "0-5460,7000"'))
        else:
            slots[int(key)] = text
            try:
                SlotSet.parse(text)
            except InvalidSlots as error:
                reason = ". ".join(part for part in (error.what, error.remedy) if part)
                problems.append(Problem((str(key),), ranges, reason))
    refuse(problems)
    return slots


def _primaries(value: object) -> dict[int, int]:
    if not isinstance(value, Mapping):
        fail('must be a mapping from shard to the ordinal of its primary, like {"0": 1}')
    ordinals: dict[int, int] = {}
    problems: list[Problem] = []
    for key, ordinal in value.items():
        if not re.fullmatch(r"0|[1-9]\d{0,2}", str(key)):
            problems.append(Problem((str(key),), ordinal, "a shard is named by its number, counted from 0"))
        elif not isinstance(ordinal, int) or isinstance(ordinal, bool) or ordinal < 0:
            problems.append(Problem((str(key),), ordinal, "a member is named by its ordinal, counted from 0"))
        else:
            ordinals[int(key)] = ordinal
    refuse(problems)
    return ordinals


def _restart(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.strip() or len(text) > 253:
        fail("must be a text of at most 253 characters, like a date or a ticket")
    return text


def _takeover(value: object) -> object:
    if value == "never":
        return None
    return fail("must be never, or {afterSeconds: N}") if not isinstance(value, Mapping | BaseModel | None) else value


def _config(value: object) -> dict[str, str]:
    texts, problems = plain(value)
    refuse(problems)
    return texts


Cpu = Annotated[str, PlainValidator(_cpu)]
Bytes = Annotated[str, PlainValidator(_bytes)]
ObjectName = Annotated[str, AfterValidator(_object_name)]


class Amounts(Model):
    """Amounts of CPU and memory."""

    cpu: Cpu | None = Field(default=None, description="CPUs: `100m`, `0.5`, `2`.")
    memory: Bytes | None = Field(default=None, description="Bytes: `128Mi`, `1Gi`.")


class Resources(Model):
    """What a server's container asks for and may use."""

    runs: ClassVar[str] = "a server"
    least_memory: ClassVar[str] = LEAST_LIMIT

    requests: Amounts = Field(default=Amounts(), description="What the scheduler reserves on a node.")
    limits: Amounts = Field(
        default=Amounts(), description="What the container may use at most. `maxmemory` follows from the memory limit."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(rules.resources_problems(self))
        return self


class AgentResources(Resources):
    """What an agent's container asks for and may use."""

    runs: ClassVar[str] = "an agent"
    least_memory: ClassVar[str] = LEAST_AGENT_LIMIT

    limits: Amounts = Field(default=Amounts(), description="What the container may use at most.")


class Agent(Model):
    """What runs beside the server in each Pod, and keeps the instance as declared between two runs of Pulumi."""

    image: Annotated[str, AfterValidator(_agent_image)] = Field(
        default=AGENT_IMAGE,
        description="Image with Python 3.11 or newer as `python` on its PATH, with tag or digest. All of the agent's "
        "code comes in a ConfigMap.",
    )
    resources: AgentResources = Field(
        default=AgentResources(requests=Amounts(cpu="10m", memory="32Mi"), limits=Amounts(memory="96Mi")),
        description="CPU and memory of each agent. As soon as it is written, only what is written holds.",
    )
    heal: bool = Field(
        default=True,
        description="Whether the agents heal the instance between two runs of Pulumi. Without it, for a time of "
        "maintenance, only `pulumi up` does. They keep guarding starts, standing in for a primary that died, and "
        "applying settings.",
    )
    log: Literal["text", "json"] = Field(
        default="text", description="How the agents log: a line of text for each event, or a line of JSON."
    )


class Persistence(Model):
    """A volume for each Pod, and an append-only file on it."""

    size: Bytes = Field(description="Size of each Pod's volume. It can grow, in place; never shrink.")
    storage_class_name: ObjectName | None = Field(
        default=None,
        description="StorageClass of the volumes; without it, the cluster's default class. Fixed at creation.",
    )
    reclaim_policy: Literal["Retain", "Delete"] = Field(
        default="Retain", description="Whether `pulumi destroy` keeps the volume claims (and with them the namespace)."
    )


class SecretKey(Model):
    """A key in a Kubernetes Secret."""

    name: ObjectName = Field(description="Name of the Secret, in the instance's namespace.")
    key: Annotated[str, AfterValidator(_secret_key)] = Field(default="password", description="The key in it.")


class Auth(Model):
    """How clients prove who they are. There is always a password."""

    password_secret: SecretKey | None = Field(
        default=None,
        description="A Secret of yours that holds the password. Without it, a password is generated into the Secret "
        "`<instance>-auth`.",
    )


class Takeover(Model):
    """When the best copies take over although no majority is there to elect them."""

    after_s: Annotated[int, _between(10, 86400, "must be 10 to 86400 seconds")] = Field(
        description="How long the others must have been silent, in seconds, 10 to 86400. Pods that came back empty are "
        "gone for good, and not waited for.",
    )


class Rollout(Model):
    """How Pods are replaced whose template has changed."""

    max_parallel_shards: Annotated[int, _between(1, MAX_SHARDS, f"must be 1 to {MAX_SHARDS}")] = Field(
        default=1,
        description="In how many shards at a time Pods are replaced. In each shard it is one after the other: "
        "replicas, each in sync before the next; then the primary, which hands its role over first.",
    )


class Migration(Model):
    """How slots are moved from shard to shard when `shards` or `slots` change."""

    max_parallel: Annotated[int, _between(1, MAX_SHARDS, f"must be 1 to {MAX_SHARDS}")] = Field(
        default=_MOVES.max_parallel, description="How many shards give slots away at a time."
    )
    method: Literal["auto", "atomic", "keys"] = Field(
        default=_MOVES.method,
        description="`atomic`: the servers move slots by themselves, which takes Valkey 9.0; `keys`: keys are sent in "
        "batches, and clients follow redirections meanwhile. `auto`: atomic where the servers can.",
    )
    pipeline: Annotated[int, _between(1, 10000, "must be 1 to 10000")] = Field(
        default=_MOVES.pipeline,
        description="With `keys`: how many keys a batch has at most, 1 to 10000. It has fewer where keys are large.",
    )


class ClusterSettings(Model):
    """A Valkey cluster, as a stack config declares it."""

    image: Annotated[str, AfterValidator(_image)] | None = Field(
        default=None, description="Image of the server, with tag or digest. Either this or `version`."
    )
    version: Annotated[str, PlainValidator(_version)] | None = Field(
        default=None,
        description=f'Version line (`"9.1"`) or release (`"9.1.2"`) of the server, in quotes. Without `image` and '
        f'`version`: `"{DEFAULT_LINE}"`, which is `{image_of(DEFAULT_LINE)}`.',
    )
    shards: Annotated[int, _between(1, MAX_SHARDS, f"a cluster has 3 to {MAX_SHARDS} shards")] = Field(
        default=3, description=f"How many shards, 3 to {MAX_SHARDS}. A majority of the primaries decides on a failover."
    )
    allow_few_shards: bool = Field(
        default=False, description="Allows 1 or 2 shards, for development: such a cluster can't fail over by itself."
    )
    replicas: Annotated[int, _between(0, MAX_REPLICAS, f"a shard has 0 to {MAX_REPLICAS} replicas")] = Field(
        default=1, description=f"How many replicas beside each primary, 0 to {MAX_REPLICAS}."
    )
    slots: Annotated[Mapping[int, str], PlainValidator(_slots)] | None = Field(
        default=None,
        description='An explicit layout, shard → slots, as in `{"0": 0-5460, "1": 5461-10922, "2": 10923-16383}`. '
        "Every slot from 0 to 16383 once. Without it, shards have equal parts and the fewest slots move.",
    )
    config: Annotated[Mapping[str, ConfigValue], PlainValidator(_config)] = Field(
        default={},
        description="Settings of the server, name → value: text, number, true or false (`yes` and `no` in the server's "
        "words), or a list of texts for settings with several entries. See *Settings of the server*.",
    )
    persistence: Persistence | None = Field(
        default=None,
        description="Keeps the dataset on volumes. Without it, it lives in memory only, in several copies.",
    )
    resources: Resources = Field(
        default=Resources(requests=Amounts(cpu="100m", memory="256Mi"), limits=Amounts(memory="256Mi")),
        description="CPU and memory of each server. As soon as it is written, only what is written holds.",
    )
    migration: Migration = Field(
        default=Migration(), description="How slots are moved when `shards` or `slots` change."
    )
    auth: Auth = Field(default=Auth(), description="Authentication.")
    agent: Agent = Field(default=Agent(), description="The agent beside each server.")
    timeout_s: Annotated[int, _between(10, 86400, "must be 10 to 86400 seconds")] = Field(
        default=600, description="How long one `pulumi up` works on the instance at most, in seconds."
    )
    rollout: Rollout = Field(default=Rollout(), description="How Pods are replaced whose template has changed.")
    restart: Annotated[str, PlainValidator(_restart)] | None = Field(
        default=None,
        description="Any text. Another one than before replaces all Pods, as a changed template does, without losing "
        "data: the date of the day will do.",
    )
    paused: bool = Field(
        default=False,
        description="Stops all Pods and keeps everything else, the volumes above all: the members come back as they "
        "were, with their data, when it is taken out. Needs `persistence`. Meanwhile shards, replicas, slots and the "
        "line of the version stay as they are; other changes take effect when the Pods come back.",
    )
    primaries: Annotated[Mapping[int, int], PlainValidator(_primaries)] = Field(
        default={},
        description="Which members are to have their shards' primary roles, shard → ordinal, as in "
        '`{"0": 1}` for the Pod '
        "`<instance>-s0-1`. `pulumi up` hands roles over that are elsewhere, once the member is in sync; between "
        "two runs they move where a failover takes them.",
    )
    prefer_ordinal_zero: bool = Field(
        default=False,
        description="The same for the ordinal 0 of all shards that `primaries` doesn't name: `pulumi up` takes roles "
        "back after an incident. With `spreadPrimaries`, only where the spread is as good.",
    )
    spread_primaries: bool = Field(
        default=False,
        description="Whether primaries are spread over zones, and within that over nodes, so that the loss of one "
        "takes as few of their votes as can be. `pulumi up` moves the fewest roles for it, at its very end, and so "
        "also after an incident. Roles that `primaries` names are placed first.",
    )
    takeover: Annotated[Takeover | None, BeforeValidator(_takeover)] = Field(
        default=None,
        description="What becomes of shards whose primaries are gone while no majority of the primaries is left to "
        "elect others. Without it, or with `never`, a person decides. `{afterSeconds: N}`: after that time the best "
        "copies take over without an election. What only the others had is lost then, and if they live on behind a "
        "cut network, so is what they take meanwhile.",
    )
    allow_data_loss: bool = Field(
        default=False,
        description="Consents to going on with empty servers where every copy of a shard's data is gone. Set it for "
        "the one `pulumi up` that needs it, and take it out again.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(rules.problems(self))
        return self

    @property
    def server_image(self) -> str:
        """The image that is run."""
        return self.image or image_of(self.version or DEFAULT_LINE)

    @property
    def primary_ordinals(self) -> dict[int, int]:
        """Which members are to have their shards' primary roles wherever they are, shard → ordinal."""
        everywhere = self.prefer_ordinal_zero and not self.spread_primaries
        preferred = dict.fromkeys(range(self.shards), 0) if everywhere else {}
        return dict(sorted({**preferred, **self.primaries}.items()))


if TYPE_CHECKING:
    Text = pulumi.Input[str]
    Way = Connection
else:
    # pydantic can't resolve the names inside Pulumi's alias for inputs, and what is known only later can't be checked.
    Text = Way = Any


def _namespace(value: Any) -> Any:
    if isinstance(value, str) and (problem := namespace_problem(value)):
        fail(problem)
    return value


def _connection(value: object) -> Connection | None:
    return value if value is None or isinstance(value, Connection) else fail("must be a Connection")


class ClusterArgs(ClusterSettings):
    """A Valkey cluster and where it lives: the arguments of `ValkeyCluster`."""

    namespace: Annotated[Text, PlainValidator(_namespace)] = Field(
        default="valkey", description="The namespace, which has to exist when the instance is created."
    )
    connection: Annotated[Way | None, PlainValidator(_connection)] = Field(
        default=None,
        description="How to reach Kubernetes. Without it, as the Kubernetes provider that the component is given does, "
        "and without one, through the current context of the ambient kubeconfig.",
    )
