"""One dataset: a primary and its replicas, without cluster mode. It is shard 0 of its instance (ADR 0110).

`model` (ReplicationSpec), `observe`, `plan` (pure), `apply`, `converge` and `report`, as for a cluster. Nothing is
imported here: the agent needs the records before its server starts, and must not pay for valkey-py then (ADR 0051).
"""
