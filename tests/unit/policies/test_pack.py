"""The rules as Pulumi's policies: what the engine is told, and how long it waits for an answer."""

import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import analyzer_pb2 as proto
from pulumi_policy import EnforcementLevel
from pulumi_policy.policy import _PolicyAnalyzerServicer
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from components import Amounts, ClusterArgs, Persistence, Resources, ValkeyCluster
from policies.model import UNKNOWN, Resource
from policies.pack import NAME, Judges, checking, plain
from policies.rules import BY_NAME, RULES
from policies.state import Before
from tests.unit.components.recording import Registered, record
from tests.unit.policies.objects import config_map, everything, plain_labels, statefulset, with_server

PROFILES = sorted((Path(__file__).parents[3] / "policies" / "profiles").glob("*.json"))
LEVELS = ("advisory", "mandatory", "disabled")
#: What the pack may take of a preview of 16 shards with 2 replicas each, in seconds of this process.
BAR_S = 1.0


class Nothing(Before):
    """A stack that has no state yet."""

    def __init__(self) -> None:
        super().__init__("")


def servicer(profile: str = "prod") -> _PolicyAnalyzerServicer:
    judges = Judges(Nothing())
    policies = [judges.policy(rule) for rule in RULES]
    made = checking(_PolicyAnalyzerServicer)(NAME, "0.0.1", policies, EnforcementLevel.ADVISORY)
    request = proto.ConfigureAnalyzerRequest()
    for name, config in json.loads((PROFILES[0].parent / f"{profile}.json").read_text()).items():
        entry = request.policyConfig[name]
        entry.enforcementLevel = {"advisory": proto.ADVISORY, "mandatory": proto.MANDATORY, "disabled": proto.DISABLED}[
            config["enforcementLevel"]
        ]
        entry.properties.update({key: value for key, value in config.items() if key != "enforcementLevel"})
    made.Configure(request, None)
    return made


class RefusedError(Exception):
    """What the engine is told instead of an answer."""


class Call:
    """The engine's call, as gRPC hands it to the pack."""

    def abort(self, _code: object, details: str) -> None:
        raise RefusedError(details)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"image-pined": {}}, "there is no rule image-pined; did you mean image-pinned?"),
        ({"image-pinned": {"requires": "digest"}}, "image-pinned has no parameter requires; did you mean require?"),
        (
            {"tls": {"EnforcementLevl": "mandatory"}},
            "tls has no parameter EnforcementLevl; did you mean enforcementLevel?",
        ),
        ({"protected": {"xyz": 1}}, "protected has no parameter xyz; there is enforcementLevel, exempt, kinds, scope"),
    ],
)
def test_a_name_in_a_profile_that_means_nothing_is_refused(profile: dict[str, Any], words: str) -> None:
    made = checking(_PolicyAnalyzerServicer)(
        NAME, "0.0.1", [Judges(Nothing()).policy(RULES[0])], EnforcementLevel.ADVISORY
    )
    request = proto.ConfigureAnalyzerRequest()
    for name, config in {"grace-period": {"seconds": 5}, "all": {}, **profile}.items():
        request.policyConfig[name].enforcementLevel = proto.MANDATORY
        request.policyConfig[name].properties.update(config)
    with pytest.raises(RefusedError) as refused:
        made.Configure(request, Call())
    assert str(refused.value).splitlines() == ["the profile is wrong", words]


def test_a_thing_without_labels_is_told_of_at_the_end() -> None:
    resources = [plain_labels(one) for one in (statefulset(), config_map("requirepass hunter2\nmaxmemory 1mb\n"))]
    told = [(rule, text) for rule, text in analyzed(servicer(), resources) if rule == "no-plain-password"]
    assert told == [
        ("no-plain-password", "ConfigMap data/cache-config: valkey.conf holds a password in plain text (requirepass)")
    ]


def struct(props: Any) -> Struct:
    made = Struct()
    made.update(props)
    return made


def analyzed(made: _PolicyAnalyzerServicer, resources: list[Resource]) -> list[tuple[str, str]]:
    """What the engine is told of them, as (rule, first line about the resource)."""
    told = [
        one
        for resource in resources
        for one in made.Analyze(
            proto.AnalyzeRequest(
                urn=resource.urn,
                type=resource.type,
                name=resource.name,
                properties=struct(resource.props),
                options=proto.AnalyzerResourceOptions(protect=resource.protect),
            ),
            None,
        ).diagnostics
    ]
    entries = [
        proto.AnalyzerResource(urn=one.urn, type=one.type, name=one.name, properties=Struct()) for one in resources
    ]
    told += made.AnalyzeStack(proto.AnalyzeStackRequest(resources=entries), None).diagnostics
    return [(one.policyName, one.message.splitlines()[1]) for one in told]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_each_profile_sets_every_rule_and_nothing_else(profile: Path) -> None:
    config = json.loads(profile.read_text())
    assert list(config) == [rule.name for rule in RULES]
    for name, entry in config.items():
        rule = BY_NAME[name]
        assert entry.pop("enforcementLevel") in LEVELS
        known = {key: dict(one.schema) for key, one in rule.all_parameters.items()}
        jsonschema.validate(entry, {"type": "object", "properties": known, "additionalProperties": False})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_defaults_are_valid_themselves(rule: Any) -> None:
    for parameter in rule.all_parameters.values():
        jsonschema.validate(parameter.default, dict(parameter.schema))
        assert parameter.schema["description"]


def test_names_are_unique_and_each_rule_judges_in_one_way() -> None:
    assert len(BY_NAME) == len(RULES)
    for rule in RULES:
        assert (rule.check is None) != (rule.stack_check is None)
        assert all((rule.title, rule.reason, rule.remedy))


def test_the_engine_is_told_of_every_rule_with_its_schema() -> None:
    info = servicer().GetAnalyzerInfo(None, None)
    assert info.name == NAME
    told = {policy.name: policy for policy in info.policies}
    assert list(told) == [rule.name for rule in RULES]
    for rule in RULES:
        assert set(told[rule.name].configSchema.properties) == set(rule.all_parameters)
        assert told[rule.name].remediation_steps == rule.remedy


def test_findings_reach_the_engine_under_their_rules_name() -> None:
    good = servicer("staging")
    assert analyzed(good, everything()) == []
    bad = [with_server(image="valkey/valkey:latest") if one.kind == "StatefulSet" else one for one in everything()]
    assert analyzed(servicer("staging"), bad) == [
        ("image-pinned", "StatefulSet data/cache: container server runs valkey/valkey:latest, whose tag latest moves")
    ]


def test_what_pulumi_does_not_know_is_unknown_and_nothing_raises() -> None:
    proxied = unknown_checking_proxy({"a": [1.0, UNKNOWN_STRING_VALUE], "b": UNKNOWN_STRING_VALUE, "c": {"d": None}})
    assert plain(proxied) == {"a": [1.0, UNKNOWN], "b": UNKNOWN, "c": {"d": None}}


def test_an_image_that_is_not_known_yet_is_judged_when_it_is() -> None:
    assert "image-pinned" not in dict(analyzed(servicer(), [with_server(image=UNKNOWN_STRING_VALUE)]))
    assert "image-pinned" in dict(analyzed(servicer(), [with_server(image="valkey/valkey:latest")]))


def test_the_same_resource_may_be_analyzed_again_with_other_inputs() -> None:
    """As when an `up` does a preview first: what was read before must not stand in for what is now."""
    made = servicer()
    assert "image-pinned" not in dict(analyzed(made, [statefulset()]))
    assert "image-pinned" in dict(analyzed(made, [with_server(image="valkey/valkey:latest")]))


def test_a_state_that_can_not_be_read_fails_and_does_not_pass() -> None:
    judges = Judges(Before("acme/team/prod", ["sh", "-c", "echo no backend >&2; exit 3"]))
    made = _PolicyAnalyzerServicer(NAME, "0.0.1", [judges.policy(BY_NAME["data-kept"])], EnforcementLevel.MANDATORY)
    assert analyzed(made, everything())[0][1].endswith("the stack's state could not be read: no backend")


def large() -> list[Registered]:
    """A cluster of 16 shards with 2 replicas each."""

    def program() -> None:
        memory = Amounts(cpu="1", memory="4Gi")
        args = ClusterArgs(
            shards=16,
            replicas=2,
            persistence=Persistence(size="20Gi"),
            resources=Resources(requests=memory, limits=memory),
        )
        ValkeyCluster("big", args)

    return list(record(program))


def test_it_takes_little_of_the_preview_of_a_large_cluster() -> None:
    resources = [
        Resource(f"urn:pulumi:dev::valkey::valkey:index:Cluster${one.type}::{one.name}", one.type, one.name, one.inputs)
        for one in large()
    ]
    assert len(resources) > 80
    made = servicer()
    started = time.process_time()
    analyzed(made, resources)
    took = time.process_time() - started
    assert took < BAR_S, f"{took:.2f} s"
