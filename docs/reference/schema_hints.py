"""What a JSON schema of the stack config says beside the models: an example of each key, and rules in a schema's words.

A validator's rule is a function, an editor's a pattern. Each pattern here is at most as strict as its validator: an
editor may miss a mistake, and never objects to what the program takes. A key without an example fails a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.names import MAX_INSTANCE_NAME
from components.rules import NODE_TIMEOUT_MS
from components.versions import DEFAULT_LINE, RELEASES, image_of
from valkeyctl.dataplane.model import MAX_REPLICAS, MAX_SHARDS

DIGEST = "sha256:" + "0" * 64
Schema = dict[str, Any]

_QUANTITY = r"^(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)?$"
#: A number alone has seven digits at least: below a mebibyte the unit has been forgotten.
_BYTES = r"^((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+|Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)|\d{7,}(\.\d*)?)$"
_OBJECT_NAME: Schema = {"type": "string", "maxLength": 253, "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"}
#: A tag, or a digest, or both: no reference that means another image tomorrow.
_PINNED = r"(:\w[\w.-]{0,127}|@sha256:[0-9a-f]{64})$"
_TOO_OLD = r":v?[0-7]\.\d+(\.\d+)?(-[\w.-]+)?$"

_CPU: Schema = {
    "anyOf": [{"type": "string", "pattern": _QUANTITY}, {"type": "number", "exclusiveMinimum": 0}],
}
_MEMORY: Schema = {"anyOf": [{"type": "string", "pattern": _BYTES}, {"type": "integer", "minimum": 2**20}]}
_RANGES = r"^(\d{1,5}(-\d{1,5})?)(,\s*\d{1,5}(-\d{1,5})?)*$"

INSTANCE_NAME: Schema = {"maxLength": MAX_INSTANCE_NAME, "pattern": r"^[a-z]([a-z0-9-]*[a-z0-9])?$"}

#: `<model>.<field>` → what replaces the schema that follows from the field's type.
SCHEMAS: Mapping[str, Schema] = {
    "Amounts.cpu": _CPU,
    "Amounts.memory": _MEMORY,
    "Persistence.size": _MEMORY,
    "Persistence.storage_class_name": _OBJECT_NAME,
    "SecretKey.name": _OBJECT_NAME,
    "SecretKey.key": {"type": "string", "maxLength": 253, "pattern": r"^[-._a-zA-Z0-9]+$"},
    "Instance.image": {"type": "string", "allOf": [{"pattern": _PINNED}, {"not": {"pattern": _TOO_OLD}}]},
    "Instance.version": {"type": "string", "enum": sorted({*RELEASES, *RELEASES.values()}, reverse=True)},
    "Instance.shards": {"type": "integer", "minimum": 1, "maximum": MAX_SHARDS},
    "Instance.replicas": {"type": "integer", "minimum": 0, "maximum": MAX_REPLICAS},
    "Instance.slots": {
        "type": "object",
        "patternProperties": {
            r"^(0|[1-9]\d{0,2})$": {
                "anyOf": [{"type": "string", "pattern": _RANGES}, {"type": "integer", "minimum": 0, "maximum": 16383}]
            }
        },
        "additionalProperties": False,
    },
    "Instance.primaries": {
        "type": "object",
        "patternProperties": {r"^(0|[1-9]\d{0,2})$": {"type": "integer", "minimum": 0, "maximum": MAX_REPLICAS}},
        "additionalProperties": False,
    },
    "Instance.restart": {
        "anyOf": [{"type": "string", "maxLength": 253, "pattern": r"\S"}, {"type": "integer"}],
    },
    "Rollout.max_parallel_shards": {"type": "integer", "minimum": 1, "maximum": MAX_SHARDS},
    "Takeover.after_s": {"type": "integer", "minimum": 10, "maximum": 86400},
    "Migration.max_parallel": {"type": "integer", "minimum": 1, "maximum": MAX_SHARDS},
    "Migration.pipeline": {"type": "integer", "minimum": 1, "maximum": 10000},
    "Instance.timeout_s": {"type": "integer", "minimum": 10, "maximum": 86400},
    "Instance.architecture": {"type": "string", "enum": ["cluster"]},
    "Agent.image": {"type": "string", "pattern": _PINNED},
    "Kubernetes.context": {"type": "string", "pattern": r"\S"},
    "Kubernetes.namespace": {"type": "string", "maxLength": 63, "pattern": r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"},
    "Kubernetes.kubeconfig": {
        "anyOf": [
            {"type": "string", "pattern": r"\S"},
            # As `pulumi config set --secret --path` writes it.
            {"type": "object", "patternProperties": {"^secure$": {"type": "string"}}, "additionalProperties": False},
        ],
    },
}

#: `<model>.<field>` → what may be written in the place of a mapping.
WORDS_FOR_MAPPINGS: Mapping[str, Schema] = {"Instance.takeover": {"const": "never"}}

_PAIRS = r"([1-9]\d{0,8} \d{1,9})"
_BUFFERS = r"((normal|replica|pubsub) \d+([bB]|[kKmMgG][bB]?)? \d+([bB]|[kKmMgG][bB]?)? \d+)"
#: Settings of the server with a grammar of their own → the pattern of an entry, of which there may be several.
GRAMMARS: Mapping[str, str] = {
    "save": _PAIRS,
    "client-output-buffer-limit": _BUFFERS,
    "latency-tracking-info-percentiles": r"(100|\d{1,2}(\.\d+)?)",
}
#: Settings of one word with a grammar of their own → its pattern.
WORDS: Mapping[str, str] = {"notify-keyspace-events": r"^[Ag$lshzxeKEtmdn]*$"}
#: Settings of which less is accepted here than by the server → lowest, highest.
NARROWER: Mapping[str, tuple[int, int]] = {"cluster-node-timeout": NODE_TIMEOUT_MS}
#: Defaults of the settings that take effect only at a server's start, which the table of servers doesn't have.
START_DEFAULTS: Mapping[str, str] = {
    "always-show-logo": "no",
    "cluster-databases": "1",
    "databases": "16",
    "disable-thp": "yes",
    "mptcp": "no",
    "rdbchecksum": "yes",
    "repl-mptcp": "no",
    "set-proc-title": "yes",
    "socket-mark-id": "0",
    "tcp-backlog": "511",
}

#: `<model>.<field>` → a value that a person may well write there.
EXAMPLES: Mapping[str, Any] = {
    "StackConfig.kubernetes": {"context": "prod-cluster", "namespace": "valkey"},
    "StackConfig.defaults": {"version": DEFAULT_LINE, "replicas": 2},
    "StackConfig.instances": {"sessions": {"shards": 3, "replicas": 1}},
    "Kubernetes.context": "prod-cluster",
    "Kubernetes.namespace": "valkey",
    "Kubernetes.kubeconfig": "~/.kube/config",
    "Kubernetes.transport": "direct",
    "Instance.architecture": "cluster",
    "Instance.image": f"{image_of(DEFAULT_LINE)}@{DIGEST}",
    "Instance.version": DEFAULT_LINE,
    "Instance.shards": 6,
    "Instance.allow_few_shards": True,
    "Instance.replicas": 2,
    "Instance.slots": {"0": "0-5460", "1": "5461-10922", "2": "10923-16383"},
    "Instance.config": {"maxmemory-policy": "allkeys-lru"},
    "Instance.persistence": {"size": "10Gi"},
    "Instance.resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    "Instance.migration": {"maxParallel": 4},
    "Migration.max_parallel": 4,
    "Migration.method": "keys",
    "Migration.pipeline": 200,
    "Instance.auth": {"passwordSecret": {"name": "sessions-password"}},
    "Instance.agent": {"log": "json"},
    "Instance.rollout": {"maxParallelShards": 2},
    "Instance.restart": "2026-11-30",
    "Instance.paused": True,
    "Instance.primaries": {"0": 1},
    "Instance.prefer_ordinal_zero": True,
    "Instance.spread_primaries": True,
    "Instance.takeover": {"afterSeconds": 60},
    "Instance.timeout_s": 900,
    "Instance.allow_data_loss": True,
    "Instance.protect": True,
    "Resources.requests": {"cpu": "500m", "memory": "1Gi"},
    "Resources.limits": {"memory": "1Gi"},
    "AgentResources.requests": {"cpu": "10m", "memory": "32Mi"},
    "AgentResources.limits": {"memory": "96Mi"},
    "Amounts.cpu": "500m",
    "Amounts.memory": "1Gi",
    "Agent.image": "python:3.13-slim",
    "Agent.resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "96Mi"}},
    "Agent.heal": False,
    "Agent.log": "json",
    "Persistence.size": "10Gi",
    "Persistence.storage_class_name": "fast",
    "Persistence.reclaim_policy": "Retain",
    "Auth.password_secret": {"name": "sessions-password", "key": "password"},
    "SecretKey.name": "sessions-password",
    "SecretKey.key": "password",
    "Takeover.after_s": 60,
    "Rollout.max_parallel_shards": 2,
}

#: Rules of an instance that concern several keys at once. Those that need arithmetic are the program's alone.
INSTANCE_RULES: list[Schema] = [{"not": {"required": ["image", "version"]}}]

_YES: Schema = {"anyOf": [{"const": True}, {"type": "string", "pattern": "^[yY][eE][sS]$"}]}
_NOTHING: Schema = {"enum": ["", []]}
#: Rules that hold for an instance alone, but not over defaults, which may say what it lacks.
LONE_INSTANCE_RULES: list[Schema] = [
    {
        "if": {"properties": {"shards": {"maximum": 2}}, "required": ["shards"]},
        "then": {"properties": {"allowFewShards": {"const": True}}, "required": ["allowFewShards"]},
    },
    {
        "if": {"not": {"properties": {"persistence": {"type": "object"}}, "required": ["persistence"]}},
        "then": {
            "properties": {
                "paused": {"const": False},
                "config": {"properties": {"appendonly": {"not": _YES}, "save": _NOTHING}},
            }
        },
    },
    *(
        {
            "if": {"properties": {"replicas": {"const": replicas}}, "required": ["replicas"] if replicas != 1 else []},
            "then": {"properties": {"config": {"properties": {"min-replicas-to-write": {"maximum": replicas}}}}},
        }
        for replicas in range(MAX_REPLICAS + 1)
    ),
]
