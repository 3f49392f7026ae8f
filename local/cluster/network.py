"""The links and routes of a cluster.

    host ── vk-xxxxxx ═ host ──[ control-plane ]── fabric (a bridge) ── node1 ═ eth0 ──[ node1 ]── one link for each Pod

Everything but the host's end of one link, and the route that comes with its address, is in the machines' namespaces.
Pods are routed, not bridged: every packet of theirs passes the node's FORWARD chain, where Services and policies are
made, without a bridge filter that would have to be loaded and set for the whole host.
"""

import contextlib
import json
import subprocess
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from ..errors import LocalError
from .layout import CONTROL_PLANE, FABRIC, SERVICES, Layout, Node
from .machine import Machine

_BRIDGE = "fabric"
_NODE_DEVICE = "eth0"
_CONTROL_PLANE_DEVICE = "host"


def host_side(link: IPv4Network) -> IPv4Interface:
    return IPv4Interface((link[1], link.prefixlen))


def api_side(link: IPv4Network) -> IPv4Interface:
    """Where the host reaches the control plane."""
    return IPv4Interface((link[2], link.prefixlen))


def free_host_link(layout: Layout) -> IPv4Network:
    """A network for the link to the host that the host doesn't know yet."""
    known = [
        IPv4Network(route["dst"])
        for route in _json(["ip", "-j", "-4", "route", "show", "table", "all"])
        if _is_network(route)
    ]
    for link in layout.host_links():
        if not any(link.overlaps(network) for network in known):
            return link
    raise LocalError("the host has routes to all of 198.18.0.0/15; no address is left for the link to the cluster")


def link_host(layout: Layout, link: IPv4Network, control_plane: Machine) -> None:
    """Lay the link between the host and the control plane, unless it is there. Raises LocalError."""
    device = layout.host_device
    if _has_address(_addresses(device), host_side(link)) and _has_address(
        _addresses(_CONTROL_PLANE_DEVICE, control_plane), api_side(link)
    ):
        return
    subprocess.run(["ip", "link", "delete", device], capture_output=True, check=False)
    pid = control_plane.running()
    _ip_on_host(
        f"link add {device} type veth peer name {_CONTROL_PLANE_DEVICE} netns {pid}",
        f"address add {host_side(link)} dev {device}",
        f"link set {device} up",
    )
    _ip(
        control_plane,
        f"address add {api_side(link)} dev {_CONTROL_PLANE_DEVICE}",
        f"link set {_CONTROL_PLANE_DEVICE} up",
    )


def unlink_host(layout: Layout) -> None:
    """Take the link to the host away. Idempotent; it is gone by itself when the control plane is."""
    subprocess.run(["ip", "link", "delete", layout.host_device], capture_output=True, check=False)


def make_fabric(layout: Layout, control_plane: Machine) -> None:
    """The switch between the machines, and the control plane's own way to every Pod. Idempotent."""
    address = IPv4Interface((layout.control_plane_address, FABRIC.prefixlen))
    if not _addresses(_BRIDGE, control_plane):
        _ip(
            control_plane,
            "link set lo up",
            # An address of its own: else the bridge takes the lowest of its ports', another with each new port, and who
            # has learned the one before sends into the void until its neighbour entry expires, a minute later.
            f"link add {_BRIDGE} address {_mac(layout.control_plane_address)} type bridge forward_delay 0",
            f"address add {address} dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
            f"route add unreachable default metric {_LAST_RESORT}",
        )
    _ip(control_plane, *(f"route replace {node.pods} via {node.address}" for node in layout.nodes))


def link_node(layout: Layout, node: Node, machine: Machine, control_plane: Machine) -> None:
    """Plug a node into the fabric, unless it is. Raises LocalError when one of the two doesn't run."""
    address = IPv4Interface((node.address, FABRIC.prefixlen))
    plugged = any(entry.get("master") == _BRIDGE for entry in _addresses(node.name, control_plane))
    if not plugged or not _has_address(_addresses(_NODE_DEVICE, machine), address):
        unplug_node(node, control_plane)
        with contextlib.suppress(LocalError):
            _ip(machine, f"link delete {_NODE_DEVICE}")
        _ip(
            control_plane,
            f"link add {node.name} type veth"
            f" peer name {_NODE_DEVICE} address {_mac(node.address)} netns {machine.running()}",
            f"link set {node.name} master {_BRIDGE} up",
        )
        _ip(machine, "link set lo up", f"address add {address} dev {_NODE_DEVICE}", f"link set {_NODE_DEVICE} up")
    others = [other for other in layout.nodes if other != node]
    _ip(
        machine,
        *(f"route replace {other.pods} via {other.address}" for other in others),
        # Addresses of Services are rewritten before they are sent, yet a node's own processes need a route to try.
        f"route replace {SERVICES} via {layout.control_plane_address}",
        # Whoever asks for the world outside hears at once that there is none.
        f"route replace unreachable default metric {_LAST_RESORT}",
        # So does who asks for a Pod of this node that is gone; the route of a Pod that is there is narrower.
        f"route replace unreachable {node.pods}",
    )


def unplug_node(node: Node, control_plane: Machine) -> None:
    """Pull a node's plug: nothing that it still sends reaches anyone. Idempotent."""
    with contextlib.suppress(LocalError):
        _ip(control_plane, f"link delete {node.name}")


def networks_of(layout: Layout, name: str) -> tuple[str, ...]:
    """All source addresses of what a machine sends: its own and, of a node, its Pods'."""
    if name == CONTROL_PLANE:
        return (str(layout.control_plane_address),)
    node = next(node for node in layout.nodes if node.name == name)
    return (str(node.address), str(node.pods))


_LAST_RESORT = 4278198272


def _mac(address: IPv4Address) -> str:
    """The same for the same address, so that a node that was down is found at once where it was before."""
    return ":".join(f"{byte:02x}" for byte in (2, 0, *address.packed))


def _is_network(route: dict[str, Any]) -> bool:
    try:
        return IPv4Network(route.get("dst", "")).prefixlen > 0
    except ValueError:
        return False


def _addresses(device: str, machine: Machine | None = None) -> list[dict[str, Any]]:
    argv = ["ip", "-j", "address", "show", "dev", device]
    if machine is not None:
        text = machine.in_network(argv, check=False)
        return json.loads(text) if text.strip() else []
    return _json(argv)


def _has_address(entries: list[dict[str, Any]], address: IPv4Interface) -> bool:
    return any(
        info.get("local") == str(address.ip) and info.get("prefixlen") == address.network.prefixlen
        for entry in entries
        if "UP" in entry.get("flags", ())
        for info in entry.get("addr_info", ())
    )


def _json(argv: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    found: list[dict[str, Any]] = json.loads(done.stdout) if done.stdout.strip() else []
    return found


def _ip(machine: Machine, *commands: str) -> None:
    machine.in_network(["ip", "-batch", "-"], text="\n".join(commands) + "\n")


def _ip_on_host(*commands: str) -> None:
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands) + "\n", capture_output=True, text=True, check=False, timeout=10
    )
    if done.returncode:
        raise LocalError(f"the link to the cluster can't be laid: {done.stderr.strip()}")
