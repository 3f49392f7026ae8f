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
    for subject in (one for item in objects for one in item.get("subjects", [])):
        subject["namespace"] = namespace
    items = json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
    started = time.monotonic()
    _kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=items)
    # Each StatefulSet has made its Pods a moment later; waiting for none at all would end at once.
    pods = shards * (replicas + 1)
    while len(kube.items("pods", namespace, f"app.kubernetes.io/instance={instance}")) < pods:
        _left(started)
        time.sleep(0.1)
    _kubectl(
        "wait",
        "-n",
        namespace,
        "pod",
        "-l",
        f"app.kubernetes.io/instance={instance}",
        "--for=jsonpath={.status.phase}=Running",
        "--timeout=60s",
    )
    addresses: list[str] = []
    while len(addresses) < pods:
        _left(started)
        listed = kube.items("pods", namespace, f"app.kubernetes.io/instance={instance}")
        # Primaries first: valkey-cli takes the first nodes as primaries.
        listed.sort(key=lambda pod: (pod["metadata"]["name"].rsplit("-", 1)[1], pod["metadata"]["name"]))
        addresses = [f"{pod['status']['podIP']}:6379" for pod in listed if pod["status"].get("podIP")]
    command = f"--cluster create {' '.join(addresses)} --cluster-replicas {replicas} --cluster-yes"
    while True:
        # Servers answer a moment after their container runs.
        try:
            probe.command(kube, namespace, f"{instance}-s0-0", command)
            break
        except AssertionError as error:
            if "Could not connect" not in str(error):
                raise
            _left(started)
            time.sleep(0.2)
    while True:
        try:
            if not probe.faults(probe.ask(kube, namespace, instance), instance, shards, replicas, any_shard=True):
                return time.monotonic() - started
        except probe.SilentError:
            pass
        _left(started)
        time.sleep(0.1)


def _left(started: float) -> None:
    if time.monotonic() - started > 120:
        raise TimeoutError("the cluster made by hand is not Ready after two minutes")


def _kubectl(*arguments: str, stdin: str | None = None) -> None:
    subprocess.run(
        ["kubectl", *arguments], env=environment(), input=stdin, text=True, check=True, capture_output=True, timeout=90
    )
