"""A cluster in order: its nodes, names, Services, and that a second `up` leaves it alone."""

import subprocess
from pathlib import Path

import yaml

from tests.e2e.harness.environment import environment
from tests.e2e.harness.kube import Kube, eventually
from tests.e2e.platform.platform import Namespace, local


def test_three_nodes_are_ready_in_three_zones(kube: Kube) -> None:
    nodes = {item["metadata"]["name"]: item for item in kube.request("GET", "/api/v1/nodes")["items"]}
    assert set(nodes) == {"node1", "node2", "node3"}
    for name, item in nodes.items():
        labels = item["metadata"]["labels"]
        assert labels["kubernetes.io/hostname"] == name
        assert labels["topology.kubernetes.io/zone"] == f"zone{name[-1]}"
        assert {each["type"]: each["status"] for each in item["status"]["conditions"]}["Ready"] == "True"
        minor = int(item["status"]["nodeInfo"]["kubeletVersion"].split(".")[1])
        assert minor >= 34


def test_a_second_up_changes_nothing(kube: Kube) -> None:
    before = [item["metadata"]["uid"] for item in kube.request("GET", "/api/v1/nodes")["items"]]
    done = local("up")
    assert done.code == 0, done.err
    assert "repairing" not in done.err
    assert "anew" not in done.err
    assert before == [item["metadata"]["uid"] for item in kube.request("GET", "/api/v1/nodes")["items"]]
    assert local("status").code == 0
    # A few seconds are for a machine that does much else besides.
    assert done.seconds < 10


def test_a_pod_finds_others_by_name_and_through_a_service(kube: Kube, namespace: Namespace) -> None:
    for number in (1, 2, 3):
        namespace.server(
            f"on{number}", nodeName=f"node{number}", hostname=f"on{number}", subdomain="peers", labels={"set": "x"}
        )
    ports = [{"name": "valkey", "port": 6379}]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"set": "x"}, "ports": ports}
    kube.create("services", namespace.name, {"metadata": {"name": "peers"}, "spec": headless})
    kube.create(
        "services", namespace.name, {"metadata": {"name": "any"}, "spec": {"selector": {"set": "x"}, "ports": ports}}
    )
    for number in (1, 2, 3):
        namespace.ready(f"on{number}")
    for near in (1, 2, 3):
        for far in (1, 2, 3):
            name = f"on{far}.peers.{namespace.name}.svc"
            _answers(namespace, f"on{near}", name)
            _answers(namespace, f"on{near}", f"{name}.cluster.local")
        # Also one that is itself behind the Service, which must then reach itself.
        for _ in range(6):
            _answers(namespace, f"on{near}", f"any.{namespace.name}.svc")


def _answers(namespace: Namespace, pod: str, host: str) -> None:
    eventually(f"{pod} reaches {host}", lambda: namespace.reply(pod, host) == "PONG", timeout_s=15)


def test_a_headless_name_lists_every_address(kube: Kube, namespace: Namespace) -> None:
    for number in (1, 2, 3):
        namespace.server(f"on{number}", nodeName=f"node{number}", labels={"set": "x"})
    spec = {"clusterIP": "None", "selector": {"set": "x"}, "ports": [{"name": "valkey", "port": 6379}]}
    kube.create("services", namespace.name, {"metadata": {"name": "peers"}, "spec": spec})
    addresses = {namespace.address(f"on{number}") for number in (1, 2, 3)}

    def found() -> bool:
        shown = kube.execute(namespace.name, "on1", ["getent", "ahostsv4", f"peers.{namespace.name}.svc"])
        return {line.split()[0] for line in shown.out.splitlines()} == addresses

    eventually("the name has all three addresses", found, timeout_s=20)


def test_an_account_without_rights_gets_nothing(kube: Kube, namespace: Namespace) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace.name}:default",
            "resourceAttributes": {"namespace": namespace.name, "verb": "get", "resource": "secrets"},
        },
    }
    answer = kube.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is False


def test_a_node_has_no_rights_on_another(kube: Kube) -> None:
    folder = Path(kube.kubeconfig).parent / "machines" / "node1" / "etc"
    user = yaml.safe_load(Path(kube.kubeconfig).read_text())
    kubelet = ["kubectl", "--kubeconfig", str(folder / "kubelet.kubeconfig")]
    # The kubelet's own file names an address that only the nodes can reach.
    kubelet += ["--server", user["clusters"][0]["cluster"]["server"]]
    outcomes = {
        node: subprocess.run(
            [*kubelet, "annotate", "--overwrite", "node", node, "tried=yes"],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        for node in ("node1", "node2")
    }
    assert outcomes["node1"].returncode == 0, outcomes["node1"].stderr
    assert outcomes["node2"].returncode != 0
    assert "Forbidden" in outcomes["node2"].stderr
