"""Wrong stack configs and what a person is told about each, word for word."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bad:
    """`instance` is the config of the instance `sessions`, whose path stands before each of the `lines`."""

    instance: Any
    lines: tuple[str, ...]


def _bad(instance: Any, *lines: str) -> Bad:
    return Bad(instance, lines)


QUANTITY = "not a quantity; written like 100m, 0.5, 128Mi, 1Gi"
NAME = "a name has small letters, digits, hyphens and dots, at most 253, a letter or a digit first and last"
KEY = "a key of a Secret has letters, digits, hyphens, dots and underscores, at most 253"
MEMORY = "not a memory value of the server; written like 100mb, 1gb, 1048576"
BUFFER = 'must be "<class> <hard limit> <soft limit> <soft seconds>", like "replica 256mb 64mb 60"'
SAVE = 'must be pairs of seconds and changes, like "900 1 300 10", or "" for no snapshots'
POLICIES = (
    "volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"
)
FEW = "a cluster of fewer than 3 shards can't fail over; set allowFewShards: true to have it for development"
VERSIONS = "9.1 (9.1.2), 8.1 (8.1.8)"
THIRDS = {"0": "0-5460", "1": "5461-10922", "2": "10923-16383"}
VOLUME = {"size": "1Gi"}

BAD: dict[str, Bad] = {
    # Keys and types.
    "unknown key": _bad({"shard": 3}, ".shard = 3: unknown key, did you mean shards?"),
    "snake case": _bad(
        {"allow_few_shards": True}, ".allow_few_shards = true: unknown key, did you mean allowFewShards?"
    ),
    "unknown key far from any": _bad({"xyz": 1}, ".xyz = 1: unknown key"),
    "unknown key further down": _bad(
        {"persistence": {"size": "1Gi", "class": "fast"}}, '.persistence.class = "fast": unknown key'
    ),
    "key from Kubernetes": _bad(
        {"persistence": {"size": "1Gi", "storageClass": "fast"}},
        '.persistence.storageClass = "fast": unknown key, did you mean storageClassName?',
    ),
    "key with a blank": _bad({"my key": 1}, '["my key"] = 1: unknown key'),
    "no mapping": _bad("three shards", ' = "three shards": must be a mapping'),
    "nothing": _bad(None, " = null: must be a mapping"),
    "a list": _bad([1, 2], " = […]: must be a mapping"),
    "text for a number": _bad({"shards": "3"}, '.shards = "3": must be a whole number'),
    "fraction for a number": _bad({"shards": 3.5}, ".shards = 3.5: must be a whole number"),
    "boolean for a number": _bad({"replicas": True}, ".replicas = true: must be a whole number"),
    "number for a boolean": _bad({"allowFewShards": 1}, ".allowFewShards = 1: must be true or false"),
    "text for a boolean": _bad({"allowFewShards": "yes"}, '.allowFewShards = "yes": must be true or false'),
    "several at once, sorted": _bad(
        {"shards": 0, "replicas": -1, "persistence": {}, "image": "valkey"},
        '.image = "valkey": names no tag and no digest, so it would mean another version tomorrow; write valkey:9.1.2',
        ".persistence.size: is required",
        ".replicas = -1: a shard has 0 to 5 replicas",
        ".shards = 0: a cluster has 3 to 128 shards",
    ),
    # Pause.
    "paused without persistence": _bad(
        {"paused": True},
        ".paused = true: its data is in the memory of its Pods and would go with them; only an instance with "
        "persistence rests. Remove paused, or make a new instance with persistence",
    ),
    "paused as text": _bad({"paused": "yes", "persistence": VOLUME}, '.paused = "yes": must be true or false'),
    "pause for a time": _bad({"pausedUntil": 1}, ".pausedUntil = 1: unknown key, did you mean paused?"),
    # Topology.
    "unknown architecture": _bad(
        {"architecture": "clusters"},
        '.architecture = "clusters": must be cluster, failover, replica, did you mean cluster?',
    ),
    "failover": _bad(
        {"architecture": "failover"},
        '.architecture = "failover": isn\'t available yet; what there is now is cluster',
    ),
    "replica": _bad(
        {"architecture": "replica"},
        '.architecture = "replica": isn\'t available yet; what there is now is cluster',
    ),
    "architecture of another type": _bad({"architecture": 1}, ".architecture = 1: must be cluster, failover, replica"),
    "no shards": _bad({"shards": 0}, ".shards = 0: a cluster has 3 to 128 shards"),
    "too many shards": _bad({"shards": 129}, ".shards = 129: a cluster has 3 to 128 shards"),
    "one shard": _bad({"shards": 1}, f".shards = 1: {FEW}"),
    "two shards": _bad({"shards": 2, "allowFewShards": False}, f".shards = 2: {FEW}"),
    "too many replicas": _bad({"replicas": 6}, ".replicas = 6: a shard has 0 to 5 replicas"),
    "too short a deadline": _bad({"timeoutSeconds": 1}, ".timeoutSeconds = 1: must be 10 to 86400 seconds"),
    # Layout.
    "places to spread over": _bad({"spreadPrimaries": "zone"}, '.spreadPrimaries = "zone": must be true or false'),
    "primaries as a list": _bad(
        {"primaries": [1]},
        '.primaries = […]: must be a mapping from shard to the ordinal of its primary, like {"0": 1}',
    ),
    "primaries of a named shard": _bad(
        {"primaries": {"s0": 1}}, ".primaries.s0 = 1: a shard is named by its number, counted from 0"
    ),
    "primaries named by their Pods": _bad(
        {"primaries": {"0": "sessions-s0-1"}},
        '.primaries.0 = "sessions-s0-1": a member is named by its ordinal, counted from 0',
    ),
    "a primary of no shard": _bad(
        {"primaries": {"3": 0}}, ".primaries.3 = 0: there is no such shard: 3 shards are 0 to 2"
    ),
    "a primary beyond the replicas": _bad(
        {"primaries": {"0": 2}}, ".primaries.0 = 2: there is no such member: the ordinals are 0 to 1"
    ),
    "a roll of no shard": _bad(
        {"rollout": {"maxParallelShards": 0}}, ".rollout.maxParallelShards = 0: must be 1 to 128"
    ),
    "a restart for nothing": _bad(
        {"restart": " "}, '.restart = " ": must be a text of at most 253 characters, like a date or a ticket'
    ),
    "a restart by yes": _bad(
        {"restart": True}, ".restart = true: must be a text of at most 253 characters, like a date or a ticket"
    ),
    "slots as text": _bad(
        {"slots": "0-16383"},
        '.slots = "0-16383": must be a mapping from shard to slots, like '
        '{"0": "0-5460", "1": "5461-10922", "2": "10923-16383"}',
    ),
    "slots of a named shard": _bad(
        {"slots": {**THIRDS, "s0": "1"}}, '.slots.s0 = "1": a shard is named by its number, counted from 0'
    ),
    "slots as a list": _bad(
        {"slots": {**THIRDS, "0": ["0-5460"]}}, '.slots.0 = […]: must be text with slots, like "0-5460,7000"'
    ),
    "slots that are none": _bad(
        {"slots": {**THIRDS, "1": "a-b"}},
        """.slots.1 = "a-b": 'a-b' isn't a slot or a range of slots. Write "0-5460,7000".""",
    ),
    "slots beyond the last": _bad(
        {"slots": {**THIRDS, "2": "10923-16384"}},
        """.slots.2 = "10923-16384": '10923-16384' goes beyond the last slot, 16383""",
    ),
    "slots backwards": _bad(
        {"slots": {**THIRDS, "0": "5460-0"}}, """.slots.0 = "5460-0": '5460-0' ends before it starts"""
    ),
    "a gap": _bad(
        {"slots": {**THIRDS, "1": "5461-10000"}},
        ".slots = {…}: every slot from 0 to 16383 is named once: no shard has the slots 10001-10922",
    ),
    "an overlap": _bad(
        {"slots": {**THIRDS, "1": "5460-10922"}},
        ".slots = {…}: every slot from 0 to 16383 is named once: shard 1 names slots that another shard has: 5460",
    ),
    "a shard without slots": _bad(
        {"slots": {"0": "0-5460", "2": "5461-16383"}}, ".slots = {…}: says nothing of shard 1"
    ),
    "slots of a shard too many": _bad(
        {"slots": {**THIRDS, "3": "5"}}, '.slots.3 = "5": there is no such shard: 3 shards are 0 to 2'
    ),
    # Image and version.
    "version as a number": _bad({"version": 9.1}, '.version = 9.1: must be text; write "9.1", in quotes'),
    "unknown version": _bad(
        {"version": "7.2"},
        f'.version = "7.2": not a version that is known here: {VERSIONS} (another one can be named by its image)',
    ),
    "version and image": _bad(
        {"version": "9.1", "image": "valkey/valkey:9.1.2"},
        '.version = "9.1": image says which version is run; remove one of the two',
    ),
    "image without tag": _bad(
        {"image": "mirror.example:5000/valkey"},
        '.image = "mirror.example:5000/valkey": names no tag and no digest, so it would mean another version tomorrow; '
        "write mirror.example:5000/valkey:9.1.2",
    ),
    "no image reference": _bad(
        {"image": "Valkey 9.1"}, '.image = "Valkey 9.1": not an image reference; written like valkey/valkey:9.1.2'
    ),
    "image too old": _bad(
        {"image": "redis:6.2.1"},
        f""".image = "redis:6.2.1": Valkey before 8.0 isn't supported; the versions are {VERSIONS}""",
    ),
    # Settings of the server.
    "config as text": _bad({"config": "hz 10"}, '.config = "hz 10": must be a mapping of the server\'s settings'),
    "owned setting": _bad(
        {"config": {"cluster-enabled": "no"}},
        '.config.cluster-enabled = "no": is set by the component: it makes the instance a cluster',
    ),
    "owned by pattern": _bad(
        {"config": {"cluster-announce-ip": "10.0.0.1"}},
        '.config.cluster-announce-ip = "10.0.0.1": is set by the component: each Pod announces its own name and '
        "address",
    ),
    "port": _bad(
        {"config": {"port": 7000}},
        '.config.port = "7000": is set by the component: clients, peers and probes rely on it',
    ),
    "TLS": _bad(
        {"config": {"tls-port": 6380}}, '.config.tls-port = "6380": is set by the component: TLS isn\'t available yet'
    ),
    "password": _bad(
        {"config": {"requirepass": "hunter2"}},
        ".config.requirepass = (hidden): is set by the component: a password never stands in a stack config; name a "
        "Secret under auth",
    ),
    "password under its old name": _bad(
        {"config": {"masterauth": "hunter2"}},
        ".config.masterauth = (hidden): is set by the component: a password never stands in a stack config; name a "
        "Secret under auth",
    ),
    "directive": _bad(
        {"config": {"rename-command": "FLUSHALL x"}},
        '.config.rename-command = "FLUSHALL x": is set by the component: probes and `pulumi up` need the commands '
        "under their names",
    ),
    "typo in a setting": _bad(
        {"config": {"maxmemory_policy": "allkeys-lru"}},
        '.config.maxmemory_policy = "allkeys-lru": Valkey 9.1 has no such setting, did you mean maxmemory-policy?',
    ),
    "setting of a newer server": _bad(
        {"version": "8.1", "config": {"hash-seed": "x"}},
        '.config.hash-seed = "x": Valkey 8.1 has no such setting',
    ),
    "typo in an owned setting": _bad(
        {"config": {"cluster-enable": True}},
        '.config.cluster-enable = "yes": Valkey 9.1 has no such setting, did you mean cluster-enabled?',
    ),
    "old name": _bad({"config": {"slave-priority": 1}}, '.config.slave-priority = "1": call it replica-priority'),
    "word that isn't one of them": _bad(
        {"config": {"maxmemory-policy": "allkeys-lur"}},
        f'.config.maxmemory-policy = "allkeys-lur": must be one of {POLICIES}, did you mean allkeys-lru?',
    ),
    "number out of range": _bad({"config": {"io-threads": 500}}, '.config.io-threads = "500": must be 1 to 256'),
    "number below its range": _bad({"config": {"maxclients": 0}}, '.config.maxclients = "0": must be at least 1'),
    "text for a server's number": _bad({"config": {"hz": "fast"}}, '.config.hz = "fast": must be a whole number'),
    "text for a server's boolean": _bad(
        {"config": {"activerehashing": "maybe"}}, '.config.activerehashing = "maybe": must be true or false'
    ),
    "memory with a unit of Kubernetes": _bad(
        {"config": {"repl-backlog-size": "16Mi"}},
        f'.config.repl-backlog-size = "16Mi": {MEMORY} (the server has no Mi and Gi: mb and gb are powers of 1024)',
    ),
    "memory that is none": _bad(
        {"config": {"maxmemory-clients": "much"}}, f'.config.maxmemory-clients = "much": {MEMORY}'
    ),
    "line break": _bad(
        {"config": {"maxmemory-policy": "noeviction\nport 1"}},
        '.config.maxmemory-policy = "noeviction\\nport 1": has a line break or another control character',
    ),
    "mapping for a value": _bad(
        {"config": {"save": {"900": 1}}},
        ".config.save = {…}: must be text, a whole number, true or false, or a list of texts",
    ),
    "fraction for a value": _bad(
        {"config": {"hz": 1.5}}, ".config.hz = 1.5: must be text, a whole number, true or false, or a list of texts"
    ),
    "snapshots without pairs": _bad(
        {"persistence": VOLUME, "config": {"save": "900"}}, f'.config.save = "900": {SAVE}'
    ),
    "snapshots with something else": _bad(
        {"persistence": VOLUME, "config": {"save": ["900 1", "300 10\tx"]}},
        ".config.save = […]: has a line break or another control character",
    ),
    "buffer limit of an unknown class": _bad(
        {"config": {"client-output-buffer-limit": "replicas 256mb 64mb 60"}},
        '.config.client-output-buffer-limit = "replicas 256mb 64mb 60": has no client class replicas: normal, replica, '
        "pubsub, did you mean replica?",
    ),
    "buffer limit too short": _bad(
        {"config": {"client-output-buffer-limit": "replica 256mb"}},
        f'.config.client-output-buffer-limit = "replica 256mb": {BUFFER}',
    ),
    "events that there are not": _bad(
        {"config": {"notify-keyspace-events": "KEA!"}},
        '.config.notify-keyspace-events = "KEA!": must be letters out of Ag$lshzxeKEtmdn',
    ),
    "percentile above 100": _bad(
        {"config": {"latency-tracking-info-percentiles": "50 101"}},
        '.config.latency-tracking-info-percentiles = "50 101": must be percentiles from 0 to 100, like "50 99 99.9"',
    ),
    "node timeout too short": _bad(
        {"config": {"cluster-node-timeout": 100}},
        '.config.cluster-node-timeout = "100": must be 1000 to 120000 milliseconds',
    ),
    "more copies than there are": _bad(
        {"config": {"min-replicas-to-write": 2}},
        '.config.min-replicas-to-write = "2": no write would ever be accepted: each primary has 1 replica',
    ),
    # Memory and resources.
    "maxmemory above the limit": _bad(
        {"resources": {"limits": {"memory": "128Mi"}}, "config": {"maxmemory": "1gb"}},
        '.config.maxmemory = "1gb": must be below the memory limit; the limit is 128Mi, and without a word maxmemory '
        "is 75 % of it",
    ),
    "maxmemory without bound": _bad(
        {"persistence": VOLUME, "config": {"maxmemory": 0}},
        '.config.maxmemory = "0": 0 means no bound, which ends in an out-of-memory kill; the limit is 256Mi, and '
        "without a word maxmemory is 60 % of it",
    ),
    "request above the limit": _bad(
        {"resources": {"requests": {"memory": "256Mi", "cpu": 2}, "limits": {"memory": "128Mi", "cpu": "1500m"}}},
        '.resources.requests.cpu = "2": more than the limit, 1500m',
        '.resources.requests.memory = "256Mi": more than the limit, 128Mi',
    ),
    "limit that no server lives in": _bad(
        {"resources": {"limits": {"memory": "1Mi"}}}, '.resources.limits.memory = "1Mi": a server needs at least 32Mi'
    ),
    "thousandths of a byte": _bad(
        {"resources": {"requests": {"memory": "128m"}}},
        '.resources.requests.memory = "128m": less than one byte; m means a thousandth, did you mean 128Mi?',
    ),
    "memory with a unit that is none": _bad(
        {"resources": {"limits": {"memory": "128MB"}}}, f'.resources.limits.memory = "128MB": {QUANTITY}'
    ),
    "no CPU": _bad({"resources": {"requests": {"cpu": 0}}}, ".resources.requests.cpu = 0: must be more than 0"),
    "CPU as a boolean": _bad(
        {"resources": {"requests": {"cpu": True}}},
        ".resources.requests.cpu = true: must be an amount of CPU, like 100m or 0.5",
    ),
    "negative CPU": _bad({"resources": {"requests": {"cpu": "-1"}}}, f'.resources.requests.cpu = "-1": {QUANTITY}'),
    "resource that there is not": _bad(
        {"resources": {"requests": {"gpu": 1}}}, ".resources.requests.gpu = 1: unknown key, did you mean cpu?"
    ),
    # Persistence.
    "no size": _bad({"persistence": {"reclaimPolicy": "Retain"}}, ".persistence.size: is required"),
    "size that is none": _bad({"persistence": {"size": "1 Gi"}}, f'.persistence.size = "1 Gi": {QUANTITY}'),
    "size without a unit": _bad(
        {"persistence": {"size": "20"}}, '.persistence.size = "20": 20 bytes; did you mean 20Gi?'
    ),
    "size as a number without a unit": _bad(
        {"persistence": {"size": 1}}, ".persistence.size = 1: 1 byte; did you mean 1Gi?"
    ),
    "size of a wrong unit": _bad(
        {"persistence": {"size": "20k"}}, '.persistence.size = "20k": 20000 bytes; the least that is taken is 1Mi'
    ),
    "memory without a unit": _bad(
        {"resources": {"requests": {"memory": "4"}}}, '.resources.requests.memory = "4": 4 bytes; did you mean 4Gi?'
    ),
    "size as a list": _bad(
        {"persistence": {"size": ["1Gi"]}}, ".persistence.size = […]: must be an amount of bytes, like 128Mi or 1Gi"
    ),
    "policy in small letters": _bad(
        {"persistence": {"size": "1Gi", "reclaimPolicy": "retain"}},
        '.persistence.reclaimPolicy = "retain": must be Retain or Delete, did you mean Retain?',
    ),
    "class that can't exist": _bad(
        {"persistence": {"size": "1Gi", "storageClassName": "Fast_SSD"}},
        f'.persistence.storageClassName = "Fast_SSD": {NAME}',
    ),
    "append-only file without a volume": _bad(
        {"config": {"appendonly": True}},
        '.config.appendonly = "yes": there is no volume to keep the file on; declare persistence',
    ),
    "snapshots without a volume": _bad(
        {"config": {"save": "900 1"}},
        '.config.save = "900 1": there is no volume to keep snapshots on; declare persistence',
    ),
    # Authentication: no value is shown, it may be a password.
    "password in the stack config": _bad(
        {"auth": {"password": "hunter2"}}, ".auth.password = (hidden): unknown key, did you mean passwordSecret?"
    ),
    "password in place of a Secret": _bad(
        {"auth": {"passwordSecret": "hunter2"}}, ".auth.passwordSecret = (hidden): must be a mapping"
    ),
    "password in place of everything": _bad({"auth": "hunter2"}, ".auth = (hidden): must be a mapping"),
    "Secret without a name": _bad({"auth": {"passwordSecret": {"key": "x"}}}, ".auth.passwordSecret.name: is required"),
    "Secret that can't exist": _bad(
        {"auth": {"passwordSecret": {"name": "Hunter 2"}}}, f".auth.passwordSecret.name = (hidden): {NAME}"
    ),
    "key that can't exist": _bad(
        {"auth": {"passwordSecret": {"name": "mine", "key": "pass word"}}},
        f".auth.passwordSecret.key = (hidden): {KEY}",
    ),
    "Secret of the generated one's name": _bad(
        {"auth": {"passwordSecret": {"name": "sessions-auth"}}},
        ".auth.passwordSecret.name = (hidden): sessions-auth is the name of the Secret that would be generated; call "
        "yours otherwise",
    ),
    # The agent.
    "agent's image without tag": _bad(
        {"agent": {"image": "python"}},
        '.agent.image = "python": names no tag and no digest, so it would mean another version tomorrow; write '
        "python:3.13-slim",
    ),
    "agent's image that is none": _bad(
        {"agent": {"image": "Python 3"}},
        '.agent.image = "Python 3": not an image reference; written like python:3.13-slim',
    ),
    "limit that no agent lives in": _bad(
        {"agent": {"resources": {"limits": {"memory": "32Mi"}}}},
        '.agent.resources.limits.memory = "32Mi": an agent needs at least 64Mi',
    ),
    "agent's request above its limit": _bad(
        {"agent": {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": "500m"}}}},
        '.agent.resources.requests.cpu = "1": more than the limit, 500m',
    ),
    "agent's log in another form": _bad({"agent": {"log": "yaml"}}, '.agent.log = "yaml": must be text or json'),
    "agent as an image": _bad({"agent": "python:3.13"}, '.agent = "python:3.13": must be a mapping'),
    "key that no agent has": _bad(
        {"agent": {"images": "python:3.13"}}, '.agent.images = "python:3.13": unknown key, did you mean image?'
    ),
}
