"""Removing a cluster, in whatever state it is: running, half made, crashed, or gone already."""

import shutil

from ..progress import Progress
from . import network
from .cluster import Cluster


def remove(cluster: Cluster, progress: Progress) -> None:
    """End all its processes, and with them its namespaces and mounts; remove its control groups, link and state.

    Idempotent. Raises LocalError when something can't be ended or removed.
    """
    network.unlink_host(cluster.layout)
    cluster.cgroups.kill()
    cluster.cgroups.remove()
    if cluster.layout.state.exists():
        # First out of the way: a half-removed state must not be taken for a cluster by the next run.
        cluster.layout.record.unlink(missing_ok=True)
        with progress.step("Removing the cluster's data"):
            shutil.rmtree(cluster.layout.state)
