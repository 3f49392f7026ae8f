"""Faults that are played on purpose: nodes that go down or stand still, networks that are cut or lose packets.

What is cut is kept in the cluster's state, so that a node that comes back is still cut off. `up` heals everything.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ..errors import LocalError
from . import health, network
from .cluster import Cluster, write_if_changed
from .layout import CONTROL_PLANE, Layout, Node
from .machine import Machine
from .mending import Mender
from .node import KUBELET

API = "api"
OTHERS = "others"
ALL = "all"
_CHAIN = "VALKEY-LOCAL-CUT"
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Loss:
    """What is lost on the way from one machine to another."""

    sender: str
    receiver: str
    """Names of machines."""
    percent: int
    keep_dns: bool = False
    """Let names still be asked for and answered."""


# ---- nodes


def stop_kubelet(cluster: Cluster, node: Node) -> None:
    """End the kubelet of a node in good order. Its containers run on; nobody watches over them. Idempotent."""
    cluster.machine_of(node).enable(KUBELET, on=False)


def power_off(cluster: Cluster, node: Node) -> None:
    """The node is gone at once: its network first, so that not one packet tells of it. Idempotent."""
    if cluster.control_plane.pid() is not None:
        network.unplug_node(node, cluster.control_plane)
    cluster.machine_of(node).kill()


def freeze(cluster: Cluster, node: Node) -> None:
    """No process of the node runs on, as in a virtual machine that is paused. Its kernel still answers the network."""
    machine = cluster.machine_of(node)
    machine.running()
    cluster.cgroups.freeze(machine.name)


def start(cluster: Cluster, node: Node) -> list[health.Fault]:
    """Bring a node back from any of these, with the data that it had, and wait until it is in order.

    Returns what isn't in order after a minute, if anything. Cuts stay. Idempotent.
    """
    record = cluster.record()
    if record is None:
        raise LocalError("there is no local cluster; `python -m local up` makes one")
    machine = cluster.machine_of(node)
    cluster.cgroups.thaw(machine.name)
    if machine.pid() is None:
        machine.start_again()
    for service, on in machine.enabled().items():
        if not on:
            machine.enable(service, on=True)
    network.link_node(cluster.layout, node, machine, cluster.control_plane)
    _enforce(cluster, losses(cluster))
    return health.wait(cluster, record, timeout_s=_START_TIMEOUT_S, only=node, unfinished=Mender(cluster))


# ---- networks


def ends(layout: Layout, near: str, far: str) -> list[tuple[str, str, bool]]:
    """The pairs of machines between which a cut is: (machine, machine, whether names are still answered).

    Names are those of nodes (`node1` or `1`), `api`, which spares DNS, `control-plane`, which doesn't, and for the
    far end `others` (all other nodes) and `all` (those and the control plane). Raises LocalError for any other.
    """
    names = [*(node.name for node in layout.nodes), CONTROL_PLANE]
    short = {str(node.index): node.name for node in layout.nodes}

    def known(name: str) -> str:
        name = short.get(name, name)
        if name not in names and name != API:
            raise LocalError(f"{name} is no machine; there are {', '.join([*names, API])}")
        return name

    near = known(near)
    nodes = [name for name in names if name not in (CONTROL_PLANE, near)]
    far_names = {OTHERS: nodes, ALL: [name for name in names if name != near]}.get(far) or [known(far)]
    pairs = [(_machine(near), _machine(name), API in (near, name)) for name in far_names]
    if any(one == other for one, other, _ in pairs):
        raise LocalError(f"{near} and {far} are the same machine")
    return pairs


def cut(cluster: Cluster, near: str, far: str, *, percent: int = 100, one_way: bool = False) -> None:
    """Lose packets between two machines and their Pods; with `one_way`, only what `near` sends. Idempotent.

    Connections that exist are cut as well. A loss between the same two replaces the one before.
    """
    if not 1 <= percent <= 100:
        raise LocalError(f"{percent} is no share of packets in percent, 1 to 100")
    pairs = ends(cluster.layout, near, far)
    new = [Loss(one, other, percent, spare) for one, other, spare in pairs]
    if not one_way:
        new += [Loss(other, one, percent, spare) for one, other, spare in pairs]
    replaced = {(loss.sender, loss.receiver) for loss in new}
    kept = [loss for loss in losses(cluster) if (loss.sender, loss.receiver) not in replaced]
    _set(cluster, [*kept, *new])


def heal(cluster: Cluster, near: str, far: str) -> None:
    """Undo every cut between two machines, in both directions. Idempotent."""
    healed = {frozenset(pair[:2]) for pair in ends(cluster.layout, near, far)}
    _set(cluster, [loss for loss in losses(cluster) if frozenset((loss.sender, loss.receiver)) not in healed])


def heal_all(cluster: Cluster) -> None:
    """Undo every cut. Idempotent."""
    if losses(cluster):
        _set(cluster, [])


def losses(cluster: Cluster) -> list[Loss]:
    """What is being lost now."""
    try:
        return [Loss(**entry) for entry in json.loads((cluster.layout.state / "losses.json").read_text())]
    except (OSError, ValueError, TypeError):
        return []


def rules(layout: Layout, receiver: str, all_losses: Iterable[Loss]) -> str:
    """What iptables-restore gets at the receiving machine: packets are lost on arrival. Pure."""
    lines = ["*raw", f":{_CHAIN} - [0:0]"]
    for loss in all_losses:
        if loss.receiver != receiver:
            continue
        for source in network.networks_of(layout, loss.sender):
            if loss.keep_dns:
                side = "sport" if loss.sender == CONTROL_PLANE else "dport"
                lines += [f"-A {_CHAIN} -s {source} -p {protocol} --{side} 53 -j RETURN" for protocol in ("udp", "tcp")]
            share = f" -m statistic --mode random --probability {loss.percent / 100}" if loss.percent < 100 else ""
            lines.append(f"-A {_CHAIN} -s {source}{share} -j DROP")
    return "\n".join([*lines, "COMMIT", ""])


def _set(cluster: Cluster, new: list[Loss]) -> None:
    if cluster.record() is None:
        raise LocalError("there is no local cluster; `python -m local up` makes one")
    write_if_changed(cluster.layout.state / "losses.json", json.dumps([asdict(loss) for loss in new], indent=1))
    _enforce(cluster, new)


def _enforce(cluster: Cluster, all_losses: list[Loss]) -> None:
    for machine in cluster.machines:
        if machine.pid() is not None:
            _enforce_at(cluster.layout, machine, all_losses)


def _enforce_at(layout: Layout, machine: Machine, all_losses: list[Loss]) -> None:
    machine.in_network(["iptables-restore", "--wait", "5", "--noflush"], text=rules(layout, machine.name, all_losses))
    hooked = machine.in_network(["iptables", "--wait", "5", "-t", "raw", "-S", "PREROUTING"])
    if f"-j {_CHAIN}" not in hooked:
        machine.in_network(["iptables", "--wait", "5", "-t", "raw", "-I", "PREROUTING", "-j", _CHAIN])


def _machine(name: str) -> str:
    return CONTROL_PLANE if name == API else name
