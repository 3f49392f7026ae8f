"""The files of an instance's ConfigMap: valkey.conf and the scripts. All Pods of the instance share them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from .args import ClusterSettings
from .memory import default_maxmemory
from .quantity import size_bytes
from .server_config import directive
from .versions import version_of

SCRIPTS = ("start.sh", "probe.sh", "cli.sh")
DATA_DIR = "/data"
CLIENT_PORT = 6379
#: How long a stopping primary waits for its replicas to catch up, or for the one that takes over.
SHUTDOWN_TIMEOUT_S = 10
#: How long a node may be silent before its peers call it failed. The server's own 15 s leave a shard without a primary
#: for about 20 s; much below this, nodes that are merely busy are taken for dead.
NODE_TIMEOUT_MS = 5000


def config_data(args: ClusterSettings) -> dict[str, str]:
    """The ConfigMap's data: file name → text."""
    here = Path(__file__).parent
    return {"valkey.conf": server_file(args), **{name: (here / name).read_text() for name in SCRIPTS}}


def start_hash(data: Mapping[str, str]) -> str:
    """Changes when a server has to be started anew to have the files in effect.

    Probes read their script on each run, so they aren't part of it.
    """
    read_at_start = "\0".join(data[name] for name in ("valkey.conf", "start.sh"))
    return sha256(read_at_start.encode()).hexdigest()[:16]


def server_file(args: ClusterSettings) -> str:
    """valkey.conf. What the component owns comes last: where a setting stands twice, the last one holds."""
    lines = [
        "# Written by Pulumi from the stack config. Changes by hand are lost.",
        *(directive(name, value) for name, value in sorted(_chosen(args).items())),
        "",
        "# Owned: what the topology, the probes and the Pod rely on.",
        *(directive(name, value) for name, value in _owned(args).items()),
        "",
    ]
    return "\n".join(lines)


def node_timeout_ms(args: ClusterSettings) -> int:
    """The `cluster-node-timeout` that the servers run with, in milliseconds."""
    return int(_chosen(args)["cluster-node-timeout"])


def _chosen(args: ClusterSettings) -> dict[str, str]:
    """Our defaults, and over them what the stack config says."""
    return {**_defaults(args), **{name: str(value) for name, value in args.config.items()}}


def _defaults(args: ClusterSettings) -> dict[str, str]:
    persistent = args.persistence is not None
    defaults = {
        # A shard that is lost takes its own slots away from clients, not those of the others too.
        "cluster-require-full-coverage": "no",
        "cluster-node-timeout": str(NODE_TIMEOUT_MS),
        # With a volume, the append-only file holds all but the last second; snapshots beside it would only cost forks.
        "appendonly": "yes" if persistent else "no",
        "save": "",
    }
    if args.resources.limits.memory:
        limit = size_bytes(args.resources.limits.memory)
        defaults["maxmemory"] = str(default_maxmemory(limit, persistent=persistent))
    return defaults


def _owned(args: ClusterSettings) -> dict[str, str]:
    owned = {
        "port": str(CLIENT_PORT),
        "bind": "* -::*",
        "protected-mode": "no",
        "dir": DATA_DIR,
        "daemonize": "no",
        "supervised": "no",
        "logfile": "",
        "pidfile": "",
        "cluster-enabled": "yes",
        "cluster-config-file": "nodes.conf",
        # Else a drained primary turns into a replica of the node that took its last slot.
        "cluster-allow-replica-migration": "no",
        "cluster-replica-no-failover": "no",
        "cluster-preferred-endpoint-type": "ip",
        "replica-read-only": "yes",
        # A full copy goes over the wire, and at once: with the server's delay of 5 s each takes that much longer.
        "repl-diskless-sync": "yes",
        "repl-diskless-sync-delay": "0",
        # Nor does the copy make a detour over the replica's disk where there is nothing to lose by it.
        "repl-diskless-load": "on-empty-db",
        "shutdown-timeout": str(SHUTDOWN_TIMEOUT_S),
    }
    version = version_of(args.server_image)
    if version and version >= (9, 0):
        # A primary that is told to stop hands its shard over first. Older servers don't have it; where the image tells
        # no version it is left out, since an unknown word would keep the server from starting.
        owned["shutdown-on-sigterm"] = "failover"
    return owned
