"""Names, addresses and folders of one local cluster. Pure: everything follows from where its state is kept.

Addresses are those of namespaces that nobody else sees, so that every cluster has the same. The one exception is the
link to the host: its two addresses come from 198.18.0.0/15, which RFC 2544 sets aside from all real networks.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from ..errors import LocalError

FABRIC = IPv4Network("10.201.0.0/24")
"""The network between the machines, as if they hung on one switch."""
SERVICES = IPv4Network("10.96.0.0/16")
PODS = IPv4Network("10.244.0.0/16")
API_SERVICE = SERVICES[1]
DNS_SERVICE = SERVICES[10]
API_PORT = 6443
CLUSTER_DOMAIN = "cluster.local"
HOST_LINKS = IPv4Network("198.18.0.0/15")
CONTROL_PLANE = "control-plane"
NODES = 3
STORAGE_CLASS = "local-path"
VOLUME_PROVISIONER = "valkey-local/local-path"
NODE_VOLUMES = "/var/lib/volumes"
"""Where a node has its dynamic volumes."""


@dataclass(frozen=True)
class Node:
    """One node: what it is called and which addresses are its own."""

    index: int
    """From 1 on."""

    @property
    def name(self) -> str:
        return f"node{self.index}"

    @property
    def zone(self) -> str:
        return f"zone{self.index}"

    @property
    def address(self) -> IPv4Address:
        return FABRIC[10 + self.index]

    @property
    def pods(self) -> IPv4Network:
        """The Pods of this node have their addresses from here."""
        return list(PODS.subnets(new_prefix=24))[self.index]


@dataclass(frozen=True)
class Layout:
    """One cluster of this machine."""

    state: Path
    """The folder that holds all that it is; two clusters differ in nothing else."""

    @property
    def id(self) -> str:
        """What its control groups are called; also tells it from the user's other clusters."""
        return f"valkey-local-{self._digest()[:6]}"

    @property
    def host_device(self) -> str:
        """The host's end of the link to the control plane. Names of devices end at 15 characters."""
        return f"vk-{self._digest()[:6]}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(index) for index in range(1, NODES + 1))

    @property
    def control_plane_address(self) -> IPv4Address:
        return FABRIC[1]

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def record(self) -> Path:
        """What this cluster was made from."""
        return self.state / "cluster.json"

    def node(self, index: int) -> Node:
        """A node by its number. Raises LocalError where there is no such node."""
        if not 1 <= index <= NODES:
            raise LocalError(f"there is no node {index}; the nodes are 1 to {NODES}")
        return self.nodes[index - 1]

    def machine_folder(self, name: str) -> Path:
        return self.state / "machines" / name

    def host_links(self) -> Iterable[IPv4Network]:
        """Networks for the link to the host, each of two addresses, the preferred first."""
        first = int(self._digest(), 16) % 4096
        for turn in range(4096):
            yield IPv4Network((int(HOST_LINKS.network_address) + 4 * ((first + turn) % 4096), 30))

    def _digest(self) -> str:
        return hashlib.sha256(str(self.state).encode()).hexdigest()
