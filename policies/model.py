"""What rules judge, and what they say: plain data, no Pulumi."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Unknown(Enum):
    """The value of what is known only when the resource exists. Neither there nor missing: no rule may guess."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Resource:
    """A resource of the program. `props`: its inputs, or at the end its outputs, with UNKNOWN where nothing is known.

    `retained`: Pulumi leaves it in Kubernetes when it leaves the program; told of resources of the state only.
    """

    urn: str
    type: str
    name: str
    props: Mapping[str, Any]
    protect: bool = False
    ignore_changes: Sequence[str] = ()
    retained: bool = False

    @property
    def kind(self) -> str:
        """StatefulSet, Service, …: the last part of the type."""
        return self.type.rpartition(":")[2]

    @property
    def is_kubernetes(self) -> bool:
        """Whether it is an object in Kubernetes, as against a provider, a component, a dynamic resource."""
        return self.type.startswith("kubernetes:") and self.type.count(":") == 2

    @property
    def label(self) -> str:
        """What a person calls it: `StatefulSet valkey/sessions-s0`; the namespace only where it is known."""
        metadata = self.props.get("metadata")
        stated = metadata if isinstance(metadata, Mapping) else {}
        namespace, name = stated.get("namespace"), stated.get("name")
        place = f"{namespace}/" if isinstance(namespace, str) else ""
        return f"{self.kind} {place}{name if isinstance(name, str) else self.name}"


@dataclass(frozen=True)
class Finding:
    """What is wrong with a resource, in one sentence that names the place and the value, but never a secret's."""

    resource: Resource
    detail: str


@dataclass(frozen=True)
class Surroundings:
    """What a rule may know beside the resource.

    `config`: the stack config, key → text, secret ones left out. `before`: the resources of the state as the update
    found it, by URN; asked for only by the rules that compare, since it has to be fetched.
    """

    config: Mapping[str, str] = field(default_factory=dict[str, str])
    before: Callable[[], Mapping[str, Resource]] = dict


ResourceCheck = Callable[[Resource, Params, Surroundings], Iterable[Finding]]
StackCheck = Callable[[Sequence[Resource], Params, Surroundings], Iterable[Finding]]


@dataclass(frozen=True)
class Parameter:
    """A setting of a rule: a JSON schema, and what holds when a profile says nothing."""

    schema: Mapping[str, Any]
    default: Any


@dataclass(frozen=True)
class Rule:
    """One thing that is asked for.

    `title`: what is asked, `reason`: why, `remedy`: what to do; `link`: where more is said. `check` judges each
    resource before it is made, `stack_check` all of them together at the end; a rule has one of the two.
    `by_relation`: at the end `check` also judges what turns out to be Valkey's only by the workload that it serves,
    like a ConfigMap without labels.
    """

    name: str
    title: str
    reason: str
    remedy: str
    check: ResourceCheck | None = None
    stack_check: StackCheck | None = None
    by_relation: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])

    @property
    def link(self) -> str:
        """The rule's paragraph in the pack's own documentation."""
        return f"policies/README.md#{self.name}"

    @property
    def all_parameters(self) -> dict[str, Parameter]:
        """Its own, and those that every rule has."""
        return {**self.parameters, **COMMON}

    def params(self, configured: Params | None) -> dict[str, Any]:
        """The parameters in effect. Pulumi hands numbers over as floats."""
        stated = {name: (configured or {}).get(name, one.default) for name, one in self.all_parameters.items()}
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in stated.items()
        }

    def tell(self, finding: Finding) -> str:
        """The whole message: resource, what is wrong, why that matters, what to do, where more is said."""
        return f"{finding.resource.label}: {finding.detail}\nWhy: {self.reason}\nDo: {self.remedy}\nMore: {self.link}"


COMMON: Mapping[str, Parameter] = {
    "scope": Parameter(
        {
            "type": "string",
            "enum": ["valkey", "all"],
            "description": "`valkey`: only what belongs to Valkey. `all`: every object of the program.",
        },
        "valkey",
    ),
    "exempt": Parameter(
        {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names of resources that the rule leaves alone; `*` stands for anything.",
        },
        [],
    ),
}
