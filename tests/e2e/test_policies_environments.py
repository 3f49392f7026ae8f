"""Each environment's stack as CI treats it: deployed, then changed, and the change is judged by its rules."""

import copy
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from policies.rules import BY_NAME
from tests.e2e.harness.environment import CHECKOUT
from tests.e2e.harness.kube import Kube
from tests.e2e.harness.program import CONTEXT, Stack
from tests.e2e.harness.sandbox import Sandbox
from tests.unit.ci.test_examples import github_commands, gitlab_commands
from tests.unit.policies.test_stacks import ENVIRONMENTS, MISTAKES, Config, config_of

#: The local cluster's.
CLASS = "local-path"


@dataclass(frozen=True)
class Ran:
    code: int
    output: str

    @property
    def told(self) -> str:
        """What was said, without the line breaks and margins of the display."""
        return re.sub(r"\s+", " ", self.output)


class Environment:
    """A stack of the checkout, with what is this cluster's own put in the place of the team's."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self.name, self.config = name, config_of(name)
        self.stack: Stack = sandbox.stack(name)
        shutil.copytree(
            CHECKOUT / "policies", self.stack.project / "policies", ignore=shutil.ignore_patterns("__pycache__")
        )
        self.config["valkey:kubernetes"] = {"context": CONTEXT, "namespace": sandbox.namespace}

    def declare(self, config: Config) -> None:
        values = {key.removeprefix("valkey:"): value for key, value in config.items() if key.startswith("valkey:")}
        self.stack.configure(values.pop("instances"), **values)
        for key, value in config.items():
            if not key.startswith("valkey:"):
                self.stack.run("config", "set", "--plaintext", key, value)

    def approve(self, storage_class: str) -> None:
        """Put a storage class among the approved ones, as a team does for its own clusters."""
        profile = self.stack.project / "policies" / "profiles" / f"{self.name}.json"
        rules = json.loads(profile.read_text())
        rules["approved-storage-classes"]["classes"] = [storage_class]
        profile.write_text(json.dumps(rules))

    def ci(self, step: str) -> Ran:
        """Run the command of the CI examples; both have the same."""
        command = github_commands()[step]
        assert gitlab_commands()[step] == command
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.stack.project,
            env={**self.stack.env, "STACK": self.name},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        return Ran(done.returncode, done.stdout + done.stderr)


def light(config: Config) -> Config:
    """Of the same shape, for a small machine: one instance, few bytes; images by the tags that the cluster has."""
    made = copy.deepcopy(config)
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}
    instance: dict[str, Any] = made["valkey:instances"]["sessions"]
    defaults: dict[str, Any] = made.get("valkey:defaults", {})
    for place in (defaults, instance):
        place.pop("image", None)
        place.pop("agent", None)
        if "persistence" in place:
            place["persistence"] = {**place["persistence"], "size": "64Mi", "storageClassName": CLASS}
    made["valkey:instances"] = {"sessions": {**instance, "resources": resources, "replicas": 1}}
    return made


def changed(config: Config, original: Config) -> Config:
    """What is deployed, with the images that the team's stack names and another setting."""
    made = copy.deepcopy(config)
    defaults = original.get("valkey:defaults", {})
    images = {key: defaults[key] for key in ("image", "agent") if key in defaults}
    made["valkey:instances"]["sessions"] |= {"config": {"maxmemory-policy": "volatile-lru"}, **images}
    return made


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_deployed_stack_that_is_changed_is_clean_under_its_own_profile(
    sandbox: Sandbox, kube: Kube, name: str
) -> None:
    environment = Environment(sandbox, name)
    environment.approve(CLASS)
    deployed = light(environment.config)
    environment.declare(deployed)
    environment.stack.up(timeout_s=240)

    calm = environment.ci("drift")
    assert calm.code == 0, calm.output

    environment.declare(changed(deployed, environment.config))
    clean = environment.ci("preview")
    assert clean.code == 0, clean.output
    assert "Policy Packs run:" in clean.output
    assert "[advisory]" not in clean.output
    assert "[mandatory]" not in clean.output

    kube.delete("poddisruptionbudgets", sandbox.namespace, "sessions")
    drifted = environment.ci("drift")
    assert drifted.code != 0, drifted.output
    if name == "dev":
        # The others' images are ones that this cluster hasn't got.
        back = environment.ci("up")
        assert back.code == 0, back.output
        assert kube.get("poddisruptionbudgets", sandbox.namespace, "sessions") is not None


@pytest.fixture(scope="module")
def production(module_sandbox: Sandbox) -> Environment:
    """Production's stack, not deployed, with the one instance that all mistakes are made with."""
    environment = Environment(module_sandbox, "prod")
    environment.config["valkey:instances"] = {
        "catalog": {**environment.config["valkey:instances"]["catalog"], "shards": 3}
    }
    return environment


#: Mistakes that may be made at once, each in another place of the config.
ROWS = [
    [
        "a floating tag",
        "no memory limit",
        "no replicas",
        "volumes that go",
        "whichever storage class",
        "no protection",
        "a password in the stack config",
    ],
    ["a tag alone", "no requests", "too much for the dataset", "another storage class"],
    ["an image from anywhere", "no volumes"],
]


def test_every_mistake_is_in_one_of_the_rows() -> None:
    assert sorted(mistake for row in ROWS for mistake in row) == sorted(MISTAKES)


@pytest.mark.xdist_group("production")
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_typical_mistakes_fail_the_preview_of_production(production: Environment, row: list[str]) -> None:
    config = copy.deepcopy(production.config)
    for mistake in row:
        change, *_ = MISTAKES[mistake]
        change(config)
    production.declare(config)
    refused = production.ci("preview")
    assert refused.code == 1, refused.output
    assert set(re.findall(r"\[mandatory\] ([a-z-]+) ", refused.told)) == {MISTAKES[mistake][1] for mistake in row}
    for mistake in row:
        _, rule, kind, words = MISTAKES[mistake]
        for part in (kind, words, BY_NAME[rule].reason, BY_NAME[rule].remedy):
            assert part in refused.told
    assert "hunter2" not in refused.output
