"""The JSON schema of the stack config: in step with the models, complete, and of one mind with the program."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

from settings import parse
from tests.unit.settings.bad_configs import BAD

CHECKOUT = Path(__file__).parents[3]
REFERENCE = CHECKOUT / "docs" / "reference"
SCHEMA: dict[str, Any] = json.loads((REFERENCE / "stack-config.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
STACKS = sorted(path.name for path in (CHECKOUT / "stacks").glob("Pulumi.*.yaml"))

#: Mistakes that no schema can see, with the reason. The program refuses them all the same.
BEYOND_A_SCHEMA = {
    "a gap": "arithmetic on slots",
    "an overlap": "arithmetic on slots",
    "a shard without slots": "depends on how many shards there are",
    "slots of a shard too many": "depends on how many shards there are",
    "a primary of no shard": "depends on how many shards there are",
    "a primary beyond the replicas": "depends on how many replicas there are",
    "slots beyond the last": "arithmetic on slots",
    "slots backwards": "arithmetic on slots",
    "maxmemory above the limit": "arithmetic on quantities",
    "maxmemory without bound": "depends on whether there is a limit",
    "request above the limit": "arithmetic on quantities",
    "limit that no server lives in": "arithmetic on quantities",
    "limit that no agent lives in": "arithmetic on quantities",
    "agent's request above its limit": "arithmetic on quantities",
    "size of a wrong unit": "arithmetic on quantities",
    "Secret of the generated one's name": "depends on the instance's name",
}


#: Keys inside an instance that have no default: required there, unless `valkey:defaults` may say them.
NEEDED = ("size", "name", "afterSeconds")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("schema", REFERENCE / "schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


def valid(instance: Any) -> bool:
    return VALIDATOR.is_valid({"config": {"valkey:instances": {"sessions": instance}}})


def keys(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every key that the schema knows: its path, what is said of it, whether it is required."""
    if isinstance(schema, dict):
        for name, value in (schema.get("properties") or {}).items():
            yield f"{path}.{name}", value, name in NEEDED or name in (schema.get("required") or [])
        for name, value in schema.items():
            yield from keys(value, f"{path}/{name}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from keys(value, f"{path}/{number}")


#: Conditions of rules speak of keys that are described elsewhere.
KEYS = {path: (said, required) for path, said, required in keys(SCHEMA) if not re.search("/(allOf|then)\\b", path)}
#: Those that a person writes, as against what Pulumi adds to the file.
WRITTEN = [path for path in KEYS if "/" in path]


def test_it_is_what_would_be_written() -> None:
    assert generator().rendered() == (REFERENCE / "stack-config.schema.json").read_text()


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert len(KEYS) > 150


@pytest.mark.parametrize("path", KEYS)
def test_every_key_has_a_description_and_a_type(path: str) -> None:
    said, _ = KEYS[path]
    assert said.get("description")
    assert {"type", "anyOf", "allOf", "enum", "$ref"} & set(said) or path == ".environment"


@pytest.mark.parametrize("path", WRITTEN)
def test_every_key_that_people_write_has_a_default_and_an_example(path: str) -> None:
    said, required = KEYS[path]
    assert ("default" in said) != required
    assert said["examples"]


@pytest.mark.parametrize("path", WRITTEN)
def test_examples_and_defaults_are_valid_themselves(path: str) -> None:
    said, _ = KEYS[path]
    own = jsonschema.Draft202012Validator({**said, "$defs": SCHEMA["$defs"]})
    for value in (*said["examples"], *([said["default"]] if "default" in said else [])):
        assert own.is_valid(value), value


@pytest.mark.parametrize("stack", STACKS)
def test_it_takes_all_stacks_of_the_checkout(stack: str) -> None:
    problems = list(VALIDATOR.iter_errors(yaml.safe_load((CHECKOUT / "stacks" / stack).read_text())))
    assert problems == []


@pytest.mark.parametrize("stack", STACKS)
def test_the_stacks_name_it_for_editors(stack: str) -> None:
    first = (CHECKOUT / "stacks" / stack).read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../docs/reference/stack-config.schema.json"


@pytest.mark.parametrize("mistake", [name for name in BAD if name not in BEYOND_A_SCHEMA])
def test_it_refuses_what_the_program_refuses(mistake: str) -> None:
    assert not valid(BAD[mistake].instance)


@pytest.mark.parametrize("mistake", BEYOND_A_SCHEMA)
def test_what_is_beyond_it_is_still_so(mistake: str) -> None:
    """Else the mistake leaves the list."""
    assert valid(BAD[mistake].instance)


@pytest.mark.parametrize(
    ("slots", "code"),
    [('{"0": 0-5460, "1": 5461-16383, "2": 7}', 0), ("{0: 0-5460, 1: 5461-16383, 2: 7}", 0), ("{zero: 0-5460}", 1)],
)
def test_the_documented_command_checks_a_stack(tmp_path: Path, slots: str, code: int) -> None:
    # Shards are numbers to YAML where they aren't quoted: validators fail on such keys, but not this one.
    stack = tmp_path / "Pulumi.mine.yaml"
    stack.write_text(f"config:\n  valkey:instances:\n    sessions: {{slots: {slots}}}\n")
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", "docs/reference/stack-config.schema.json"]
    done = subprocess.run([*command, str(stack)], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    for document in ("ci.md", "reference/stack-config.md"):
        told = (CHECKOUT / "docs" / document).read_text()
        assert "check-jsonschema --schemafile docs/reference/stack-config.schema.json stacks/Pulumi.*.yaml" in told


def test_the_documentation_writes_shards_as_texts() -> None:
    unquoted = re.compile(r"(slots|primaries): \{\d|`\{\d+: ")
    for document in [*(CHECKOUT / "docs").glob("*.md"), *REFERENCE.iterdir(), CHECKOUT / "README.md"]:
        if document.suffix in (".md", ".json"):
            assert not unquoted.search(document.read_text()), document


GOOD: list[Any] = [
    {},
    {"version": "8.1", "config": {"lua-time-limit": 100, "activedefrag": "YES", "hz": "20"}},
    {"config": {"save": ["900 1", "60 9"], "appendonly": True}, "persistence": {"size": "1Gi"}},
    {"config": {"min-replicas-to-write": 2, "client-output-buffer-limit": "replica 256mb 64mb 60"}, "replicas": 2},
    {"shards": 2, "allowFewShards": True, "replicas": 0, "slots": {"0": "0-99", "1": "100-16383"}},
    {"resources": {"requests": {"cpu": 0.5, "memory": "1e8"}, "limits": {"cpu": 2, "memory": 134217728}}},
    {"image": "mirror.example:5000/team/valkey:9.1.2-alpine3.22"},
    {"image": "valkey/valkey@sha256:" + "0" * 64, "config": {"maxmemory-clients": "5%", "log-format": "JSON"}},
    {"persistence": {"size": "1Gi", "storageClassName": "fast", "reclaimPolicy": "Delete"}, "protect": True},
    {"persistence": None, "auth": {"passwordSecret": {"name": "mine", "key": "word"}}},
]


@pytest.mark.parametrize("instance", GOOD)
def test_it_takes_what_the_program_takes(instance: Any) -> None:
    problems, settings = parse({"valkey:instances": json.dumps({"sessions": instance})})
    assert (problems, settings is not None) == ([], True)
    assert valid(instance)


def test_keys_beside_the_instances() -> None:
    def valid_config(**config: Any) -> bool:
        return VALIDATOR.is_valid({"config": {"valkey:instances": {"a": {}}, **config}})

    assert valid_config(**{"valkey:defaults": {"replicas": 2, "config": {"hz": 20}}, "aws:region": "eu-central-1"})
    # What an instance lacks, the defaults may say.
    parts = {
        "valkey:defaults": {"persistence": {"storageClassName": "fast"}, "auth": {"passwordSecret": {"key": "word"}}},
        "valkey:instances": {"a": {"persistence": {"size": "1Gi"}, "auth": {"passwordSecret": {"name": "mine"}}}},
    }
    assert valid_config(**parts)
    assert parse({key: json.dumps(value) for key, value in parts.items()})[0] == []
    few = {"valkey:defaults": {"allowFewShards": True}, "valkey:instances": {"a": {"shards": 1}}}
    assert valid_config(**few)
    assert not valid_config(**{"valkey:instances": few["valkey:instances"]})
    assert not valid_config(**{"valkey:defaults": {"slots": {"0": "0-16383"}}})
    assert not valid_config(**{"valkey:defaults": {"primaries": {"0": 1}}})
    assert not valid_config(**{"valkey:defaults": {"replicsa": 2}})
    assert not valid_config(**{"valkey:instance": {}})
    assert not valid_config(**{"kubernetes:context": "dev"})
    assert not valid_config(**{"valkey:kubernetes": {"contxt": "dev"}})
    assert valid_config(**{"valkey:kubernetes": {"kubeconfig": {"secure": "v1:abc"}}})
    assert not VALIDATOR.is_valid({"config": {"valkey:instances": {}}})
    assert not VALIDATOR.is_valid({"config": {"valkey:instances": {"My_Cache": {}}}})
