"""Whom a Sentinel would promote: the rules of the Sentinel itself, so that it is only asked when its choice is known.

Source: `sentinelSelectReplica` in Valkey's `src/sentinel.c`, 8.1 and 9.1 alike.
"""

from __future__ import annotations

from valkeyctl.dataplane.sentinel.view import KnownReplica, SentinelView

SILENT_MS = 5_000
STALE_MS = 30_000


def is_eligible(replica: KnownReplica, down_after_ms: int) -> bool:
    """Whether a Sentinel would consider it: it answers, told of itself lately, follows, and may be promoted at all."""
    return (
        not replica.down
        and replica.linked
        and replica.answered_ms <= SILENT_MS
        and replica.priority != 0
        and replica.told_ms <= STALE_MS
        and replica.link_down_ms <= 10 * down_after_ms
    )


def eligible(sentinel: SentinelView) -> list[KnownReplica]:
    """The replicas that a Sentinel would consider now."""
    if sentinel.monitored is None:
        return []
    down_after_ms = sentinel.monitored.parameters.down_after_ms
    return [replica for replica in sentinel.replicas if is_eligible(replica, down_after_ms)]


def surely_selects(sentinel: SentinelView, wanted: KnownReplica) -> bool:
    """Whether it would promote `wanted`, whatever offsets the replicas tell it next.

    The lowest priority wins; among equals the one with more data, which changes while clients write: equals won't do.
    """
    considered = eligible(sentinel)
    return wanted in considered and all(wanted.priority < other.priority for other in considered if other is not wanted)
