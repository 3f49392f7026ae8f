"""Settings of the server that the component sets itself, each with the reason why a stack config may not."""

from __future__ import annotations

from fnmatch import fnmatchcase

_OWNED: tuple[tuple[str, str], ...] = (
    # What clients, peers, probes and the transport rely on.
    ("port bind bind-source-addr unixsocket unixsocketgroup unixsocketperm", "clients, peers and probes rely on it"),
    ("protected-mode", "the server is reached from other Pods, and a password protects it"),
    ("cluster-port", "the network policy and the peers rely on the bus port 16379"),
    ("tls-*", "TLS isn't available yet"),
    ("rdma-*", "Pods are reached over TCP"),
    # What the declared topology is made with.
    ("cluster-enabled cluster-config-file cluster-config-save-behavior", "it makes the instance a cluster"),
    ("cluster-allow-replica-migration cluster-migration-barrier", "a replica stays with the shard that declares it"),
    ("cluster-replica-no-failover", "the cluster heals itself by failing over"),
    ("cluster-blacklist-ttl", "a node that left is forgotten within the server's own minute"),
    ("replicaof", "shards and replicas are declared, not configured"),
    ("cluster-announce-* replica-announce-ip replica-announce-port", "each Pod announces its own name and address"),
    ("cluster-preferred-endpoint-type", "it follows from how clients reach the Pods"),
    ("availability-zone", "it follows from the node that the Pod runs on"),
    ("replica-read-only", "a write on a replica is lost"),
    (
        "repl-diskless-sync repl-diskless-sync-delay repl-diskless-load",
        "replicas are synchronised at once, without a file",
    ),
    ("import-mode", "it is for moving data into an instance, not for running one"),
    # Secrets and rights.
    ("requirepass primaryauth primaryuser", "a password never stands in a stack config; name a Secret under auth"),
    ("aclfile user", "users aren't available yet"),
    ("rename-command", "probes and `pulumi up` need the commands under their names"),
    ("enable-debug-command enable-module-command enable-protected-configs", "it opens the host to whoever can log in"),
    # Files and the process.
    ("dir dbfilename appendfilename appenddirname", "the files are on the volume mounted at /data"),
    ("logfile syslog-*", "the log goes to standard output, where Kubernetes keeps it"),
    ("include", "the configuration is one file, this one"),
    ("loadmodule", "modules aren't available yet"),
    ("daemonize supervised pidfile", "Kubernetes runs the process"),
    ("oom-score-adj oom-score-adj-values", "Kubernetes sets it from the requests and limits"),
    ("shutdown-on-sigterm shutdown-on-sigint shutdown-timeout", "a stopping primary first hands over to its replica"),
)

#: Directives that no server lists as a setting, so that a typo can be told from them.
DIRECTIVES = ("include", "loadmodule", "rename-command", "user")


def owned_reason(name: str) -> str:
    """Why a stack config may not set `name`; "" when it may."""
    return next((why for patterns, why in _OWNED if any(fnmatchcase(name, p) for p in patterns.split())), "")


def owned_table() -> tuple[tuple[str, str], ...]:
    """(setting or pattern, reason) of all that is owned, in the order of the table; for the reference."""
    return tuple((pattern, why) for patterns, why in _OWNED for pattern in patterns.split())
