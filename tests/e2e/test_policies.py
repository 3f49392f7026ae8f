"""The policy pack in the real `pulumi preview` and `pulumi up`, on a team's own program: plain Kubernetes resources.

The provider writes files instead of asking an API server, so that the pack alone decides what happens.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.model import Resource
from policies.rules import BY_NAME, RULES
from tests.e2e.harness.environment import CHECKOUT
from tests.e2e.harness.program import Result, Stack, lay_out
from tests.unit.policies.cases import BAD, Case
from tests.unit.policies.objects import (
    TOPOLOGY,
    config_map,
    everything,
    network_policy,
    plain_labels,
    service,
    statefulset,
    with_server,
)

#: The program: resources as its config lists them. `late` is a value that exists only once something has been made.
PROGRAM = """
import json
import pulumi
from pulumi import dynamic

class Late(dynamic.ResourceProvider):
    def create(self, props):
        return dynamic.CreateResult("late", {"image": props["told"], "told": props["told"]})

class Anything(dynamic.ResourceProvider):
    def create(self, props):
        return dynamic.CreateResult("it", props)

class Topology(dynamic.Resource, module="valkey", name="Topology"):
    pass

class Made(dynamic.Resource):
    image: pulumi.Output[str]

config = pulumi.Config()
render = pulumi.ProviderResource("kubernetes", "render", {"renderYamlToDirectory": "rendered", "kubeconfig": ""},
                                 pulumi.ResourceOptions(version="4.25.0"))
late = config.get("late")
image = Made(Late(), "late", {"told": late, "image": None}).image if late else None

def filled(value):
    if isinstance(value, dict):
        return {key: filled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [filled(part) for part in value]
    return image if value == "(late)" else value

for entry in json.loads(config.get("resources") or "[]"):
    options = pulumi.ResourceOptions(protect=entry["protect"] or None, ignore_changes=entry["ignored"])
    if entry["type"].endswith(":Topology"):
        Topology(Anything(), entry["name"], entry["props"], options)
        continue
    options = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(provider=render))
    pulumi.CustomResource(entry["type"], entry["name"], filled(entry["props"]), options)
"""
#: One case of each rule.
CASES = {rule.name: next(iter(BAD[rule.name].values())) for rule in RULES}


class Team:
    """The program's stack, and the pack with a config of the test's own."""

    def __init__(self, folder: Path) -> None:
        project = lay_out(folder / "project", PROGRAM)
        # Files can't be refreshed.
        described = yaml.safe_load((project / "Pulumi.yaml").read_text())
        (project / "Pulumi.yaml").write_text(yaml.safe_dump({**described, "options": {}}))
        self._pack_config = folder / "policies.json"
        self._stack = Stack(project, "test", backend=folder / "backend", namespace="none")
        self._stack.env.pop("KUBECONFIG", None)
        self._stack.init()

    def declare(self, resources: Sequence[Resource], **config: str) -> None:
        """What the program is to make."""
        listed = [
            {
                "type": one.type,
                "name": one.name,
                "props": one.props,
                "protect": one.protect,
                "ignored": one.ignore_changes,
            }
            for one in resources
            if one.is_kubernetes or one.type == TOPOLOGY
        ]
        values = {"other:resources": json.dumps(listed), **config}
        self._stack.config_file.write_text(json.dumps({"config": values, **self._salt()}))

    def run(
        self, command: str, *rules: str, expect: int = 0, params: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Result:
        """A command with these rules mandatory and the others off; without any, without the pack.

        `params`: their parameters, by their names.
        """
        options = ["--yes", "--skip-preview"] if command == "up" else []
        if rules:
            off = {rule.name: "disabled" for rule in RULES if rule.name not in rules}
            on = {name: {"enforcementLevel": "mandatory", **(params or {}).get(name, {})} for name in rules}
            self._pack_config.write_text(json.dumps({**off, **on}))
            options += ["--policy-pack", str(CHECKOUT / "policies"), "--policy-pack-config", str(self._pack_config)]
        return self._stack.run(command, *options, expect=expect)

    def preview_with_defaults(self) -> Result:
        """With the pack as it is without a profile."""
        return self._stack.run("preview", "--policy-pack", str(CHECKOUT / "policies"))

    def rendered(self, kind: str) -> list[Path]:
        """The files of a kind that an `up` has written."""
        return list((self._stack.project / "rendered").rglob(f"*{kind}*"))

    def close(self) -> None:
        self._stack.close()

    def _salt(self) -> dict[str, str]:
        text = self._stack.config_file.read_text() if self._stack.config_file.exists() else ""
        found = re.search(r'encryptionsalt"?: "?([^"\s]+)', text)
        return {"encryptionsalt": found[1]} if found else {}


@pytest.fixture
def team(tmp_path: Path) -> Any:
    made = Team(tmp_path)
    yield made
    made.close()


def told(result: Result) -> str:
    """What was said, without the line breaks and margins of the display."""
    return re.sub(r"\s+", " ", result.output)


#: Those that look at a resource by itself find it beside the others'. The rest look at what there is together, at what
#: there was, or at the stack's own config.
TOGETHER = [rule.name for rule in RULES if rule.check and not CASES[rule.name].before and not CASES[rule.name].config]
ALONE = [name for name in CASES if name not in TOGETHER]


def test_each_rule_for_single_resources_fails_a_preview_with_its_message(team: Team) -> None:
    team.declare([replace(one, name=f"{rule}-{one.name}") for rule in TOGETHER for one in CASES[rule].resources])
    refused = team.run("preview", *TOGETHER, expect=1, params={rule: CASES[rule].params for rule in TOGETHER})
    assert len(TOGETHER) > len(ALONE)
    for rule in TOGETHER:
        assert_told(refused, rule)


@pytest.mark.parametrize("rule", ALONE)
def test_each_other_rule_fails_a_preview_with_its_message(team: Team, rule: str) -> None:
    case: Case = CASES[rule]
    if case.before:
        # Protection would be the engine's own refusal, before any rule is asked.
        team.declare([replace(one, protect=False) for one in case.before])
        team.run("up")
    team.declare(case.resources, **case.config)
    assert_told(team.run("preview", rule, expect=1, params={rule: case.params}), rule)


def assert_told(refused: Result, rule: str) -> None:
    text = told(refused)
    assert f"[mandatory] {rule} " in text, refused.output
    for part in (*CASES[rule].words, BY_NAME[rule].reason, BY_NAME[rule].remedy, BY_NAME[rule].link):
        assert part in text, (rule, refused.output)
    assert "hunter2" not in text
    assert "can't run policy" not in text


def test_a_good_program_passes_every_rule(team: Team) -> None:
    team.declare(everything())
    passed = team.run("preview", *CASES)
    assert "[mandatory]" not in passed.output
    assert "[advisory]" not in passed.output
    assert "can't run policy" not in passed.output
    assert team.run("up", *CASES).code == 0


def test_an_unknown_value_is_no_finding_in_preview_and_is_refused_by_up(team: Team) -> None:
    team.declare([with_server(image="(late)")], **{"other:late": "valkey/valkey:latest"})
    passed = team.run("preview", "image-pinned")
    assert "image-pinned" not in passed.output
    assert "can't run policy" not in passed.output
    refused = team.run("up", "image-pinned", expect=1)
    assert "container server runs valkey/valkey:latest, whose tag latest moves" in told(refused)
    # Nothing of it was made.
    assert team.rendered("statefulset") == []


def test_what_serves_a_valkey_without_labels_is_refused(team: Team) -> None:
    bus = network_policy({"ports": [{"port": 16379.0}]})
    password = config_map("requirepass hunter2\nport 6379\n")
    team.declare([plain_labels(one) for one in (statefulset(), password, bus, service("NodePort"))])
    refused = team.run("preview", "no-plain-password", "network-policy", "exposed-service", expect=1)
    for words in (
        "ConfigMap data/cache-config: valkey.conf holds a password in plain text (requirepass)",
        "NetworkPolicy data/cache: lets everybody reach the cluster bus (port 16379)",
        "Service data/cache: is a NodePort without TLS",
    ):
        assert words in told(refused), refused.output
    assert "hunter2" not in refused.output


def test_a_profile_with_a_name_that_means_nothing_is_refused(team: Team) -> None:
    team.declare(everything())
    wrong = {name: {"requires": "digest"} for name in ("image-pinned", "image-pined")}
    refused = team.run("preview", *wrong, expect=1, params=wrong)
    text = told(refused)
    assert "there is no rule image-pined; did you mean image-pinned?" in text
    assert "image-pinned has no parameter requires; did you mean require?" in text


def test_an_advisory_finding_is_shown_and_fails_nothing(team: Team) -> None:
    team.declare([with_server(image="valkey/valkey:latest")])
    shown = team.preview_with_defaults()
    assert "[advisory] image-pinned" in told(shown)
