"""Each rule finds its fault, is silent on the good case, and says nothing of what it can't know."""

import itertools
import re
from collections.abc import Sequence

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


def test_a_component_of_ours_is_ours_whatever_its_labels() -> None:
    urn = "urn:pulumi:prod::team::valkey:index:Cluster$kubernetes:apps/v1:StatefulSet::x"
    bare = Resource(urn, "kubernetes:apps/v1:StatefulSet", "x", {"spec": {"replicas": 1.0}})
    assert len(found("protected", Case([bare]))) == 1


def test_an_instance_is_told_of_once() -> None:
    shards = [objects.statefulset(f"cache-s{shard}") for shard in range(16)]
    assert len(found("disruption-budget", Case(shards))) == 1
