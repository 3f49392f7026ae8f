"""The stacks of the checkout are judged by their own profiles: silent as they are, and telling when they are spoilt."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from components import ValkeyCluster
from policies.judging import judge, judge_stack
from policies.model import Resource, Surroundings
from policies.rules import BY_NAME
from settings import Instance, parse
from tests.unit.components.recording import record

CHECKOUT = Path(__file__).parents[3]
ENVIRONMENTS = ("dev", "staging", "prod")

Config = dict[str, Any]


def profile(environment: str) -> dict[str, dict[str, Any]]:
    return json.loads((CHECKOUT / "policies" / "profiles" / f"{environment}.json").read_text())


def config_of(environment: str) -> Config:
    """The stack's config."""
    return yaml.safe_load((CHECKOUT / "stacks" / f"Pulumi.{environment}.yaml").read_text())["config"]


def told(environment: str, config: Config) -> list[tuple[str, str, str]]:
    """(rule, level, message) of everything that the environment's profile finds in a stack."""
    texts = {key: json.dumps(value) for key, value in config.items()}
    problems, settings = parse(texts)
    assert problems == []
    assert settings is not None
    stated = settings

    def program() -> None:
        for name, args in stated.instances.items():
            ValkeyCluster(name, args)

    resources = [
        Resource(
            f"urn:pulumi:x::valkey::valkey:index:Cluster${one.type}::{one.name}",
            one.type,
            one.name,
            one.inputs,
            # Children have it from their component.
            protect=any(one.name.removeprefix("data-").startswith(name) for name in stated.protected),
            ignore_changes=one.ignore_changes,
        )
        for one in record(program)
    ]
    root = Resource("urn:pulumi:x::valkey::pulumi:pulumi:Stack::valkey-x", "pulumi:pulumi:Stack", "valkey-x", {})
    found: list[tuple[str, str, str]] = []
    for name, entry in profile(environment).items():
        rule, level = BY_NAME[name], entry["enforcementLevel"]
        if level == "disabled":
            continue
        params, surroundings = rule.params(entry), Surroundings(texts)
        findings = [finding for one in (root, *resources) for finding in judge(rule, one, params, surroundings)]
        findings += judge_stack(rule, [root, *resources], params, surroundings)
        found += [(name, level, rule.tell(finding)) for finding in findings]
    return found


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_stack_is_clean_under_its_own_profile(environment: str) -> None:
    assert told(environment, config_of(environment)) == []


def _set(path: str, value: Any) -> Callable[[Config], None]:
    """Change what all instances have in common; None takes it out."""

    def change(config: Config) -> None:
        *parents, last = path.split(".")
        place = config["valkey:defaults"]
        for part in parents:
            place = place[part]
        if value is None:
            del place[last]
        else:
            place[last] = value

    return change


def _no_volumes(config: Config) -> None:
    del config["valkey:defaults"]["persistence"], config["valkey:instances"]["catalog"]["persistence"]


def _plain_password(config: Config) -> None:
    config["backup:password"] = "hunter2"


#: Mistakes as they are made in a hurry → the rule that finds each in production, what it names, and words of it.
MISTAKES: dict[str, tuple[Callable[[Config], None], str, str, str]] = {
    "a floating tag": (_set("image", "valkey/valkey:latest"), "image-pinned", "StatefulSet", "names no digest"),
    "a tag alone": (_set("image", "valkey/valkey:9.1.2"), "image-pinned", "StatefulSet", "names no digest"),
    "an image from anywhere": (
        _set("image", "someone.example/valkey:9.1.2@sha256:" + "1" * 64),
        "approved-registries",
        "StatefulSet",
        "runs someone.example/valkey",
    ),
    "no memory limit": (
        _set("resources", {"requests": {"cpu": "1", "memory": "4Gi"}}),
        "resources-declared",
        "StatefulSet",
        "no limit of memory",
    ),
    "no requests": (_set("resources.requests", None), "resources-declared", "StatefulSet", "no request for cpu"),
    "too much for the dataset": (
        _set("config", {"maxmemory": "3900mb"}),
        "maxmemory-below-limit",
        "StatefulSet",
        "maxmemory is 4089446400 bytes",
    ),
    "no replicas": (_set("replicas", 0), "replicas-declared", "StatefulSet", "no replica beside the primary"),
    "no volumes": (_no_volumes, "persistence-retained", "StatefulSet", "in memory only"),
    "volumes that go": (
        _set("persistence.reclaimPolicy", "Delete"),
        "persistence-retained",
        "PersistentVolumeClaim",
        "reclaimPolicy: Delete",
    ),
    "another storage class": (
        _set("persistence.storageClassName", "scratch"),
        "approved-storage-classes",
        "PersistentVolumeClaim",
        "class scratch",
    ),
    "whichever storage class": (
        _set("persistence.storageClassName", None),
        "approved-storage-classes",
        "PersistentVolumeClaim",
        "default storage class",
    ),
    "no protection": (_set("protect", None), "protected", "PersistentVolumeClaim", "isn't protected"),
    "a password in the stack config": (_plain_password, "no-plain-password", "Stack", "backup:password in plain text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typical_mistake_fails_in_production(mistake: str) -> None:
    change, rule, kind, words = MISTAKES[mistake]
    config = copy.deepcopy(config_of("prod"))
    change(config)
    found = told("prod", config)
    assert {name for name, _, _ in found} == {rule}
    assert {level for _, level, _ in found} == {"mandatory"}
    first = found[0][2].splitlines()
    assert first[0].startswith(f"{kind} ")
    assert words in found[0][2]
    assert first[1] == f"Why: {BY_NAME[rule].reason}"
    assert first[2] == f"Do: {BY_NAME[rule].remedy}"
    assert "hunter2" not in str(found)


def test_the_rules_of_settings_that_are_missing_are_switched_on_when_they_come() -> None:
    """As soon as an instance can have TLS, production asks for it."""
    assert ("tls" in Instance.model_fields) == (profile("prod")["tls"]["enforcementLevel"] == "mandatory")
