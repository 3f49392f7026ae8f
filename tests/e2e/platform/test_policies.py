"""Network policies are enforced on the node, for Pods of the same node and of others."""

from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.platform.platform import Namespace

BUS = 16379


def _reaches(namespace: Namespace, pod: str, address: str, port: int) -> bool:
    # The bus speaks a protocol of its own, and hangs up on this one: it is there.
    return namespace.reply(pod, address, port=port) in ("PONG", "Error: Server closed the connection")


def test_the_bus_port_is_open_to_the_instance_alone(kube: Kube, namespace: Namespace) -> None:
    instance = {"app.kubernetes.io/instance": "sessions"}
    cluster = ["valkey-server", "--save", "", "--protected-mode", "no", "--cluster-enabled", "yes"]
    namespace.server("member1", nodeName="node1", labels=instance, command=cluster)
    namespace.server("member2", nodeName="node2", labels=instance, command=cluster)
    namespace.server("stranger1", nodeName="node1")
    namespace.server("stranger3", nodeName="node3")
    address = namespace.address("member1")
    for pod in ("member2", "stranger1", "stranger3"):
        namespace.ready(pod)
        assert _reaches(namespace, pod, address, BUS), f"{pod} must reach the bus port while there is no policy"

    peers = {"podSelector": {"matchLabels": instance}}
    rules = [
        {"from": [peers], "ports": [{"protocol": "TCP", "port": BUS}]},
        {"ports": [{"protocol": "TCP", "port": 6379}]},
    ]
    spec = {"podSelector": {"matchLabels": instance}, "policyTypes": ["Ingress"], "ingress": rules}
    kube.create("networkpolicies", namespace.name, {"metadata": {"name": "sessions"}, "spec": spec})

    for stranger in ("stranger1", "stranger3"):
        shut_out = lambda pod=stranger: not _reaches(namespace, pod, address, BUS)  # noqa: E731
        eventually(f"{stranger} is shut out", shut_out, timeout_s=15)
        assert _reaches(namespace, stranger, address, 6379)
    assert _reaches(namespace, "member2", address, BUS)
    # A member that comes later is let in; the policy knows it by its labels.
    namespace.server("member3", nodeName="node3", labels=instance, command=cluster)
    namespace.ready("member3")
    eventually("the new member is let in", lambda: _reaches(namespace, "member3", address, BUS), timeout_s=15)

    kube.delete("networkpolicies", namespace.name, "sessions")
    eventually("all are let in again", lambda: _reaches(namespace, "stranger3", address, BUS), timeout_s=15)
