"""Between two runs of pulumi the agents keep an instance as declared: nobody runs `up` here after the first time."""

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Formed
from tests.e2e.harness import probe
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.harness.sandbox import INSTANCE, Sandbox, small

pytestmark = pytest.mark.xdist_group("agent_heals")

LEASE_KIND, ROLE = "leases", "valkeyctl/role"


#: Within moments on an idle machine, as `bench/` measures; here others work beside it.
HEALED_S = 90.0


def by_itself(kube: Kube, namespace: str) -> dict[str, probe.Node]:
    """The nodes, once they are Ready without anybody's help."""
    return probe.eventually_ready(kube, namespace, INSTANCE, timeout_s=HEALED_S)


def deleted(kube: Kube, namespace: str, nodes: dict[str, probe.Node], grace_s: int | None) -> dict[str, str]:
    """Delete all these Pods at once, and return once each has been replaced; their new uids."""
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kube.items("pods", namespace)}
    for pod in nodes:
        kube.delete("pods", namespace, pod, grace_s=grace_s)

    def replaced() -> dict[str, str] | None:
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kube.items("pods", namespace)}
        return now if all(now.get(pod, before[pod]) != before[pod] for pod in nodes) else None

    return eventually("the Pods are replaced", replaced, timeout_s=60, pause_s=0.1)


def phase(kube: Kube, namespace: str) -> dict[str, str]:
    """What the status ConfigMap says."""
    return (kube.get("configmaps", namespace, f"{INSTANCE}-status") or {}).get("data") or {}


def told(kube: Kube, namespace: str) -> list[tuple[str, str, str]]:
    """The instance's Events: type, reason, message."""
    return [(event["type"], event["reason"], event["message"]) for event in kube.items("events", namespace)]


# --- all Pods at once -----------------------------------------------------------------------------------------------


def test_all_pods_deleted_at_once_are_formed_anew_without_volumes(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    deleted(kube, formed.namespace, nodes, grace_s=0)
    after = by_itself(kube, formed.namespace)
    assert probe.layout(after) == probe.layout(nodes)
    written = formed.client.write(INSTANCE, 300)
    assert formed.client.lost(INSTANCE, written) == []


def test_all_pods_deleted_at_once_keep_ids_and_data_with_volumes(sandbox: Sandbox, kube: Kube) -> None:
    stack = sandbox.stack(config=small(persistence={"size": "64Mi"}))
    stack.up()
    nodes = probe.assert_ready(kube, sandbox.namespace, INSTANCE)
    client = sandbox.client(stack)
    written = client.write(INSTANCE, 1500)
    deleted(kube, sandbox.namespace, nodes, grace_s=None)
    after = by_itself(kube, sandbox.namespace)
    assert {pod: node.node_id for pod, node in after.items()} == {pod: node.node_id for pod, node in nodes.items()}
    assert client.lost(INSTANCE, written) == []


# --- by hand --------------------------------------------------------------------------------------------------------


def test_a_replica_detached_by_hand_is_attached_again(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 300)
    replica, elsewhere = probe.replica_of(nodes, 1), probe.primary_of(nodes, 2)
    probe.command(kube, formed.namespace, replica.pod, f"CLUSTER REPLICATE {elsewhere.node_id}")
    after = by_itself(kube, formed.namespace)
    assert probe.layout(after) == probe.layout(nodes)
    assert formed.client.lost(INSTANCE, written) == []


def test_a_node_reset_by_hand_joins_again_and_is_told(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    replica = probe.replica_of(nodes, 0)
    probe.command(kube, formed.namespace, replica.pod, "CLUSTER RESET HARD")
    after = by_itself(kube, formed.namespace)
    assert after[replica.pod].node_id != replica.node_id
    eventually("the status says Ready", lambda: phase(kube, formed.namespace)["phase"] == "Ready", timeout_s=60)
    status = phase(kube, formed.namespace)
    assert re.fullmatch(rf"agent {INSTANCE}-s\d-\d", status["observer"])
    assert any("replicate" in line for line in json.loads(status["done"]))
    kinds = {(kind, reason) for kind, reason, _ in told(kube, formed.namespace)}
    assert {("Normal", "TopologyChanged"), ("Normal", "Ready")} <= kinds


def test_slots_deleted_by_hand_are_given_back_to_their_owner(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    written = formed.client.write(INSTANCE, 300)
    for pod in nodes:
        probe.command(kube, formed.namespace, pod, "CLUSTER DELSLOTSRANGE 100 200")
    after = by_itself(kube, formed.namespace)
    assert probe.layout(after) == probe.layout(nodes)
    assert formed.client.lost(INSTANCE, written) == []


def test_a_deleted_replica_joins_again(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    gone = probe.replica_of(nodes, 2)
    deleted(kube, formed.namespace, {gone.pod: gone}, grace_s=None)
    after = by_itself(kube, formed.namespace)
    assert probe.layout(after) == probe.layout(nodes)


# --- what is told, and to whom it leaves the work -------------------------------------------------------------------


def test_pods_bear_their_roles(formed: Formed, kube: Kube) -> None:
    def roles() -> dict[str, str]:
        pods = kube.items("pods", formed.namespace, f"app.kubernetes.io/instance={INSTANCE}")
        return {pod["metadata"]["name"]: pod["metadata"]["labels"].get(ROLE, "") for pod in pods}

    def real() -> dict[str, str]:
        nodes = probe.ask(kube, formed.namespace, INSTANCE)
        return {pod: "primary" if node.is_primary else "replica" for pod, node in nodes.items()}

    nodes = formed.sound()
    eventually("every Pod bears its role", lambda: roles() == real(), timeout_s=60)
    before = real()
    probe.command(kube, formed.namespace, probe.replica_of(nodes, 0).pod, "CLUSTER FAILOVER")
    eventually("the roles are swapped", lambda: real() != before or None, timeout_s=60)
    eventually("the labels follow", lambda: roles() == real(), timeout_s=60)


def test_an_up_takes_over_from_a_leading_agent_and_finishes(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    for shard in (0, 1, 2):
        probe.command(kube, formed.namespace, probe.replica_of(nodes, shard).pod, "CLUSTER RESET HARD")

    def led() -> bool:
        lease = kube.get(LEASE_KIND, formed.namespace, INSTANCE) or {}
        return "agent" in (lease["spec"].get("holderIdentity") or "")

    eventually("an agent leads", led, timeout_s=60, pause_s=0.05)
    ended = formed.stack.up()
    assert "is being worked on by" not in ended.output
    after = probe.assert_ready(kube, formed.namespace, INSTANCE)
    assert probe.layout(after) == probe.layout(nodes)


def test_what_nobody_can_heal_is_reported_and_not_hidden(formed: Formed, kube: Kube) -> None:
    nodes = formed.sound()
    workload = f"{INSTANCE}-s2"
    kube.patch("statefulsets", formed.namespace, workload, {"spec": {"replicas": 1}})

    def reported() -> dict[str, str] | None:
        status = phase(kube, formed.namespace)
        conditions = {c["type"]: c for c in json.loads(status.get("conditions") or "[]")}
        missing = conditions.get("MembersPresent", {})
        return status if missing.get("status") == "False" and "s2-1" in missing.get("message", "") else None

    status = eventually("it is reported", reported, timeout_s=60)
    assert status["phase"] == "Degraded"
    assert {c["type"]: c["status"] for c in json.loads(status["conditions"])}["Ready"] == "False"
    assert any(kind == "Warning" and "s2-1" in text for kind, _, text in told(kube, formed.namespace))
    kube.patch("statefulsets", formed.namespace, workload, {"spec": {"replicas": 2}})
    after = by_itself(kube, formed.namespace)
    assert probe.layout(after) == probe.layout(nodes)
    eventually("the status says so", lambda: phase(kube, formed.namespace)["phase"] == "Ready", timeout_s=60)


# --- quiet ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(formed: Formed, kube: Kube) -> Iterator[str]:
    """The name under which the API server counts the agents' requests: a FlowSchema of their account alone."""
    name = f"{formed.namespace}-agents"
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    account = {"name": f"{INSTANCE}-agent", "namespace": formed.namespace}
    anything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    body = {
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": 100,
            "priorityLevelConfiguration": {"name": "workload-low"},
            "rules": [
                {
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                    "resourceRules": [anything],
                }
            ],
        },
    }
    kube.request("POST", path, body)
    try:
        yield name
    finally:
        kube.request("DELETE", f"{path}/{name}")


def requests(kube: Kube, schema: str) -> float:
    """How many requests the API server has taken on under a FlowSchema; a watch counts once."""
    pattern = rf'^apiserver_flowcontrol_dispatched_requests_total{{.*flow_schema="{re.escape(schema)}".*}} (\S+)$'
    return sum(float(found) for found in re.findall(pattern, kube.text("/metrics"), re.MULTILINE))


def test_at_rest_the_agents_hardly_ask_the_api_server(formed: Formed, kube: Kube, counted: str) -> None:
    nodes = formed.sound()
    # It counts at all: something to heal takes requests.
    probe.command(kube, formed.namespace, probe.replica_of(nodes, 1).pod, "CLUSTER RESET SOFT")
    by_itself(kube, formed.namespace)
    eventually("requests are counted", lambda: requests(kube, counted) > 5, timeout_s=60)
    eventually("nobody leads", lambda: not _holder(kube, formed.namespace), timeout_s=60)
    time.sleep(15)
    before, seconds = requests(kube, counted), 120
    time.sleep(seconds)
    each_in_a_minute = (requests(kube, counted) - before) / len(nodes) / (seconds / 60)
    assert each_in_a_minute <= 2


def _holder(kube: Kube, namespace: str) -> str:
    lease = kube.get(LEASE_KIND, namespace, INSTANCE) or {}
    return lease["spec"].get("holderIdentity") or ""
