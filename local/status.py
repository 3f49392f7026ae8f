"""The table that `python -m local status` shows."""

import sys

from rich.console import Console
from rich.table import Table

from .cluster.cluster import Cluster, Record
from .cluster.faults import losses
from .cluster.health import Fault
from .cluster.layout import API_PORT, CONTROL_PLANE
from .cluster.machine import Machine
from .cluster.network import api_side


def table(cluster: Cluster, record: Record, faults: list[Fault]) -> None:
    """Print the machines, what runs in them, and what isn't in order."""
    zones = {node.name: node.zone for node in cluster.layout.nodes}
    addresses = {node.name: str(node.address) for node in cluster.layout.nodes}
    addresses[CONTROL_PLANE] = f"{api_side(record.host_link).ip}:{API_PORT}"
    shown = Table("MACHINE", "ZONE", "ADDRESS", "STATE", "SERVICES", box=None, pad_edge=False)
    for machine in cluster.machines:
        ours = [fault for fault in faults if fault.where == machine.name]
        state = "in order" if not ours else "; ".join(fault.what for fault in ours)
        shown.add_row(machine.name, zones.get(machine.name, ""), addresses[machine.name], state, _services(machine))
    # In a pipe nobody knows the width of the terminal; half-printed names would help nobody.
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(shown)
    for fault in faults:
        if fault.where not in zones and fault.where != CONTROL_PLANE:
            console.print(f"{fault}", style="red")
    for loss in losses(cluster):
        lost = "everything" if loss.percent == 100 else f"{loss.percent} % of the packets"
        console.print(f"cut: {lost} from {loss.sender} to {loss.receiver} is lost", style="yellow")
    console.print(f"kubeconfig: {cluster.layout.kubeconfig}", soft_wrap=True)


def _services(machine: Machine) -> str:
    if machine.pid() is None:
        return ""
    parts: list[str] = []
    for name, state in machine.status().get("services", {}).items():
        restarts = f" ({state['restarts']} restarts)" if state["restarts"] else ""
        parts.append(f"{name}{restarts}" if state["pid"] is not None else f"{name}: down")
    return ", ".join(parts)
