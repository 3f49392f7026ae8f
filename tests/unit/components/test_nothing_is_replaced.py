"""Changing one setting replaces nothing: each object, each setting, also under a provider of the program's own."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components import ClusterArgs, Connection, ValkeyCluster
from tests.unit.components.recording import Program, Registered, record
from valkeyctl.lifecycle.bundle import Bundle

# What makes Pulumi's Kubernetes provider replace an object of a kind (its source: provider/diff.go), beside name and
# namespace. A ConfigMap's data does so unless the provider is told otherwise.
REPLACING = {
    "StatefulSet": (
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
        "spec.selector",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    "Service": ("spec.clusterIP",),
    "PersistentVolumeClaim": ("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    "ConfigMap": ("data", "binaryData", "immutable"),
    "PodDisruptionBudget": (),
    "NetworkPolicy": (),
    "ServiceAccount": (),
    "Role": (),
    "RoleBinding": ("roleRef",),
}
# All that the API server lets anybody change of a StatefulSet.
CHANGEABLE = {"replicas", "template", "updateStrategy", "minReadySeconds", "ordinals"}
# What our own resources are found by; a change of anything else is an update.
IDENTITY = ("namespace", "instance", "shard", "secret_name", "config_map", "key")

BASE: dict[str, Any] = {"persistence": {"size": "1Gi"}}
CHANGES: dict[str, dict[str, Any]] = {
    "image": {"image": "valkey/valkey:9.1.1"},
    "version": {"version": "8.1"},
    "shards": {"shards": 5},
    "allowFewShards": {"allowFewShards": True},
    "replicas": {"replicas": 3},
    "no replicas": {"replicas": 0},
    "slots": {"slots": {"0": "0-99", "1": "100-199", "2": "200-16383"}},
    "config": {"config": {"maxmemory-policy": "allkeys-lru", "cluster-node-timeout": 9000}},
    "persistence.size": {"persistence": {"size": "2Gi"}},
    "persistence.storageClassName": {"persistence": {"size": "1Gi", "storageClassName": "fast"}},
    "persistence.reclaimPolicy": {"persistence": {"size": "1Gi", "reclaimPolicy": "Delete"}},
    "resources": {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}},
    "no resources": {"resources": {}},
    "auth": {"auth": {"passwordSecret": {"name": "mine"}}},
    "agent.image": {"agent": {"image": "python:3.12"}},
    "agent.resources": {"agent": {"resources": {"limits": {"memory": "128Mi"}}}},
    "agent.log": {"agent": {"log": "json"}},
    "timeoutSeconds": {"timeoutSeconds": 60},
    "restart": {"restart": "now"},
    "rollout": {"rollout": {"maxParallelShards": 2}},
    "primaries": {"primaries": {"0": 1}},
    "preferOrdinalZero": {"preferOrdinalZero": True},
    "paused": {"paused": True},
    "spreadPrimaries": {"spreadPrimaries": True},
}
WAYS: dict[str, Connection] = {
    "context": Connection(context="other"),
    "kubeconfig": Connection(context="prod", kubeconfig="apiVersion: v1\n"),
    "no context": Connection(),
    "transport": Connection(context="prod", transport="direct"),
}


@cache
def base(*, own: bool) -> Program:
    return program({}, own=own)


def program(args: dict[str, Any], connection: Connection | None = None, *, own: bool) -> Program:
    def run() -> dict[str, pulumi.Output[Any]]:
        # As most programs make one: it says nothing of ConfigMaps.
        opts = pulumi.ResourceOptions(provider=kubernetes.Provider("mine", context="prod")) if own else None
        settings = ClusterArgs.model_validate(BASE | args)
        way = connection or (None if own else Connection(context="prod"))
        return dict(ValkeyCluster("sessions", settings.model_copy(update={"connection": way}), opts).summary)

    return record(run)


@pytest.mark.parametrize("own", [False, True], ids=["our provider", "a provider of the program's own"])
@pytest.mark.parametrize("setting", CHANGES)
def test_setting(setting: str, own: bool) -> None:  # noqa: FBT001
    before, after = base(own=own), program(CHANGES[setting], own=own)
    assert list(replaced(before, after)) == []
    gone = {resource.label for resource in before} - {resource.label for resource in after}
    expected: set[str] = set()
    if setting == "auth":
        expected = {"Password sessions-auth"}
    if setting == "no replicas":
        expected = {f"PersistentVolumeClaim data-sessions-s{shard}-1" for shard in range(3)}
    assert gone == expected


@pytest.mark.parametrize("own", [False, True], ids=["our provider", "a provider of the program's own"])
def test_a_new_version_of_the_agent(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    before = base(own=own)
    monkeypatch.setattr("components.cluster.agent_bundle", lambda: Bundle(b"another", {}))
    after = program({}, own=own)
    assert list(replaced(before, after)) == []
    changed = {one.label for one in after if one.inputs != before[one.label].inputs}
    # Code, the Pods' template, and the topology that is told that Pods are outdated: nothing else.
    assert changed == {"AgentCode sessions-agent", "Topology sessions"} | {
        f"StatefulSet sessions-s{n}" for n in range(3)
    }


@pytest.mark.parametrize("own", [False, True], ids=["our provider", "a provider of the program's own"])
def test_objects_of_a_version_that_did_not_put_back(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    with monkeypatch.context() as former:
        former.setattr("components.labels.PUT_BACK", {})
        before = program({}, own=own)
    after = base(own=own)
    assert list(replaced(before, after)) == []
    for new in after:
        # The annotations of Kubernetes objects, and nothing else: no Pod is rolled, the topology is told of nothing.
        old = before[new.label].inputs
        changed = [key for key in new.inputs if new.inputs[key] != old[key]]
        assert changed == (["metadata"] if new.type.startswith("kubernetes:") else []), new.label


@pytest.mark.parametrize("own", [False, True], ids=["our provider", "a provider of the program's own"])
@pytest.mark.parametrize("way", WAYS)
def test_way_to_kubernetes(way: str, own: bool) -> None:  # noqa: FBT001
    before, after = base(own=own), program({}, WAYS[way], own=own)
    assert list(replaced(before, after)) == []
    assert {resource.label for resource in before} == {resource.label for resource in after}


def test_it_does_find_what_would_be_replaced() -> None:
    # A test that never fails shows nothing: the same comparison of two instances that differ in what is fixed.
    def run(provider: kubernetes.Provider | None, policy: str, data: str) -> Program:
        def inside() -> None:
            opts = pulumi.ResourceOptions(provider=provider or kubernetes.Provider("plain"))
            metadata: dict[str, Any] = {"name": "x", "namespace": "y"}
            spec: Any = {"podManagementPolicy": policy, "selector": {"matchLabels": {}}, "template": {}}
            kubernetes.apps.v1.StatefulSet("x", metadata=metadata, spec=spec, opts=opts)
            kubernetes.core.v1.ConfigMap("x", metadata=metadata, data={"a": data}, opts=opts)

        return record(inside)

    found = list(replaced(run(None, "Parallel", "1"), run(None, "OrderedReady", "2")))
    assert found == ["StatefulSet x: spec.podManagementPolicy", "ConfigMap x: data"]


def replaced(before: Program, after: Program) -> Iterator[str]:
    """What Pulumi would replace to come from one program to the other, and why."""
    known = {resource.label: resource for resource in before}
    for new in after:
        old = known.get(new.label)
        if old is not None:
            yield from (f"{new.label}: {path}" for path in _reasons(before, after, old, new))


def _reasons(before: Program, after: Program, old: Registered, new: Registered) -> Iterator[str]:
    if (old.type, old.parent, old.provider) != (new.type, new.parent, new.provider):
        yield "another resource in the state"
    if new.kind == "Provider":
        # One that names its cluster is replaced for nothing else.
        fixed = ("clusterIdentifier",) if "clusterIdentifier" in new.inputs else ("context", "kubeconfig", "cluster")
        yield from (key for key in fixed if old.inputs.get(key) != new.inputs.get(key))
    elif new.kind in REPLACING:
        paths = ["metadata.name", "metadata.namespace", *REPLACING[new.kind]]
        if new.kind == "ConfigMap" and _mutable(before, old) and _mutable(after, new):
            paths = [path for path in paths if path not in ("data", "binaryData")]
        paths = [path for path in paths if path not in new.ignore_changes]
        yield from (path for path in paths if _at(old.inputs, path) != _at(new.inputs, path))
        if new.kind == "StatefulSet":
            yield from _forbidden(old, new)
    elif new.type.startswith("pulumi-python:dynamic"):
        yield from (key for key in IDENTITY if _fixed(new, key) and old.inputs.get(key) != new.inputs.get(key))


def _forbidden(old: Registered, new: Registered) -> Iterator[str]:
    ignored = {path.removeprefix("spec.") for path in new.ignore_changes}
    replacing = {path.removeprefix("spec.") for path in REPLACING["StatefulSet"]}
    for key in set(old.inputs["spec"]) | set(new.inputs["spec"]):
        if key not in CHANGEABLE | ignored | replacing and old.inputs["spec"].get(key) != new.inputs["spec"].get(key):
            yield f"spec.{key}, which the API server refuses"


def _fixed(resource: Registered, key: str) -> bool:
    return key in resource.inputs


def _mutable(program: Program, config_map: Registered) -> bool:
    return program[config_map.provider].inputs.get("enableConfigMapMutable") == "true"


def _at(inputs: dict[str, Any], path: str) -> Any:
    value: Any = inputs
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
