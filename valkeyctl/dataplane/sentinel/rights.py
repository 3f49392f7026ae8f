"""What the user may do at the servers as whom the Sentinels sign in there. Tested by real failovers on every line."""

from __future__ import annotations

_ALWAYS: tuple[str, ...] = (
    "+ping",
    "+info",
    "+role",
    "+publish",
    "+subscribe",
    "+multi",
    "+exec",
    "+replicaof",
    "+slaveof",
    "+config|rewrite",
    "+client|kill",
    "+client|setname",
    "+script|kill",
)
# A coordinated failover (9.0 and newer) is made of these; without them every one is given up.
_SINCE_9: tuple[str, ...] = ("+failover", "+client|pause", "+client|unpause")


def server_rights(version: str) -> tuple[str, ...]:
    """The words of an ACL rule for servers of a version ("9.1", "8.1.8"): commands and channels, no keys.

    Source: https://valkey.io/topics/sentinel/, "Sentinel and Valkey authentication", and `sentinel.conf`.
    """
    newer = _SINCE_9 if int(version.partition(".")[0]) >= 9 else ()
    return ("resetchannels", "&__sentinel__:hello", *_ALWAYS, *newer)
