"""How much of a Pod's memory the dataset may take."""

from __future__ import annotations

#: Share of the memory limit that `maxmemory` is by default, in per cent.
#:
#: The rest is for what `maxmemory` does not count: pages that are copied while a child writes the dataset to a replica
#: or to disk (with every key rewritten meanwhile, all of it once more), buffers of replicas and the replication
#: backlog, buffers of clients, fragmentation, and the server itself. An instance that persists forks by itself, over
#: and over as its append-only file grows, and most under the heaviest writes; one that doesn't forks only when a
#: replica needs a full copy.
SHARE_IN_MEMORY = 75
SHARE_PERSISTENT = 60

#: Below this a server with a backlog, a few clients and no keys does not stay alive.
LEAST_LIMIT = "32Mi"


def default_maxmemory(limit_bytes: int, *, persistent: bool) -> int:
    """Bytes of `maxmemory` for a memory limit."""
    return limit_bytes * (SHARE_PERSISTENT if persistent else SHARE_IN_MEMORY) // 100


#: Below this an agent does not get through a heal: it takes 40 MiB with all that it may import, and a plan on top.
LEAST_AGENT_LIMIT = "64Mi"
