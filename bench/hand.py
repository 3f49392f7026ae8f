"""The peer of the measurement: the same Pods by `kubectl apply`, formed by `valkey-cli --cluster create`.

It is what a person does who has manifests and no tool for the data plane. The manifests are those that the program
made, read back from the API server, so that both start the very same Pods.
"""

import json
import subprocess
import time
from typing import Any

from tests.e2e.harness import probe
from tests.e2e.harness.environment import environment
from tests.e2e.harness.kube import Kube

GIVE_UP_S = 300
KINDS = {
    "secrets": ("v1", "Secret"),
    "configmaps": ("v1", "ConfigMap"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    "roles": ("rbac.authorization.k8s.io/v1", "Role"),
    "rolebindings": ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    "services": ("v1", "Service"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
    "statefulsets": ("apps/v1", "StatefulSet"),
}
#: Without them the agents beside the servers heal nothing: this cluster is formed by hand.
_OF_THE_LIFECYCLE = ("status", "declared")
_GIVEN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "ownerReferences", "namespace")


def manifests(kube: Kube, namespace: str, instance: str) -> list[dict[str, Any]]:
    """The objects of an instance as a person would have them in files."""
    found: list[dict[str, Any]] = []
    for kind in KINDS:  # in the order in which they are applied
        for item in kube.items(kind, namespace, f"app.kubernetes.io/instance={instance}"):
            if item["metadata"]["name"] in {f"{instance}-{word}" for word in _OF_THE_LIFECYCLE}:
                continue
            clean = {key: value for key, value in item.items() if key != "status"}
            clean["metadata"] = {key: value for key, value in item["metadata"].items() if key not in _GIVEN}
            if kind == "services":
                for key in ("clusterIP", "clusterIPs"):
                    if item["spec"].get("clusterIP") != "None":
                        clean["spec"].pop(key, None)
            found.append({**clean, "apiVersion": KINDS[kind][0], "kind": KINDS[kind][1]})
    return found


def make(
    kube: Kube, namespace: str, instance: str, objects: list[dict[str, Any]], *, shards: int, replicas: int
) -> float:
    """From nothing to Ready by hand; returns the seconds. The namespace exists before, in favour of the peer."""
    started = time.monotonic()
    apply(namespace, objects)
    addresses = await_pods(kube, namespace, instance, shards * (replicas + 1), started)
    # Primaries first: valkey-cli takes the first nodes as primaries.
    pods = sorted(addresses, key=lambda pod: (pod.rsplit("-", 1)[1], pod))
    nodes = " ".join(addresses[pod] for pod in pods)
    cli(kube, namespace, f"{instance}-s0-0", f"create {nodes} --cluster-replicas {replicas} --cluster-yes", started)
    await_right(kube, namespace, instance, shards, replicas, started=started)
    return time.monotonic() - started


def apply(namespace: str, objects: list[dict[str, Any]]) -> None:
    """Have these objects in a namespace."""
    for subject in (one for item in objects for one in item.get("subjects", [])):
        subject["namespace"] = namespace
    items = json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
    kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=items)


def await_pods(kube: Kube, namespace: str, instance: str, count: int, started: float) -> dict[str, str]:
    """Where so many Pods are, as valkey-cli takes it, as soon as all of them run."""
    selector = f"app.kubernetes.io/instance={instance}"
    # Each StatefulSet has made its Pods a moment later; waiting for none at all would end at once.
    while len(kube.items("pods", namespace, selector)) < count:
        _left(started)
        time.sleep(0.1)
    kubectl("wait", "-n", namespace, "pod", "-l", selector, "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    while True:
        listed = kube.items("pods", namespace, selector)
        found = {
            pod["metadata"]["name"]: f"{pod['status']['podIP']}:6379" for pod in listed if pod["status"].get("podIP")
        }
        if len(found) >= count:
            return found
        _left(started)


def cli(kube: Kube, namespace: str, pod: str, words: str, started: float) -> None:
    """Run `valkey-cli --cluster …` in a Pod. Servers answer a moment after their container runs: it tries again."""
    while True:
        try:
            probe.cli(kube, namespace, pod, f"--cluster {words}", timeout_s=GIVE_UP_S)
        except AssertionError as error:
            if "Could not connect" not in str(error):
                raise
            _left(started)
            time.sleep(0.2)
        else:
            return


def await_right(kube: Kube, namespace: str, instance: str, shards: int, replicas: int, *, started: float) -> None:
    """Return once every node is right."""
    while not is_right(kube, namespace, instance, shards, replicas):
        _left(started)
        time.sleep(0.1)


def is_right(kube: Kube, namespace: str, instance: str, shards: int, replicas: int) -> bool:
    """Whether every node is right; not, where one gives no answer."""
    try:
        return not probe.faults(probe.ask(kube, namespace, instance), instance, shards, replicas, any_shard=True)
    except (probe.SilentError, KeyError):
        return False  # a Pod that comes has no address yet


def kubectl(*arguments: str, stdin: str | None = None) -> None:
    """Run kubectl; CalledProcessError where it fails."""
    subprocess.run(
        ["kubectl", *arguments], env=environment(), input=stdin, text=True, check=True, capture_output=True, timeout=90
    )


def _left(started: float) -> None:
    if time.monotonic() - started > GIVE_UP_S:
        raise TimeoutError(f"what is done by hand isn't done after {GIVE_UP_S} s")
