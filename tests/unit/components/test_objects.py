"""Services, disruption budget and network policy."""

from typing import Any

from tests.unit.components.test_cluster import program


def spec(label: str) -> dict[str, Any]:
    return program()[label].inputs["spec"]


OWN = {"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": "sessions"}


def test_service_for_clients() -> None:
    found = spec("Service sessions")
    assert found["selector"] == OWN
    assert [(port["name"], port["port"]) for port in found["ports"]] == [("valkey", 6379)]
    # Only members that serve; the bus is none of the clients' business.
    assert "publishNotReadyAddresses" not in found


def test_service_that_names_the_pods() -> None:
    found = spec("Service sessions-headless")
    assert found["clusterIP"] == "None"
    assert found["publishNotReadyAddresses"] is True
    assert {(port["name"], port["port"]) for port in found["ports"]} == {("valkey", 6379), ("bus", 16379)}


def test_pulumi_waits_for_no_endpoints() -> None:
    seen = program()
    for label in ("Service sessions", "Service sessions-headless"):
        assert seen[label].inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_disruption_budget() -> None:
    assert spec("PodDisruptionBudget sessions") == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": OWN},
    }


def test_network_policy() -> None:
    assert spec("NetworkPolicy sessions") == {
        "podSelector": {"matchLabels": OWN},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": [{"port": 6379, "protocol": "TCP"}]},
            {
                "ports": [{"port": 16379, "protocol": "TCP"}, {"port": 9379, "protocol": "TCP"}],
                "from": [{"podSelector": {"matchLabels": OWN}}],
            },
        ],
    }
