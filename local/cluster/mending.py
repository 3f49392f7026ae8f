"""What `up` mends by itself while it waits for a node: a kube-proxy that gave up writing its rules.

kube-proxy and the firewall of network policies write iptables at the same time when a machine starts. Where the second
takes a chain away that the first has just made, kube-proxy's log says that the chain doesn't exist and that it tries
again in 30 s; it was seen not to, for minutes. Started anew it writes all its rules.
"""

import time

from .cluster import Cluster
from .health import Fault
from .layout import DNS_SERVICE

PATIENCE_S = 10.0
_PROXY = "kube-proxy"


class Mender:
    """For one time of waiting; to be told what isn't in order, again and again."""

    def __init__(self, cluster: Cluster) -> None:
        self._machines = {machine.name: machine for machine in cluster.machines}
        self._since: dict[str, float] = {}

    def __call__(self, found: list[Fault]) -> None:
        """Start kube-proxy anew on nodes whose Services have been out of reach for too long, each time anew."""
        silent = {fault.where for fault in found if str(DNS_SERVICE) in fault.what}
        now = time.monotonic()
        self._since = {name: self._since.get(name, now) for name in silent}
        for name, since in self._since.items():
            machine = self._machines[name]
            if now - since > PATIENCE_S and machine.enabled().get(_PROXY):
                machine.enable(_PROXY, on=False)
                machine.enable(_PROXY, on=True)
                self._since[name] = time.monotonic()
