"""From nothing to Ready by one `up`, for both architectures of one dataset, and what must be true of what it made."""

import json
import re

import pytest

from tests.e2e.harness.client import service
from tests.e2e.harness.dataset import RO, RW, Dataset
from tests.e2e.harness.kube import eventually
from tests.e2e.harness.leaks import leaks, secret_of
from tests.e2e.harness.rest import at_rest
from tests.e2e.harness.sandbox import INSTANCE

PODS = [f"{INSTANCE}-s0-{ordinal}" for ordinal in range(3)]


def test_up_returns_when_all_of_it_is_ready(dataset: Dataset) -> None:
    # What the probe says is what is so a second after `up` has returned.
    seen = dataset.ready()
    output = dataset.stack.outputs()[INSTANCE]
    assert output["phase"] == "Ready"
    assert output["primary"] == seen.primary.pod == PODS[0]
    assert output["serverVersion"] == seen.primary.version
    conditions = {condition["type"]: condition["status"] for condition in output["conditions"]}
    assert conditions["Ready"] == conditions["OnePrimary"] == conditions["ReplicasInSync"] == "True"
    assert output["endpoints"]["uri"] == f"valkey://{RW}.{dataset.namespace}.svc:6379"
    assert output["endpoints"]["replicas"] == f"valkey://{RO}.{dataset.namespace}.svc:6379"
    hosts = output["endpoints"].get("sentinels", [])
    assert len(hosts) == dataset.sentinels
    assert output["endpoints"].get("primaryName") == (f"{dataset.namespace}.{INSTANCE}" if hosts else None)


def test_clients_write_through_rw_and_read_through_ro(dataset: Dataset) -> None:
    client = dataset.client
    for number, way in enumerate(dataset.ways):
        written = client.write(way, 500, first=1000 * number)
        assert len(written) == 500
        eventually("the replicas have it", lambda numbers=written: not client.lost(service(RO), numbers), timeout_s=30)
    assert client.count(service(RW)) == 500 * len(dataset.ways)
    with pytest.raises(AssertionError, match="ReadOnly"):
        client.write(service(RO), 1, first=99_999)


def test_nothing_is_left_to_do(dataset: Dataset) -> None:
    kube, namespace = dataset.kube, dataset.namespace
    dataset.healed()  # with the labels, which follow
    before = at_rest(kube, namespace)
    assert dataset.stack.up("--expect-no-changes").changes() == {}
    after = kube.snapshot(namespace)
    # Heartbeats of the Leases and the times in the status are no change of the instance.
    volatile = {f"leases/{INSTANCE}", f"leases/{INSTANCE}-primary", f"configmaps/{INSTANCE}-status"}
    assert {name for name in before if before[name] != after.get(name)} <= volatile
    assert set(after) - set(before) <= volatile
    assert dataset.stack.run("preview", "--expect-no-changes").changes() == {}
    dataset.stack.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")


def test_status_and_events_tell_what_is(dataset: Dataset) -> None:
    stack, namespace = dataset.stack, dataset.namespace
    line = next(line for line in stack.valkeyctl("status").splitlines() if f"{namespace}/{INSTANCE}" in line)
    assert "Ready" in line
    (one,) = json.loads(stack.valkeyctl("status", "--namespace", namespace, "--exit-code", "--json"))
    assert (one["instance"], one["phase"], one["problem"]) == (INSTANCE, "Ready", "")
    assert sorted(member["pod"] for member in one["members"]) == PODS
    status = dataset.kube.get("configmaps", namespace, f"{INSTANCE}-status")
    assert status is not None
    assert status["data"]["phase"] == "Ready"
    told = [event for event in dataset.kube.items("events", namespace) if event["reason"] == "Ready"]
    assert [event["involvedObject"]["kind"] for event in told] == ["StatefulSet"]


def test_every_object_says_whose_it_is(dataset: Dataset) -> None:
    expected = f"organization/valkey/{dataset.stack.name}/{INSTANCE}"
    kinds = (
        "statefulsets",
        "services",
        "configmaps",
        "secrets",
        "poddisruptionbudgets",
        "networkpolicies",
        "serviceaccounts",
        "roles",
        "rolebindings",
        "leases",
    )
    found: dict[str, list[str]] = {}
    for kind in kinds:
        for item in dataset.kube.items(kind, dataset.namespace, "app.kubernetes.io/managed-by=pulumi"):
            metadata = item["metadata"]
            assert metadata["annotations"]["valkeyctl/owner"] == expected, f"{kind} {metadata['name']}"
            found.setdefault(kind, []).append(metadata["name"])
    assert set(found) == set(kinds)
    assert {INSTANCE, RW, RO, f"{INSTANCE}-headless"} <= set(found["services"])
    for pod in dataset.kube.items("pods", dataset.namespace, f"app.kubernetes.io/instance={INSTANCE}"):
        name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
        whose = "valkey-sentinel" if "-sentinel-" in name else "valkey"
        assert labels["app.kubernetes.io/name"] == whose, name
        assert re.fullmatch(r"[0-4]", labels["apps.kubernetes.io/pod-index"])


def test_no_secret_is_readable_outside_its_secret(dataset: Dataset) -> None:
    stack, kube, namespace = dataset.stack, dataset.kube, dataset.namespace
    output = stack.outputs()[INSTANCE]
    secrets = [secret_of(kube, namespace, output["secretName"], output["secretKey"])]
    if dataset.sentinels:
        secrets += [secret_of(kube, namespace, output["sentinelSecretName"], key) for key in ("password", "operator")]
    assert all(len(secret) >= 16 for secret in secrets)
    # The loudest log that pulumi has, with everything that passes between it and the providers.
    stack.run("preview", "-v=11", "--logtostderr")
    stack.run("preview", "--diff")
    assert leaks(kube, stack, namespace, secrets) == []
