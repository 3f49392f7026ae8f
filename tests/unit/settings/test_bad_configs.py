"""Every mistake in the table is told, word for word, and nothing else is; and what else can be wrong around it."""

import json
from typing import Any

import pytest

from settings import ALREADY_TOLD, load, parse
from tests.unit.settings.bad_configs import BAD

PATH = "valkey:instances.sessions"
NAME = "an instance's name is a DNS label: small letters, digits and hyphens, a letter first, no hyphen last"
LONG = (
    "an instance's name has at most 47 characters, this one has 48 "
    "(its StatefulSets are called <instance>-s<n>, with at most 52)"
)
SPACE = "a namespace's name is a DNS label: small letters, digits and hyphens, at most 63"
ALIKE = "its name and that of {} are too much alike: both have or can grow to have {}"


def told(instances: Any, kubernetes: Any = None, *, secret: frozenset[str] = frozenset(), **others: str) -> list[str]:
    values = {"valkey:instances": json.dumps(instances), "valkey:kubernetes": json.dumps(kubernetes or {}), **others}
    problems, settings = parse(values, secret)
    assert (settings is None) == bool(problems)
    return problems


def test_the_table_is_long_enough() -> None:
    assert len(BAD) >= 60


@pytest.mark.parametrize("mistake", BAD)
def test_instance(mistake: str) -> None:
    bad = BAD[mistake]
    assert told({"sessions": bad.instance}) == [PATH + line for line in bad.lines]


@pytest.mark.parametrize("mistake", BAD)
def test_no_password_is_ever_shown(mistake: str) -> None:
    assert "hunter2" not in "\n".join(told({"sessions": BAD[mistake].instance}))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Sessions", NAME),
        ("9lives", NAME),
        ("my_cache", NAME),
        ("cache-", NAME),
        (
            "a" * 48,
            LONG,
        ),
    ],
)
def test_instance_name(name: str, reason: str) -> None:
    assert told({name: {}}) == [f'valkey:instances.{name} = "{name}": {reason}']


def test_longest_name() -> None:
    assert told({"a" * 47: {"shards": 128}}) == []


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ("a", "a-s0", "a-s0"),
        ("a", "a-s127", "a-s127"),
        ("a", "a-headless", "a-headless"),
        ("a", "a-config", "a-config"),
        ("a", "a-auth", "a-auth"),
        ("a", "a-status", "a-status"),
    ],
)
def test_names_that_collide(one: str, other: str, name: str) -> None:
    line = f'valkey:instances.{other} = "{other}": {ALIKE.format(one, name)}'
    assert told({one: {}, other: {}}) == [line]
    # In whichever order they stand.
    assert told({other: {}, one: {}}) == [line]


@pytest.mark.parametrize("other", ["a-s128", "a-s00", "as0", "a-s", "b"])
def test_names_that_do_not_collide(other: str) -> None:
    assert told({"a": {}, other: {}}) == []


@pytest.mark.parametrize(
    ("kubernetes", "line"),
    [
        ({"contxt": "x"}, '.contxt = "x": unknown key, did you mean context?'),
        ({"context": " "}, '.context = " ": must not be empty'),
        ({"context": 3}, ".context = 3: must be text"),
        (
            {"namespace": "My_Space"},
            f'.namespace = "My_Space": {SPACE}',
        ),
        (
            {"namespace": "a" * 64},
            '.namespace = "' + "a" * 58 + f"…: {SPACE}",
        ),
        ({"transport": "tunnel"}, '.transport = "tunnel": must be portForward or direct'),
        ({"kubeconfig": 1}, ".kubeconfig = (hidden): must be text"),
        ("dev", ' = "dev": must be a mapping'),
    ],
)
def test_kubernetes(kubernetes: Any, line: str) -> None:
    assert told({"a": {}}, kubernetes) == [f"valkey:kubernetes{line}"]


def test_all_problems_at_once_in_the_order_of_their_paths() -> None:
    problems = told({"b": {"shards": 0}, "a": {"slots": {"10": "x", "2": "y", "0": "0-1"}}}, {"spacename": "x"})
    assert [problem.split(" ")[0] for problem in problems] == [
        "valkey:instances.a.slots.2",
        "valkey:instances.a.slots.10",
        "valkey:instances.b.shards",
        "valkey:kubernetes.spacename",
    ]


@pytest.mark.parametrize("instances", [{}, None, ""])
def test_no_instance(instances: Any) -> None:
    lines = told(instances)
    assert lines == [
        "valkey:instances: no instance is declared; try `pulumi config set --path valkey:instances.sessions.shards 3`"
    ]


def test_nothing_at_all() -> None:
    assert parse({})[0] == told({})


def test_instances_that_are_no_mapping() -> None:
    problems, _ = parse({"valkey:instances": "sessions"})
    assert problems == ['valkey:instances = "sessions": must be a mapping']


def test_keys_around_ours() -> None:
    problems = told(
        {"a": {}},
        **{"valkey:instance": "{}", "kubernetes:context": "dev", "kubernetes:foo": "bar", "aws:region": "eu-central-1"},
    )
    assert problems == [
        "kubernetes:context: has no effect here; write valkey:kubernetes.context",
        "kubernetes:foo: has no effect here; remove it",
        "valkey:instance: unknown key, did you mean instances?",
    ]


def test_no_value_of_a_secret_key_is_shown() -> None:
    lines = told({"a": {"shards": 0, "image": "s3cret image"}}, secret=frozenset({"valkey:instances"}))
    assert lines == [
        "valkey:instances.a.image = (hidden): not an image reference; written like valkey/valkey:9.1.2",
        "valkey:instances.a.shards = (hidden): a cluster has 3 to 128 shards",
    ]


def test_the_program_ends_without_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("pulumi.log.error", said.append)
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({"valkey:instances": '{"a": {"shards": 0, "replicas": 9}}'}))
    with pytest.raises(SystemExit) as ended:
        load()
    assert ended.value.code == ALREADY_TOLD
    assert "\n".join(said).splitlines() == [
        "the stack config has 2 errors:",
        "  valkey:instances.a.replicas = 9: a shard has 0 to 5 replicas",
        "  valkey:instances.a.shards = 0: a cluster has 3 to 128 shards",
    ]


def test_an_instance_may_be_called_like_a_secret() -> None:
    assert told({"auth-tokens": {"shards": 0}}) == [
        "valkey:instances.auth-tokens.shards = 0: a cluster has 3 to 128 shards"
    ]
    assert told({"password": "hunter2"}) == ["valkey:instances.password = (hidden): must be a mapping"]
