"""From nothing to Ready by one `up`, and what must be true of the cluster that it made."""

import json
import re

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, Object
from tests.e2e.harness.leaks import leaks, secret_of
from tests.e2e.harness.rest import at_rest
from tests.e2e.harness.sandbox import INSTANCE

pytestmark = pytest.mark.xdist_group("first_up")

PODS = [f"{INSTANCE}-s{shard}-{ordinal}" for shard in range(3) for ordinal in range(2)]


def test_up_returns_when_every_node_is_ready(formed: Formed) -> None:
    # Asked at the moment when `up` returned, not some seconds later.
    assert probe.faults(formed.nodes, INSTANCE, shards=3, replicas=1) == []
    assert probe.spread(formed.nodes) == [5461, 5461, 5462]


def test_slots_are_contiguous_and_in_the_order_of_the_shards(formed: Formed) -> None:
    layout = probe.layout(formed.nodes)
    assert layout == {0: frozenset(range(5461)), 1: frozenset(range(5461, 10922)), 2: frozenset(range(10922, 16384))}


def test_a_cluster_client_inside_writes_and_reads(formed: Formed) -> None:
    written = formed.client.write(INSTANCE, 2000)
    assert len(written) == 2000
    assert formed.client.lost(INSTANCE, written) == []
    assert formed.client.count(INSTANCE) == 2000


def test_outputs_tell_where_and_what(formed: Formed) -> None:
    output = formed.stack.outputs()[INSTANCE]
    assert output["phase"] == "Ready"
    assert output["primaries"] == {f"s{shard}": probe.primary_of(formed.nodes, shard).pod for shard in range(3)}
    layout = probe.layout(formed.nodes)
    assert output["layout"] == {f"s{shard}": f"{min(layout[shard])}-{max(layout[shard])}" for shard in range(3)}
    assert output["serverVersion"] == formed.nodes[PODS[0]].server["valkey_version"]
    told = json.dumps(output["endpoints"])
    assert f"{INSTANCE}.{formed.namespace}.svc" in told
    assert "6379" in told
    assert {condition["type"]: condition["status"] for condition in output["conditions"]}["Ready"] == "True"


def test_second_up_changes_nothing(formed: Formed, kube: Kube) -> None:
    before = at_rest(kube, formed.namespace)
    again = formed.stack.up("--expect-no-changes")
    assert again.changes() == {}
    after = kube.snapshot(formed.namespace)
    # Heartbeats of the Lease and the times in the status are no change of the instance.
    volatile = {f"leases/{INSTANCE}", f"configmaps/{INSTANCE}-status"}
    assert {name for name in before if before[name] != after.get(name)} <= volatile
    assert set(after) - set(before) <= volatile


def test_preview_without_change_says_so(formed: Formed) -> None:
    assert formed.stack.run("preview", "--expect-no-changes").changes() == {}


def test_refresh_finds_no_drift(formed: Formed) -> None:
    formed.stack.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")


def test_no_secret_is_readable_outside_its_secret(formed: Formed, kube: Kube) -> None:
    output = formed.stack.outputs()[INSTANCE]
    password = secret_of(kube, formed.namespace, output["secretName"], output.get("secretKey", "password"))
    assert len(password) >= 16
    # The loudest log that pulumi has, with everything that passes between it and the providers.
    formed.stack.run("preview", "-v=11", "--logtostderr")
    formed.stack.run("preview", "--diff")
    assert leaks(kube, formed.stack, formed.namespace, [password]) == []


def test_pods_meet_the_restricted_standard(formed: Formed, kube: Kube) -> None:
    namespace = kube.namespace(formed.namespace)
    assert namespace is not None
    # The standard is enforced at admission, so that the Pods are there proves that they meet it.
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert sorted(formed.nodes) == PODS


@pytest.mark.parametrize("path", ["/", "/etc", "/etc/valkey", "/usr/local/bin", "/var"])
def test_root_file_system_is_read_only(formed: Formed, kube: Kube, path: str) -> None:
    done = kube.execute(formed.namespace, PODS[0], ["sh", "-c", f"echo x > {path}/written"])
    assert done.code != 0
    assert "Read-only file system" in done.err


def test_server_runs_as_an_ordinary_user_and_without_the_api(formed: Formed, kube: Kube) -> None:
    done = kube.execute(
        formed.namespace, PODS[0], ["sh", "-c", "id -u; grep CapEff /proc/1/status; ls /var/run/secrets 2>&1"]
    )
    user, capabilities, rest = done.out.split("\n", 2)
    assert int(user) > 0
    assert re.fullmatch(r"CapEff:\s+0+", capabilities)
    assert "kubernetes.io" not in rest


def test_bus_port_is_open_only_within_the_instance(formed: Formed, kube: Kube) -> None:
    target = formed.nodes[PODS[3]].ip
    assert formed.client.connects(target, 6379)
    assert not formed.client.connects(target, 16379)
    # From a member the same port answers, by hanging up on what is no bus message: the policy closes it, not silence.
    peer = kube.execute(formed.namespace, PODS[0], ["timeout", "5", "valkey-cli", "-h", target, "-p", "16379", "PING"])
    assert "closed the connection" in peer.out + peer.err


def test_every_object_says_whose_it_is(formed: Formed, kube: Kube) -> None:
    expected = f"organization/valkey/{formed.stack.name}/{INSTANCE}"
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
    )
    seen: dict[str, int] = {}
    for kind in kinds:
        for item in kube.items(kind, formed.namespace, f"app.kubernetes.io/instance={INSTANCE}"):
            metadata = item["metadata"]
            assert metadata["annotations"]["valkeyctl/owner"] == expected, f"{kind} {metadata['name']}"
            assert metadata["labels"]["app.kubernetes.io/name"] == "valkey"
            assert metadata["labels"]["app.kubernetes.io/managed-by"] == "pulumi"
            seen[kind] = seen.get(kind, 0) + 1
    assert seen["statefulsets"] == 3
    assert set(seen) == set(kinds)


def test_pods_carry_shard_and_ordinal(formed: Formed, kube: Kube) -> None:
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in _pods(kube, formed)}
    for name in PODS:
        shard, ordinal = re.fullmatch(rf"{INSTANCE}-s(\d)-(\d)", name).groups()  # type: ignore[union-attr]
        assert labels[name]["valkeyctl/shard"] == shard
        assert labels[name]["apps.kubernetes.io/pod-index"] == ordinal


def test_status_and_events_tell_what_was_done(formed: Formed, kube: Kube) -> None:
    status = kube.get("configmaps", formed.namespace, f"{INSTANCE}-status")
    assert status is not None
    assert status["data"]["phase"] == "Ready"
    assert json.loads(status["data"]["primaries"]) == formed.stack.outputs()[INSTANCE]["primaries"]
    conditions = {item["type"]: item["status"] for item in json.loads(status["data"]["conditions"])}
    assert conditions["Ready"] == "True"
    events = [
        event
        for event in kube.items("events", formed.namespace)
        if event["involvedObject"]["kind"] == "StatefulSet" and event["source"].get("component") == "valkeyctl"
    ]
    assert events, "no Event of ours on any StatefulSet"
    assert any("Ready" in event["reason"] or "Ready" in event["message"] for event in events)


def test_status_command_shows_the_instance(formed: Formed) -> None:
    shown = formed.stack.valkeyctl("status")
    line = next(line for line in shown.splitlines() if f"{formed.namespace}/{INSTANCE}" in line)
    assert "Ready" in line
    one = json.loads(formed.stack.valkeyctl("status", "--namespace", formed.namespace, "--json"))
    assert [(entry["instance"], entry["phase"]) for entry in one] == [(INSTANCE, "Ready")]
    assert sorted(member["pod"] for member in one[0]["members"]) == PODS


def _pods(kube: Kube, formed: Formed) -> list[Object]:
    return kube.items("pods", formed.namespace, f"app.kubernetes.io/instance={INSTANCE}")
