"""Removing a cluster, in whatever state it is: running, half made, crashed, or gone already."""

import shutil
import time
from collections.abc import Container
from pathlib import Path

from ..errors import LocalError
from ..progress import Progress
from . import network
from .cluster import Cluster

_ATTEMPTS = 5
_PAUSE_S = 0.5


def remove(cluster: Cluster, progress: Progress, *, keep: Container[str] = ()) -> None:
    """End all its processes, and with them its namespaces and mounts; remove its control groups, link and state.

    `keep`: names in the state folder that stay.

    Idempotent. Raises LocalError when something can't be ended or removed.
    """
    network.unlink_host(cluster.layout)
    cluster.cgroups.kill()
    cluster.cgroups.remove()
    if cluster.layout.state.exists():
        # First out of the way: a half-removed state must not be taken for a cluster by the next run.
        cluster.layout.record.unlink(missing_ok=True)
        with progress.step("Removing the cluster's data"):
            _remove_state(cluster.layout.state, keep)


def _remove_state(state: Path, keep: Container[str]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            for path in state.iterdir():
                if path.name in keep:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            if not any(state.iterdir()):
                state.rmdir()
        except OSError as error:
            # A pulumi that still runs writes beside us; what it wrote is removed with the next attempt.
            if attempt == _ATTEMPTS:
                raise LocalError(f"{state} can't be removed: {error}; end what uses it, then try again") from error
            time.sleep(_PAUSE_S)
        else:
            return
