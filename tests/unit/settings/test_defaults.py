"""What instances have in common is said once, and each may say otherwise."""

import json
from typing import Any

import pytest

from components.args import ClusterArgs
from components.overlay import laid_over
from settings import Settings, parse


def parsed(defaults: Any, instances: Any, secret: frozenset[str] = frozenset()) -> tuple[list[str], Settings | None]:
    values = {"valkey:defaults": json.dumps(defaults), "valkey:instances": json.dumps(instances)}
    return parse(values, secret)


def read(defaults: Any, **instances: Any) -> dict[str, ClusterArgs]:
    problems, settings = parsed(defaults, instances)
    assert problems == []
    assert settings is not None
    return dict(settings.instances)


def test_what_an_instance_does_not_say_the_defaults_do() -> None:
    defaults = {
        "replicas": 2,
        "config": {"hz": 20, "maxmemory-policy": "allkeys-lru"},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "persistence": {"size": "1Gi"},
    }
    seen = read(
        defaults,
        plain={},
        other={"replicas": 1, "config": {"hz": 50}, "resources": {"requests": {"cpu": "2"}}, "persistence": None},
    )
    assert seen["plain"].replicas == 2
    assert dict(seen["plain"].config) == {"hz": "20", "maxmemory-policy": "allkeys-lru"}
    assert seen["plain"].persistence is not None
    other = seen["other"]
    assert (other.replicas, dict(other.config)) == (1, {"hz": "50", "maxmemory-policy": "allkeys-lru"})
    assert (other.resources.requests.cpu, other.resources.requests.memory) == ("2", "1Gi")
    assert other.persistence is None


def test_an_instance_alone_is_as_without_defaults() -> None:
    own = {"shards": 5, "config": {"hz": 20}}
    problems, settings = parse({"valkey:instances": json.dumps({"a": own})})
    assert problems == []
    assert settings is not None
    assert read({}, a=own) == settings.instances


@pytest.mark.parametrize(
    ("defaults", "own", "image"),
    [
        ({"version": "8.1"}, {}, "valkey/valkey:8.1.8"),
        ({"version": "8.1"}, {"image": "mirror.example/valkey:9.1.2"}, "mirror.example/valkey:9.1.2"),
        ({"image": "mirror.example/valkey:9.1.2"}, {"version": "8.1"}, "valkey/valkey:8.1.8"),
    ],
)
def test_image_and_version_take_each_others_place(defaults: dict[str, Any], own: dict[str, Any], image: str) -> None:
    assert read(defaults, a=own)["a"].server_image == image


def test_null_takes_a_default_away_at_any_depth() -> None:
    assert laid_over({"config": {"hz": 20, "save": ""}, "replicas": 2}, {"config": {"hz": None}, "replicas": None}) == {
        "config": {"save": ""}
    }
    # Where there is no default, it is what the instance says, for its validator to judge.
    assert laid_over({}, {"config": None}) == {"config": None}


def test_a_wrong_default_is_told_once_and_where_it_stands() -> None:
    problems, settings = parsed(
        {"shards": 0, "replicsa": 1},
        {"a": {}, "b": {"replicas": 9}},
    )
    assert settings is None
    assert problems == [
        "valkey:defaults.replicsa = 1: unknown key, did you mean replicas?",
        "valkey:defaults.shards = 0: a cluster has 3 to 128 shards",
        "valkey:instances.b.replicas = 9: a shard has 0 to 5 replicas",
    ]
    problems, _ = parsed(
        {"config": {"hz": "often"}}, {"a": {}, "b": {"config": {"io-threads": 2}}, "c": {"config": {"hz": 1}}}
    )
    assert problems == ['valkey:defaults.config.hz = "often": must be a whole number']


def test_what_only_both_together_make_wrong_is_told_where_the_instance_says_it() -> None:
    problems, _ = parsed({"resources": {"limits": {"memory": "64Mi"}}}, {"a": {"config": {"maxmemory": "100mb"}}})
    assert len(problems) == 1
    assert problems[0].startswith('valkey:instances.a.config.maxmemory = "100mb": must be below the memory limit')


@pytest.mark.parametrize(
    ("defaults", "line"),
    [
        ("few", 'valkey:defaults = "few": must be a mapping'),
        ([1], "valkey:defaults = […]: must be a mapping"),
        ({"slots": {"0": "0-16383"}}, "valkey:defaults.slots = {…}: a layout belongs to one instance; write it there"),
    ],
)
def test_what_can_t_be_a_default(defaults: Any, line: str) -> None:
    assert line in parsed(defaults, {"a": {}})[0]


def test_no_value_of_secret_defaults_is_shown() -> None:
    problems, _ = parsed({"image": "s3cret image"}, {"a": {}}, frozenset({"valkey:defaults"}))
    assert problems == ["valkey:defaults.image = (hidden): not an image reference; written like valkey/valkey:9.1.2"]


def test_protected_instances_are_told() -> None:
    problems, settings = parsed({"protect": True}, {"a": {}, "b": {"protect": False}})
    assert problems == []
    assert settings is not None
    assert settings.protected == {"a"}
