"""Whether a cluster is in order: asked of its parts themselves, never concluded from what was started."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .api import Api, ApiError
from .cluster import Cluster, Record
from .layout import API_SERVICE, CLUSTER_DOMAIN, DNS_SERVICE, Node
from .machine import Machine

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_PROBE = Path(__file__).with_name("dns_probe.py")


@dataclass(frozen=True)
class Fault:
    """Something that isn't as it should be."""

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def faults(cluster: Cluster, record: Record) -> list[Fault]:
    """Everything that isn't in order now, nothing if all is. Takes a few hundred milliseconds."""
    api = cluster.api(record)
    checks: list[Callable[[], list[Fault]]] = [
        lambda: [fault for machine in cluster.machines for fault in _services(machine)],
        lambda: _api(api),
        lambda: _nodes(cluster, api),
        *(_dns_check(cluster.machine_of(node)) for node in cluster.layout.nodes),
    ]
    with ThreadPoolExecutor(len(checks)) as pool:
        return [fault for found in pool.map(lambda check: check(), checks) for fault in found]


def wait(
    cluster: Cluster, record: Record, *, timeout_s: float, unfinished: Callable[[list[Fault]], None] = lambda _: None
) -> list[Fault]:
    """Wait until all is in order. Returns the faults that are left at the deadline: none if all went well."""
    until = time.monotonic() + timeout_s
    while True:
        found = faults(cluster, record)
        if not found or time.monotonic() > until:
            return found
        unfinished(found)
        time.sleep(0.2)


def _services(machine: Machine) -> list[Fault]:
    if machine.pid() is None:
        return [Fault("doesn't run", machine.name)]
    services: dict[str, Any] = machine.status().get("services", {})
    return [
        Fault(f"{name} doesn't run (it ended with {state['last_exit']}); see {machine.log / name}.log", machine.name)
        if state["last_exit"] is not None
        else Fault(f"{name} waits for what it needs", machine.name)
        for name, state in services.items()
        if state["pid"] is None
    ]


def _api(api: Api) -> list[Fault]:
    try:
        answer = api.get("/readyz")
    except ApiError as error:
        return [Fault(str(error), "API server")]
    return [] if answer == "ok" else [Fault(f"isn't ready: {answer}", "API server")]


def _nodes(cluster: Cluster, api: Api) -> list[Fault]:
    try:
        items: list[dict[str, Any]] = api.get("/api/v1/nodes")["items"]
    except ApiError:
        return []  # Told by the check of the API server itself.
    found = {item["metadata"]["name"]: item for item in items}
    return [
        fault
        for node in cluster.layout.nodes
        for fault in ([Fault("isn't registered", node.name)] if node.name not in found else _node(node, found[node.name]))
    ]


def _node(node: Node, item: dict[str, Any]) -> list[Fault]:
    labels: dict[str, str] = item["metadata"].get("labels", {})
    faults: list[Fault] = []
    if labels.get(_ZONE) != node.zone or labels.get(_HOSTNAME) != node.name:
        faults.append(Fault(f"lacks its labels {_ZONE}={node.zone}, {_HOSTNAME}={node.name}", node.name))
    ready = next((c for c in item["status"].get("conditions", []) if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        faults.append(Fault(f"isn't Ready: {ready['message'] if ready else 'no status yet'}", node.name))
    # A node that has just come back still carries what kept Pods away from it.
    if taints := [taint["key"] for taint in item["spec"].get("taints", []) if taint["key"].startswith("node.kubernetes.io/")]:
        faults.append(Fault(f"carries the taint {', '.join(taints)}", node.name))
    return faults


def _dns_check(machine: Machine) -> Callable[[], list[Fault]]:
    """Ask for a name through the Service address, from the node: this takes kube-proxy, the routes and CoreDNS."""

    def check() -> list[Fault]:
        pid = machine.pid()
        if pid is None:
            return []
        name = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
        argv = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-I", "-S", str(_PROBE), str(DNS_SERVICE), name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=15)
        if done.stdout.strip() == str(API_SERVICE):
            return []
        return [Fault(f"{name} isn't found through {DNS_SERVICE}: {(done.stdout + done.stderr).strip()}", machine.name)]

    return check
