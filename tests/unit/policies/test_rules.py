"""Each rule finds its fault, is silent on the good case, and says nothing of what it can't know."""

import copy
import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest

from policies.judging import judge, judge_stack
from policies.model import UNKNOWN, Finding, Resource, Surroundings
from policies.rules import BY_NAME, RULES
from tests.unit.policies import objects
from tests.unit.policies.cases import BAD, GOOD, Case

BADS = [(rule, case) for rule, cases in BAD.items() for case in cases]
GOODS = [(rule, case) for rule, cases in GOOD.items() for case in cases]


def all_of(case: Case) -> list[Resource]:
    return [*case.resources, *case.before]


def found(rule_name: str, case: Case, resources: Sequence[Resource] | None = None) -> list[Finding]:
    rule = BY_NAME[rule_name]
    params = rule.params(case.params)
    surroundings = Surroundings(case.config, lambda: {one.urn: one for one in case.before})
    given = list(case.resources if resources is None else resources)
    each = itertools.chain.from_iterable(judge(rule, one, params, surroundings) for one in given)
    return [*each, *judge_stack(rule, given, params, surroundings)]


def test_every_rule_has_both_kinds_of_cases() -> None:
    assert list(BAD) == [rule.name for rule in RULES]
    assert sorted(GOOD) == sorted(BAD)


@pytest.mark.parametrize(("rule", "case"), BADS)
def test_it_finds_its_fault(rule: str, case: str) -> None:
    findings = found(rule, BAD[rule][case])
    words = BAD[rule][case].words
    assert len(findings) == len(words), findings
    for finding, part in zip(findings, words, strict=True):
        assert part in finding.detail


@pytest.mark.parametrize(("rule", "case"), BADS)
def test_the_message_says_resource_reason_remedy_and_link_and_no_password(rule: str, case: str) -> None:
    known = BY_NAME[rule]
    for finding in found(rule, BAD[rule][case]):
        told = known.tell(finding)
        assert told.startswith(f"{finding.resource.kind} ")
        assert finding.resource.name in told.splitlines()[0]
        assert told.splitlines()[1:] == [f"Why: {known.reason}", f"Do: {known.remedy}", f"More: {known.link}"]
        assert "hunter2" not in told


@pytest.mark.parametrize(("rule", "case"), GOODS)
def test_it_is_silent_on_the_good_case(rule: str, case: str) -> None:
    assert found(rule, GOOD[rule][case]) == []


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_a_whole_good_instance_has_nothing_to_find(rule: str) -> None:
    assert found(rule, Case(objects.everything())) == []


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_whatever_is_unknown_in_a_good_instance_is_no_finding(rule: str) -> None:
    everything = objects.everything()
    for number, one in enumerate(everything):
        for path in objects.paths(one.props):
            vague = [*everything[:number], objects.vague(one, path), *everything[number + 1 :]]
            assert found(rule, Case(vague)) == [], (one.label, path)


@pytest.mark.parametrize(("rule", "case"), BADS)
def test_what_is_wholly_unknown_is_no_finding(rule: str, case: str) -> None:
    """As in the preview of an empty stack: the objects are there, and nothing in them is known."""
    kept = ("metadata",)
    resources = [
        Resource(
            one.urn,
            one.type,
            one.name,
            {key: one.props[key] if key in kept else UNKNOWN for key in one.props},
            protect=True,
        )
        for one in BAD[rule][case].resources
        if one.is_kubernetes or one.type == objects.TOPOLOGY
    ]
    told = [finding.detail for finding in found(rule, Case(resources, params=BAD[rule][case].params))]
    # Labels and annotations are known all the same.
    by_metadata = {"required-labels": r"has no label", "persistence-retained": r"is deleted with its instance"}
    assert [detail for detail in told if not re.search(by_metadata.get(rule, "^$"), detail)] == []


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_outputs_that_are_missing_are_unknown(rule: str) -> None:
    bare = [Resource(one.urn, one.type, one.name, {}, protect=True) for one in objects.everything()]
    assert found(rule, Case(bare)) == []


OBJECTS = [(rule, case) for rule, case in BADS if any(one.is_kubernetes for one in all_of(BAD[rule][case]))]


@pytest.mark.parametrize(("rule", "case"), OBJECTS)
def test_other_peoples_objects_are_nobodys_business_unless_asked(rule: str, case: str) -> None:
    bad = BAD[rule][case]
    theirs = [objects.unlabelled(one) for one in bad.resources if one.is_kubernetes]
    before = [objects.unlabelled(one) for one in bad.before if one.is_kubernetes]
    assert found(rule, Case(theirs, params=bad.params, before=before)) == []


def test_when_asked_a_rule_judges_everything() -> None:
    theirs = objects.unlabelled(objects.with_server(image="valkey/valkey:latest"))
    case = Case([theirs], params={"scope": "all"})
    assert [finding.detail for finding in found("image-pinned", case)] == [
        "container server runs postgres/postgres:latest, whose tag latest moves"
    ]


@pytest.mark.parametrize(("rule", "case"), BADS)
def test_what_is_exempt_is_left_alone(rule: str, case: str) -> None:
    bad = BAD[rule][case]
    names = [one.name for one in all_of(bad)]
    assert found(rule, Case(bad.resources, (), {**bad.params, "exempt": names}, bad.config, bad.before)) == []


#: What a rule finds in a thing that isn't a workload, beside the workload that it serves.
SERVING = {
    "exposed-service": objects.service("NodePort"),
    "network-policy": objects.network_policy({"ports": [{"port": 16379.0}]}),
    "disruption-budget": objects.budget(maxUnavailable="100%"),
    "no-plain-password": objects.config_map("requirepass hunter2\nmaxmemory 1mb\n"),
    "default-user-closed": objects.config_map("user default on nopass ~* +@all\n"),
    "approved-storage-classes": objects.claim(),
    "protected": Resource(**{**vars(objects.claim()), "protect": False}),
}


def raw(rule: str, **pods: Any) -> list[Resource]:
    """A team's own Valkey without a label that says so, and what is wrong beside it."""
    claims = [{"name": "own", "persistentVolumeClaim": {"claimName": "data-cache-0"}}]
    volumes = [*objects.pod_spec()["volumes"], *claims]
    workload = objects.statefulset(spec=objects.pod_spec(volumes=volumes, **pods), volumeClaimTemplates=[])
    beside = [one for one in objects.everything() if one.is_kubernetes and one.kind != "StatefulSet"]
    if rule == "exposed-service":
        beside = [objects.config_map("port 6379\n") if one.kind == "ConfigMap" else one for one in beside]
    serving = [SERVING[rule] if one.kind == SERVING[rule].kind else one for one in beside]
    return [objects.plain_labels(one) for one in (workload, *serving)]


@pytest.mark.parametrize("rule", SERVING)
def test_what_serves_a_valkey_without_labels_is_judged(rule: str) -> None:
    params = {"classes": ["gold"]} if rule == "approved-storage-classes" else {}
    for resources in (raw(rule), raw(rule)[::-1]):
        assert [one.resource.kind for one in found(rule, Case(resources, params=params))] == [SERVING[rule].kind]


@pytest.mark.parametrize("rule", SERVING)
def test_what_serves_others_is_theirs(rule: str) -> None:
    """The same beside a Valkey that it doesn't select or mount, or of another namespace."""
    params = {"classes": ["gold"]} if rule == "approved-storage-classes" else {}
    workload, *beside = raw(rule)
    away = copy.deepcopy(dict(workload.props))
    away["metadata"]["namespace"] = "elsewhere"
    other = copy.deepcopy(dict(workload.props))
    other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    other["spec"]["template"]["spec"]["volumes"] = []
    for props in (away, other):
        resources = [Resource(workload.urn, workload.type, workload.name, props, protect=True), *beside]
        assert {one.resource.kind for one in found(rule, Case(resources, params=params))} <= {"StatefulSet"}


@pytest.mark.parametrize("rule", SERVING)
def test_what_may_serve_a_valkey_is_no_finding_while_that_is_unknown(rule: str) -> None:
    params = {"classes": ["gold"]} if rule == "approved-storage-classes" else {}
    resources = raw(rule)
    number = next(number for number, one in enumerate(resources) if one.kind == SERVING[rule].kind)
    by_name = SERVING[rule].kind in ("ConfigMap", "PersistentVolumeClaim")
    selector = "podSelector" if rule == "network-policy" else "selector"
    for path in (("metadata",), ("metadata", "namespace"), ("metadata", "name") if by_name else ("spec", selector)):
        there = [*resources[:number], objects.vague(resources[number], path), *resources[number + 1 :]]
        assert found(rule, Case(there, params=params)) == [], path


def test_the_environment_from_a_config_map_is_no_place_for_a_password() -> None:
    data = {"VALKEY_PASSWORD": "hunter2", "PASSWORD_FILE": "/x", "PASSWORD_SECRET": "s", "empty_password": ""}
    values = objects.resource("ConfigMap", "values", {"data": {**data, "my.password": "no entry"}})
    for field, entry in (
        ("envFrom", {"configMapRef": {"name": "values"}}),
        ("env", {"name": "P", "valueFrom": {"configMapKeyRef": {"name": "values", "key": "VALKEY_PASSWORD"}}}),
    ):
        workload = objects.statefulset(spec=objects.pod_spec(objects.container(**{field: [entry]})))
        resources = [objects.plain_labels(workload), objects.plain_labels(values)]
        told = [one.detail for one in found("no-plain-password", Case(resources))]
        assert told == ["VALKEY_PASSWORD holds a password in plain text"]


def test_a_service_without_a_selector_takes_no_pods() -> None:
    resources = [objects.statefulset(), objects.config_map("port 6379\n")]
    for selector in ({}, None):
        assert found("exposed-service", Case([*resources, objects.service("NodePort", selector=selector)])) == []


@pytest.mark.parametrize(
    "peer",
    [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}, {"namespaceSelector": {}}],
    ids=str,
)
def test_everybody_may_be_called_by_many_names(peer: dict[str, Any]) -> None:
    policy = objects.network_policy({"ports": [{"port": 16379.0}], "from": [{"podSelector": {"x": "y"}}, peer]})
    assert len(found("network-policy", Case([objects.statefulset(), policy]))) == 1


def test_a_deleted_claim_of_a_valkey_without_labels_is_told_of() -> None:
    workload, *beside = raw("protected")
    gone = [one for one in beside if one.kind == "PersistentVolumeClaim"]
    told = found("data-kept", Case([workload], before=[workload, *gone]))
    assert [one.resource.kind for one in told] == ["PersistentVolumeClaim"]


SERVERS = {
    "the project's": {"image": "valkey/valkey:9.1.2"},
    "with modules": {"image": "mirror.example:5000/x/valkey-bundle@sha256:" + "1" * 64},
    "a distributor's": {"image": "bitnami/valkey-cluster"},
    "a line's own": {"image": "quay.io/sclorg/valkey-8-c10s"},
    "by its command": {"image": "acme/cache:1", "command": ["/usr/bin/valkey-server", "/x.conf"]},
    "behind an init": {"image": "acme/cache:1", "command": ["tini", "--"], "args": ["valkey-sentinel", "/x.conf"]},
    "in a script": {"image": "acme/cache:1", "command": ["sh", "-c", "cp /a /b && exec valkey-server /b --port 1"]},
    "behind a wait for another": {
        "image": "valkey/valkey:9",
        "command": ["sh", "-c", "until valkey-cli -h x ping; do :; done; exec valkey-server /b"],
    },
    "in a longer script": {"image": "acme/cache:1", "command": ["sh", "-c", "set -e\nvalkey-server /b\n"]},
}
NO_SERVERS = {
    "an exporter": {"image": "example/valkey-exporter:latest"},
    "an operator": {"image": "example/valkey-operator:1", "args": ["--server", "valkey-server"]},
    "a tool": {"image": "valkey-admin"},
    "another's server": {"image": "redis:8"},
    "a backup by the server's image": {"image": "valkey/valkey:9", "command": ["valkey-cli", "--rdb", "/x"]},
    "a wait by it": {"image": "valkey/valkey:9", "command": ["sh", "-c", "until valkey-cli ping; do sleep 1; done"]},
    "a client": {
        "image": "alpine",
        "command": ["sh", "-c", "apk add valkey-server; until pgrep valkey-server; do :; done"],
    },
}


def _unlabelled_running(fields: dict[str, Any]) -> Resource:
    stated = {"command": None, **fields}
    return objects.plain_labels(objects.statefulset(spec=objects.pod_spec(objects.container("main", **stated))))


@pytest.mark.parametrize("which", SERVERS)
def test_what_runs_the_server_is_judged(which: str) -> None:
    assert len(found("disruption-budget", Case([_unlabelled_running(SERVERS[which])]))) == 1


@pytest.mark.parametrize("which", NO_SERVERS)
def test_what_is_only_called_after_it_is_not(which: str) -> None:
    workload = _unlabelled_running(NO_SERVERS[which])
    for rule in BY_NAME:
        assert found(rule, Case([workload])) == [], rule


def test_no_shape_of_an_object_breaks_a_rule() -> None:
    odds = itertools.cycle([None, [], {}, "x", 1.5, True, float("inf"), float("nan"), [None], [[]], {"a": [1]}])
    everything = [*objects.everything(), objects.topology({"s0": "0-16383"})]
    for number, one in [*enumerate(everything)] * 3:
        for path in objects.paths(one.props):
            spoilt = [*everything[:number], objects.spoilt(one, path, next(odds)), *everything[number + 1 :]]
            for rule in BY_NAME:
                found(rule, Case(spoilt, params={"maxSlots": 0}, before=everything))


def test_a_component_of_ours_is_ours_whatever_its_labels() -> None:
    urn = "urn:pulumi:prod::team::valkey:index:Cluster$kubernetes:apps/v1:StatefulSet::x"
    bare = Resource(urn, "kubernetes:apps/v1:StatefulSet", "x", {"spec": {"replicas": 1.0}})
    assert len(found("protected", Case([bare]))) == 1


def test_an_instance_is_told_of_once() -> None:
    shards = [objects.statefulset(f"cache-s{shard}") for shard in range(16)]
    assert len(found("disruption-budget", Case(shards))) == 1
