"""The files of an instance's ConfigMap: the server's settings and the scripts. All Pods of the instance share them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from valkeyctl.agent.kept import BASE, DEFAULTS, LIVE

from .args import ClusterSettings
from .memory import default_maxmemory
from .owned import owned_reason
from .quantity import size_bytes
from .server_config import WIRE_WORDS, directive
from .server_values import canonical
from .versions import defaults_of, settings_of, start_only_of, version_is_known, version_of

SCRIPTS = ("start.sh", "probe.sh", "cli.sh", "handover.sh")
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
    return {
        BASE: base_file(args),
        LIVE: live_file(args),
        DEFAULTS: json.dumps(_server_defaults(args), sort_keys=True),
        **{name: (here / name).read_text() for name in SCRIPTS},
    }


def start_hash(data: Mapping[str, str]) -> str:
    """Changes when a server has to be started anew to have the files in effect.

    Settings that the agents apply to running servers aren't part of it, nor is the script of the probes, which is read
    on each run.
    """
    read_at_start = "\0".join(data[name] for name in (BASE, "start.sh"))
    return sha256(read_at_start.encode()).hexdigest()[:16]


def base_file(args: ClusterSettings) -> str:
    """What takes a start of the server. What the component owns comes last: of two lines the last one holds."""
    return _file(_of(args, live=False), _owned_at_start(), "Pods are replaced when this changes.")


def live_file(args: ClusterSettings) -> str:
    """What a server takes while it runs: the agents apply it at once, and no Pod is replaced."""
    return _file(_of(args, live=True), _owned_live(args), "Running servers are told when this changes.")


def settings_input(args: ClusterSettings) -> dict[str, dict[str, str]]:
    """The settings as a preview shows them: `live` are applied to running servers, `restart` replace Pods.

    Values are as the server tells them. None is secret: passwords are refused in the stack config.
    """
    return {"live": {**_of(args, live=True), **_owned_live(args)}, "restart": _of(args, live=False)}


def _file(chosen: Mapping[str, str], owned: Mapping[str, str], how: str) -> str:
    lines = [
        "# Written by Pulumi from the stack config. Changes by hand are lost.",
        f"# {how}",
        *(directive(name, value) for name, value in chosen.items()),
        "",
        "# Owned: what the topology, the probes and the Pod rely on.",
        *(directive(name, value) for name, value in owned.items()),
        "",
    ]
    return "\n".join(lines)


def _of(args: ClusterSettings, *, live: bool) -> dict[str, str]:
    """Our defaults, and over them what the stack config says: those that a running server takes, or the others."""
    kinds, start_only = settings_of(args.server_image), start_only_of(args.server_image)
    defaults = defaults_of(args.server_image)
    return {
        name: canonical(name, value, kind=kinds[name], defaults=defaults)
        for name, value in sorted(_chosen(args).items())
        if (name not in start_only) is live
    }


def _server_defaults(args: ClusterSettings) -> dict[str, str]:
    """What a setting goes back to that is taken out of the stack config; none where the image tells no version."""
    if not version_is_known(args.server_image):
        return {}
    return {
        name: value
        for name, value in defaults_of(args.server_image).items()
        if not owned_reason(name) and name not in WIRE_WORDS
    }


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


def _owned_at_start() -> dict[str, str]:
    return {
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
    }


def _owned_live(args: ClusterSettings) -> dict[str, str]:
    owned = {
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
    return {**owned, **(_at_rest(args) if args.paused else {})}


def _at_rest(args: ClusterSettings) -> dict[str, str]:
    """For members that stop all at once and have the same data by then: nobody takes over from anybody.

    Running servers are told before their Pods stop; that the file says the same keeps agents from setting it back.
    """
    logs = _chosen(args)["appendonly"] == "yes"
    return {
        "cluster-replica-no-failover": "yes",
        # Without a log nothing is on the disk but what is saved at the end, whatever `save` says.
        "shutdown-on-sigterm": "default" if logs else "save",
    }
