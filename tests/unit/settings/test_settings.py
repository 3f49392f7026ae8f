"""What good stack configs come to."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components import ClusterArgs, Connection, Persistence, Resources, SecretKey
from components.args import Amounts
from settings import Settings, parse

CHECKOUT = Path(__file__).parents[3]


def read(instances: Any, kubernetes: Any = None) -> Settings:
    values = {"valkey:instances": json.dumps(instances)}
    if kubernetes is not None:
        values["valkey:kubernetes"] = json.dumps(kubernetes)
    problems, settings = parse(values)
    assert problems == []
    assert settings is not None
    return settings


def test_what_holds_when_nothing_is_said() -> None:
    settings = read({"sessions": {}})
    assert settings.namespace == "valkey"
    assert settings.connection == Connection(context=None, kubeconfig=None, transport="portForward")
    assert settings.instances == {"sessions": ClusterArgs(connection=settings.connection)}
    args = settings.instances["sessions"]
    assert (args.shards, args.replicas, args.server_image) == (3, 1, "valkey/valkey:9.1.2")
    assert args.persistence is None
    assert args.auth.password_secret is None
    assert args.timeout_s == 600


def test_everything_that_can_be_said() -> None:
    settings = read(
        {
            "sessions": {
                "architecture": "cluster",
                "version": "8.1",
                "shards": 2,
                "allowFewShards": True,
                "replicas": 0,
                "slots": {"1": "0-99", "0": "100-16383"},
                "config": {
                    "maxmemory-policy": "allkeys-lru",
                    "hz": 20,
                    "activedefrag": True,
                    "save": ["900 1", "60 9"],
                },
                "persistence": {"size": "1Gi", "storageClassName": "fast", "reclaimPolicy": "Delete"},
                "resources": {"requests": {"cpu": 0.5, "memory": "64Mi"}, "limits": {"cpu": 2, "memory": 134217728}},
                "auth": {"passwordSecret": {"name": "mine", "key": "word"}},
                "timeoutSeconds": 60,
            }
        },
        {"context": "dev", "namespace": "data", "kubeconfig": "~/config", "transport": "direct"},
    )
    assert settings.connection == Connection("dev", str(Path.home() / "config"), "direct")
    assert settings.instances["sessions"] == ClusterArgs(
        version="8.1",
        shards=2,
        allow_few_shards=True,
        replicas=0,
        slots={0: "100-16383", 1: "0-99"},
        config={"maxmemory-policy": "allkeys-lru", "hz": "20", "activedefrag": "yes", "save": "900 1 60 9"},
        persistence=Persistence(size="1Gi", storage_class_name="fast", reclaim_policy="Delete"),
        resources=Resources(requests=Amounts(cpu="0.5", memory="64Mi"), limits=Amounts(cpu="2", memory="134217728")),
        auth={"password_secret": SecretKey(name="mine", key="word")},  # type: ignore[arg-type]
        timeout_s=60,
        namespace="data",
        connection=settings.connection,
    )


def test_a_kubeconfig_as_text_stays_as_it_is() -> None:
    text = "apiVersion: v1\nkind: Config\n"
    assert read({"a": {}}, {"kubeconfig": text}).connection.kubeconfig == text


@pytest.mark.parametrize(
    "config",
    [
        {"config": {"maxmemory": "100mb"}, "resources": {"limits": {"memory": "128Mi"}}},
        {"config": {"maxmemory": "0"}, "resources": {"requests": {"memory": "1Gi"}}},
        {"config": {"maxmemory-clients": "5%", "min-replicas-to-write": 1, "save": ""}},
        {"config": {"client-output-buffer-limit": ["normal 0 0 0", "replica 256mb 64mb 60"]}},
        {"config": {"appendonly": False}},
        {"config": {"list-max-listpack-size": -2, "notify-keyspace-events": "", "log-format": "JSON"}},
        {"config": {"lua-time-limit": 100}, "version": "9.1.2"},
        {"image": "registry.example:5000/team/valkey:9.1.2-alpine3.22"},
        {"image": "valkey/valkey@sha256:" + "0" * 64, "config": {"hash-seed": "x", "sanitize-dump-payload": "no"}},
        {"image": "valkey/valkey:unstable", "config": {"mptcp": True}},
        {"shards": 128, "replicas": 5},
        {"slots": {"0": "0-99,1000-16383", "1": "100-499", "2": "500-999"}},
        {"persistence": {"size": "1e9"}},
    ],
)
def test_is_accepted(config: dict[str, Any]) -> None:
    assert list(read({"a": config}).instances) == ["a"]


def test_instances_can_t_be_changed() -> None:
    args = read({"a": {}}).instances["a"]
    with pytest.raises(ValueError, match="frozen"):
        args.shards = 5  # type: ignore[misc]


@pytest.mark.parametrize("stack", sorted(path.name for path in (CHECKOUT / "stacks").glob("Pulumi.*.yaml")))
def test_the_stacks_of_the_checkout(stack: str) -> None:
    config: dict[str, Any] = yaml.safe_load((CHECKOUT / "stacks" / stack).read_text())["config"]
    problems, settings = parse({key: json.dumps(value) for key, value in config.items()})
    assert problems == []
    assert settings is not None
    args = settings.instances["sessions"]
    assert (args.shards, args.replicas) == (3, 2 if "prod" in stack else 1)


def test_the_project_declares_what_is_read() -> None:
    project = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())
    assert project["name"] == "valkey"
    assert project["stackConfigDir"] == "stacks"
    assert project["options"]["refresh"] == "always"
    # Without the option, a program runs in whichever environment is active.
    assert "virtualenv" not in project["runtime"]["options"]
    assert set(project["config"]) == {"valkey:kubernetes", "valkey:defaults", "valkey:instances"}
    for declared in project["config"].values():
        assert declared["type"] == "object"
        assert declared["description"]
        assert declared["default"] == {}


def test_roles_are_placed_one_by_one_or_all_at_once() -> None:
    named = read({"sessions": {"primaries": {"1": 1}, "restart": 7, "rollout": {"maxParallelShards": 2}}})
    args = named.instances["sessions"]
    assert args.primary_ordinals == {1: 1}
    assert (args.restart, args.rollout.max_parallel_shards) == ("7", 2)
    all_of_them = read({"sessions": {"preferOrdinalZero": True, "primaries": {"1": 1}}}).instances["sessions"]
    assert all_of_them.primary_ordinals == {0: 0, 1: 1, 2: 0}
    assert ClusterArgs().primary_ordinals == {}
    spread = read({"sessions": {"spreadPrimaries": True, "preferOrdinalZero": True, "primaries": {"1": 1}}})
    # That ordinal 0 is only preferred is for the spread to weigh.
    assert spread.instances["sessions"].primary_ordinals == {1: 1}
