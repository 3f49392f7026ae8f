"""What the user may do at the servers as whom the Sentinels sign in there. Tested by real failovers on every line."""

from __future__ import annotations

SENTINELS_AT_SERVERS: tuple[str, ...] = (
    "resetchannels",
    "&__sentinel__:hello",
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
    # A coordinated failover is made of these. Sentinels do that since 9.0, also to servers that are older (which know
    # these commands): without the rights every one is given up.
    "+failover",
    "+client|pause",
    "+client|unpause",
)
"""The words of an ACL rule: commands and the one channel, no keys.

Source: https://valkey.io/topics/sentinel/, "Sentinel and Valkey authentication", and `sentinel.conf`.
"""
