"""The stack config, read and checked: the only reader of Pulumi's configuration.

`valkey:kubernetes` says where, `valkey:instances` what, `valkey:defaults` what the instances have in common. Everything
that is wrong is told at once, at preview, each with its path, its value (never a secret's), the reason and the nearest
valid key; the program then ends without a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret
from pydantic import AfterValidator, Field, PlainValidator, ValidationError

from components.args import ClusterArgs, ClusterSettings, Model
from components.names import collisions, instance_name_problem, namespace_problem
from components.overlay import is_default, laid_over
from components.problems import Path as KeyPath
from components.problems import Problem, fail, in_order, nearest, refuse, render_path, tell
from components.rules import secret_problem
from valkeyctl.lifecycle import Connection

PROJECT = "valkey"
#: Exit code by which a program tells Pulumi that a person has been told what is wrong. With any other, or an exception,
#: Pulumi adds that an unhandled error occurred.
ALREADY_TOLD = 32
ARCHITECTURES = ("cluster", "failover", "replica")


def _name(value: str) -> str:
    return fail("must not be empty") if not value.strip() else value


def _namespace(value: str) -> str:
    if problem := namespace_problem(value):
        fail(problem)
    return value


def _instance_name(value: str) -> str:
    if problem := instance_name_problem(value):
        fail(problem)
    return value


def _architecture(value: object) -> str:
    if value == "cluster":
        return "cluster"
    if value in ARCHITECTURES:
        return fail("isn't available yet; what there is now is cluster")
    hint = nearest(value, ARCHITECTURES) if isinstance(value, str) else ""
    return fail(f"must be {', '.join(ARCHITECTURES)}{hint}")


class Kubernetes(Model):
    """Where the instances live, and how to get there."""

    context: Annotated[str, AfterValidator(_name)] | None = Field(
        default=None,
        description="Context of the kubeconfig. Pin it, so that switching contexts by hand never redirects an `up`. "
        "Without it, the kubeconfig's current context.",
    )
    namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        default="valkey",
        description="Namespace of all instances of the stack. Where there is none of that name it is created, held to "
        "the `restricted` Pod Security Standard, and removed by `pulumi destroy` unless something in it must stay.",
    )
    kubeconfig: Annotated[str, AfterValidator(_name)] | None = Field(
        default=None,
        description="Path of a kubeconfig, or its contents as a secret (`pulumi config set --secret --path`). Without "
        "it `$KUBECONFIG`, else `~/.kube/config`, else the service account of the Pod that Pulumi runs in.",
    )
    transport: Literal["portForward", "direct"] = Field(
        default="portForward",
        description="How `pulumi up` reaches the servers: through the API server, or at their addresses, which takes a "
        "Pulumi that runs inside the cluster's network.",
    )


class Instance(ClusterSettings):
    """One instance of Valkey."""

    architecture: Annotated[str, PlainValidator(_architecture)] = Field(
        default="cluster", description="`cluster`. (`failover` and `replica` aren't available yet.) Fixed at creation."
    )
    protect: bool = Field(
        default=False,
        description="Pulumi refuses to delete or replace anything of the instance, until an `up` with `false` here.",
    )


def _apart(instances: dict[str, Instance]) -> dict[str, Instance]:
    alike = (
        Problem((other,), other, f"its name and that of {one} are too much alike: both have or can grow to have {name}")
        for one, other, name in collisions(instances)
    )
    secrets = (
        replace(problem, path=(name, *problem.path))
        for name, instance in instances.items()
        for problem in secret_problem(name, instance)
    )
    refuse([*alike, *secrets])
    return instances


def _shared(defaults: dict[str, Any]) -> dict[str, Any]:
    if "slots" in defaults:
        refuse([Problem(("slots",), defaults["slots"], "a layout belongs to one instance; write it there")])
    if "primaries" in defaults:
        refuse([Problem(("primaries",), defaults["primaries"], "members belong to one instance; write it there")])
    return defaults


class StackConfig(Model):
    """All of the stack config that is ours."""

    kubernetes: Kubernetes = Field(default=Kubernetes(), description="Where.")
    defaults: Annotated[dict[str, Any], AfterValidator(_shared)] = Field(
        default={},
        description="What holds for every instance that doesn't say otherwise: any keys of an instance but `slots` "
        "and `primaries`. "
        "Mappings are merged key by key; `null` in an instance takes a default away.",
    )
    instances: Annotated[
        dict[Annotated[str, AfterValidator(_instance_name)], Instance],
        AfterValidator(_apart),
    ] = Field(description="What: instance name → instance.")


@dataclass(frozen=True)
class Settings:
    """What the program is to build: where, the arguments of each instance by its name, and which are protected."""

    connection: Connection
    namespace: str
    instances: Mapping[str, ClusterArgs]
    protected: frozenset[str] = frozenset()


def load() -> Settings:
    """Read the stack config. When it is wrong, tells so and ends the program, without a traceback."""
    values = {**get_config_env(), **CONFIG.get()}
    secret = frozenset(key for key in values if is_config_secret(key))
    problems, settings = parse(values, secret)
    if settings is None:
        count = "an error" if len(problems) == 1 else f"{len(problems)} errors"
        lines = "\n".join(f"  {problem}" for problem in problems)
        pulumi.log.error(f"the stack config has {count}:\n{lines}")
        raise SystemExit(ALREADY_TOLD)
    return settings


def parse(values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> tuple[list[str], Settings | None]:
    """Read `key → JSON` as Pulumi hands it over: the problems, one line each, or the settings when there are none.

    `secret`: the keys that hold something secret; none of their values is shown.
    """
    raw: dict[str, Any] = {}
    problems = [line for key in sorted(values) if (line := _foreign(key))]
    for field in StackConfig.model_fields:
        if text := values.get(f"{PROJECT}:{field}"):
            try:
                raw[field] = json.loads(text)
            except ValueError:
                raw[field] = text
    if not raw.get("instances", True):
        del raw["instances"]
    hidden = {field for field in raw if f"{PROJECT}:{field}" in secret}
    try:
        config = StackConfig.model_validate(_merged(raw), by_alias=True, by_name=False)
    except ValidationError as error:
        return in_order(problems + _told(error, hidden, raw)), None
    return (problems, None) if problems else ([], _settings(config))


def _merged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The stack config with its defaults under every instance. What isn't even a mapping is left for its validator."""
    defaults, instances = raw.get("defaults"), raw.get("instances")
    if not isinstance(defaults, dict) or not isinstance(instances, dict):
        return dict(raw)
    shared, named = cast("dict[str, Any]", defaults), cast("dict[str, Any]", instances)
    over = {
        name: laid_over(shared, cast("dict[str, Any]", own)) if isinstance(own, dict) else own
        for name, own in named.items()
    }
    return {**raw, "instances": over}


def _settings(config: StackConfig) -> Settings:
    where = config.kubernetes
    kubeconfig = where.kubeconfig
    if kubeconfig and "\n" not in kubeconfig:
        kubeconfig = str(Path(kubeconfig).expanduser())
    connection = Connection(context=where.context, kubeconfig=kubeconfig, transport=where.transport)
    return Settings(
        connection=connection,
        namespace=where.namespace,
        instances={
            name: ClusterArgs(
                **{field: getattr(instance, field) for field in ClusterSettings.model_fields},
                namespace=where.namespace,
                connection=connection,
            )
            for name, instance in config.instances.items()
        },
        protected=frozenset(name for name, instance in config.instances.items() if instance.protect),
    )


def _told(error: ValidationError, hidden: set[str], raw: Mapping[str, Any]) -> list[str]:
    def written_at(path: KeyPath) -> KeyPath:
        """Where a value of an instance stands: with the instance, or among the defaults."""
        if path[:1] != ("instances",) or len(path) < 3:
            return path
        rest, own = path[2:], (raw.get("instances") or {}).get(path[1])
        return ("defaults", *rest) if is_default(rest, raw.get("defaults"), own) else path

    # A value that came from secret defaults is shown nowhere, whichever instance it went into.
    hide = hidden | {"instances"} if "defaults" in hidden else hidden
    lines: list[str] = []
    for line in tell(error, StackConfig, "", hide=hide, written_at=written_at):
        if line.startswith("instances: is required"):
            example = f"pulumi config set --path {PROJECT}:instances.sessions.shards 3"
            lines.append(f"{PROJECT}:instances: no instance is declared; try `{example}`")
        else:
            lines.append(f"{PROJECT}:{line}")
    return lines


def _foreign(key: str) -> str:
    """What is wrong with the presence of a key; "" when it is ours, or nobody's concern here."""
    namespace, _, name = key.partition(":")
    if namespace == PROJECT and name not in StackConfig.model_fields:
        return f"{key}: unknown key{nearest(name, StackConfig.model_fields)}"
    if namespace == "kubernetes":
        place = f"write {PROJECT}:kubernetes.{name}" if name in Kubernetes.model_fields else "remove it"
        return f"{render_path('', (key,)) if not name else key}: has no effect here; {place}"
    return ""
