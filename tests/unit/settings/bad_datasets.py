"""Wrong stack configs of `failover` and `replica`, and what a person is told about each, word for word."""

from typing import Any

from tests.unit.settings.bad import Bad, bad

NOT_OF_REPLICA = "is a key of architecture: {}, and this is architecture: replica"
NOT_OF_FAILOVER = "is a key of architecture: {}, and this is architecture: failover"
ODD = "must be odd, 3 to 9: a majority of the Sentinels decides"


def _replica(own: dict[str, Any], *lines: str) -> Bad:
    return bad({"architecture": "replica", **own}, *lines)


def _failover(own: dict[str, Any], *lines: str) -> Bad:
    return bad({"architecture": "failover", **own}, *lines)


def _sentinel(own: Any, *lines: str) -> Bad:
    return _failover({"sentinel": own}, *(f".sentinel{line}" for line in lines))


BAD_DATASETS: dict[str, Bad] = {
    # Keys of other architectures.
    "failover with shards": _failover({"shards": 3}, f".shards = 3: {NOT_OF_FAILOVER.format('cluster')}"),
    "failover with automatic failover": _failover(
        {"automaticFailover": True}, f".automaticFailover = true: {NOT_OF_FAILOVER.format('replica')}"
    ),
    "replica with Sentinels": _replica({"sentinel": {}}, f".sentinel = {{}}: {NOT_OF_REPLICA.format('failover')}"),
    "replica with a layout and a typo": _replica(
        {"slots": {}, "replicsa": 1},
        ".replicsa = 1: unknown key, did you mean replicas?",
        f".slots = {{}}: {NOT_OF_REPLICA.format('cluster')}",
    ),
    "cluster with a primary": bad(
        {"primary": 1},
        ".primary = 1: is a key of architecture: failover and architecture: replica, and this is architecture: cluster",
    ),
    "snake case in a dataset": _replica(
        {"automatic_failover": True}, ".automatic_failover = true: unknown key, did you mean automaticFailover?"
    ),
    # Members.
    "failover without a replica": _failover({"replicas": 0}, ".replicas = 0: there are 1 to 5 replicas"),
    "replica with too many": _replica({"replicas": 6}, ".replicas = 6: there are 0 to 5 replicas"),
    "primary that is none": _replica({"primary": 2}, ".primary = 2: there is no such member: the ordinals are 0 to 1"),
    "primary by its Pod": _replica(
        {"primary": "sessions-s0-1"}, '.primary = "sessions-s0-1": a member is named by its ordinal, counted from 0'
    ),
    "handover to nobody": _failover(
        {"handover": {"to": 3, "token": "a"}}, ".handover.to = 3: there is no such member: the ordinals are 0 to 2"
    ),
    "handover to somebody": _failover(
        {"handover": {"to": "best", "token": "a"}},
        '.handover.to = "best": must be the ordinal of a member, counted from 0, or any',
    ),
    "handover without a token": _failover({"handover": {"to": "any"}}, ".handover.token: is required"),
    "handover of a single member": _replica(
        {"replicas": 0, "handover": {"token": "a"}},
        '.handover = "a": there is nobody to hand the role over to',
    ),
    "handover beside a primary": _replica(
        {"primary": 0, "handover": {"token": "a"}},
        '.handover = "a": primary says where the role is to be; a handover away from there would be undone. Remove one',
    ),
    "more replicas to write than there are": _replica(
        {"minReplicasToWrite": 2},
        ".minReplicasToWrite = 2: no write would ever be accepted: each primary has 1 replica",
    ),
    "no lag": _replica({"minReplicasMaxLagSeconds": 0}, ".minReplicasMaxLagSeconds = 0: must be 1 to 3600 seconds"),
    # Automatic failover.
    "automatic failover as text": _replica(
        {"automaticFailover": "yes"}, '.automaticFailover = "yes": must be true, false, or {leaseDurationSeconds: N}'
    ),
    "a short Lease": _replica(
        {"automaticFailover": {"leaseDurationSeconds": 4}},
        ".automaticFailover.leaseDurationSeconds = 4: must be 5 to 60 seconds",
    ),
    "a typo in the Lease": _replica(
        {"automaticFailover": {"leaseDuration": 9}},
        ".automaticFailover.leaseDuration = 9: unknown key, did you mean leaseDurationSeconds?",
    ),
    # Sentinels.
    "an even number of Sentinels": _sentinel({"replicas": 4}, f".replicas = 4: {ODD}"),
    "a single Sentinel": _sentinel({"replicas": 1}, f".replicas = 1: {ODD}"),
    "quorum of more than there are": _sentinel({"quorum": 5}, ".quorum = 5: there are 3 Sentinels"),
    "quorum of a minority": _sentinel(
        {"replicas": 5, "quorum": 2},
        ".quorum = 2: a majority of 5 is 3; set allowSmallQuorum: true to have fewer decide",
    ),
    "down at once": _sentinel(
        {"downAfterMilliseconds": 100}, ".downAfterMilliseconds = 100: must be 500 to 600000 milliseconds"
    ),
    "a typo of the Sentinels'": _sentinel(
        {"failoverTimeout": 3000}, ".failoverTimeout = 3000: unknown key, did you mean failoverTimeoutMilliseconds?"
    ),
    "Sentinels of others and of its own": _sentinel(
        {"reference": {"name": "shared"}, "replicas": 5, "resources": {}},
        ".replicas = 5: belongs to the set's own Pods, which shared declares; write it there",
        ".resources = {…}: belongs to the set's own Pods, which shared declares; write it there",
    ),
    "reference without a name": _sentinel({"reference": {}}, ".reference.name: is required"),
    "reference to an address": _sentinel(
        {"reference": {"name": "10.0.0.1"}},
        '.reference.name = "10.0.0.1": an instance\'s name is a DNS label: small letters, digits and hyphens, a letter '
        "first, no hyphen last",
    ),
    "Sentinels without memory": _sentinel(
        {"resources": {"limits": {"memory": "8Mi"}}}, '.resources.limits.memory = "8Mi": a Sentinel needs at least 16Mi'
    ),
    # Settings of the server.
    "cluster's setting in a dataset": _replica(
        {"config": {"cluster-node-timeout": 3000}},
        '.config.cluster-node-timeout = "3000": is set by the component: it is a cluster\'s; only `architecture: '
        "cluster` has it",
    ),
    "replicas to write under config": _failover(
        {"config": {"min-replicas-to-write": 1}},
        '.config.min-replicas-to-write = "1": is set by the component: write minReplicasToWrite beside config',
    ),
    "priority under config": _failover(
        {"config": {"replica-priority": 10}},
        '.config.replica-priority = "10": is set by the component: who is promoted is chosen by who has most of the '
        "data",
    ),
    "Secret of the Sentinels' name": _failover(
        {"auth": {"passwordSecret": {"name": "sessions-sentinel"}}},
        ".auth.passwordSecret.name = (hidden): sessions-sentinel is the name of the Secret that would be generated; "
        "call yours otherwise",
    ),
    "dataset paused without persistence": _replica(
        {"paused": True},
        ".paused = true: its data is in the memory of its Pods and would go with them; only an instance with "
        "persistence rests. Remove paused, or make a new instance with persistence",
    ),
}
