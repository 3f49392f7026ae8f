"""Who signs in where Sentinels are, and what each may do there. Tested by real failovers on every line.

A set of Sentinels has one Secret with two passwords. With the one under `OPERATOR_KEY` agents and `up` sign in at
the Sentinels as `OPERATOR`, and the Sentinels at one another and at the servers as `SENTINEL`. The one under
`CLIENTS_KEY` is for clients, who sign in at the Sentinels as the default user and may only ask where the primary is.
"""

from __future__ import annotations

OPERATOR, SENTINEL = "_operator", "_sentinel"
"""The users of our own; clients are the default user."""
OPERATOR_KEY, CLIENTS_KEY = "operator", "password"
"""The keys of the Secret."""

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

SENTINELS_AT_SENTINELS: tuple[str, ...] = (
    "resetchannels",
    "&__sentinel__:hello",
    "+ping",
    "+publish",
    "+subscribe",
    "+client|setname",
    "+sentinel|is-master-down-by-addr",
    "+sentinel|is-primary-down-by-addr",
)
"""What Sentinels ask of one another: whether it lives, whether it calls the primary down too, and for its vote."""

CLIENTS_AT_SENTINELS: tuple[str, ...] = (
    "allchannels",
    "+ping",
    "+auth",
    "+hello",
    "+role",
    "+info",
    "+client|id",
    "+client|setname",
    "+client|setinfo",
    "+client|getname",
    "+command",
    "+subscribe",
    "+psubscribe",
    "+unsubscribe",
    "+punsubscribe",
    "+sentinel|get-master-addr-by-name",
    "+sentinel|get-primary-addr-by-name",
    "+sentinel|master",
    "+sentinel|masters",
    "+sentinel|primary",
    "+sentinel|primaries",
    "+sentinel|replicas",
    "+sentinel|slaves",
    "+sentinel|sentinels",
    "+sentinel|ckquorum",
    "+sentinel|myid",
)
"""What clients do there: ask, and hear of what happens. They can change nothing."""
