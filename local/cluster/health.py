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


def faults(cluster: Cluster, record: Record, only: Node | None = None) -> list[Fault]:
    """Everything that isn't in order now, nothing if all is. Takes a few hundred milliseconds.

    `only`: look at this node alone, as far as nodes are concerned.
    """
    api = cluster.api(record)
    nodes = cluster.layout.nodes if only is None else (only,)
    machines = (cluster.control_plane, *(cluster.machine_of(node) for node in nodes))
    checks: list[Callable[[], list[Fault]]] = [
        lambda: [fault for machine in machines for fault in _services(machine)],
        lambda: _api(api),
        lambda: _nodes(nodes, api),
        *(_kubelet_check(node, api) for node in nodes),
        *(_dns_check(cluster.machine_of(node)) for node in nodes),
    ]
    with ThreadPoolExecutor(len(checks)) as pool:
        results = [pool.submit(check) for check in checks]
        return [fault for result in results for fault in result.result()]


def wait(
    cluster: Cluster,
    record: Record,
    *,
    timeout_s: float,
    only: Node | None = None,
    unfinished: Callable[[list[Fault]], None] = lambda _: None,
) -> list[Fault]:
    """Wait until all is in order. Returns the faults that are left at the deadline: none if all went well."""
    until = time.monotonic() + timeout_s
    while True:
        found = faults(cluster, record, only)
        if not found or time.monotonic() > until:
            return found
        unfinished(found)
        time.sleep(0.2)


def _services(machine: Machine) -> list[Fault]:
    if machine.pid() is None:
        return [Fault("doesn't run", machine.name)]
    services: dict[str, Any] = machine.status().get("services", {})
    stopped = [Fault(f"{name} is stopped", machine.name) for name, on in machine.enabled().items() if not on]
    down = {name: state["last_exit"] for name, state in services.items() if state["pid"] is None}
    return stopped + [Fault(_why_down(machine, name, code), machine.name) for name, code in down.items()]


def _why_down(machine: Machine, name: str, code: int | None) -> str:
    if code is None:
        return f"{name} waits for what it needs"
    log = machine.log / f"{name}.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return f"{name} ended with {code}: {lines[-1][:200] if lines else 'without a word'} (in {log})"


def _api(api: Api) -> list[Fault]:
    try:
        answer = api.get("/readyz")
    except ApiError as error:
        return [Fault(str(error), "API server")]
    return [] if answer == "ok" else [Fault(f"isn't ready: {answer}", "API server")]


def _nodes(nodes: tuple[Node, ...], api: Api) -> list[Fault]:
    try:
        items: list[dict[str, Any]] = api.get("/api/v1/nodes")["items"]
    except ApiError:
        return []  # Told by the check of the API server itself.
    found = {item["metadata"]["name"]: item for item in items}
    return [
        fault
        for node in nodes
        for fault in (
            [Fault("isn't registered", node.name)] if node.name not in found else node_faults(node, found[node.name])
        )
    ]


def node_faults(node: Node, item: dict[str, Any]) -> list[Fault]:
    """What isn't right with a node, from its object in the API. Pure."""
    labels: dict[str, str] = item["metadata"].get("labels", {})
    faults: list[Fault] = []
    if labels.get(_ZONE) != node.zone or labels.get(_HOSTNAME) != node.name:
        faults.append(Fault(f"lacks its labels {_ZONE}={node.zone}, {_HOSTNAME}={node.name}", node.name))
    ready = next((c for c in item["status"].get("conditions", []) if c["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        faults.append(Fault(f"isn't Ready: {ready['message'] if ready else 'no status yet'}", node.name))
    # A node that has just come back still carries what kept Pods away from it.
    if taints := [
        taint["key"] for taint in item["spec"].get("taints", []) if taint["key"].startswith("node.kubernetes.io/")
    ]:
        faults.append(Fault(f"carries the taint {', '.join(taints)}", node.name))
    return faults


def _kubelet_check(node: Node, api: Api) -> Callable[[], list[Fault]]:
    """Ask the kubelet itself, on the way that `exec` and `port-forward` take: what stands in the Node may be old."""

    def check() -> list[Fault]:
        try:
            answer = api.get(f"/api/v1/nodes/{node.name}/proxy/healthz")
        except ApiError as error:
            return [Fault(f"the kubelet can't be asked: {error}", node.name)]
        return [] if answer == "ok" else [Fault(f"the kubelet isn't well: {answer}", node.name)]

    return check


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
