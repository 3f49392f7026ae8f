"""Whether a server was told not to take over from its primary: so are all members of an instance that is being paused.

`cluster-replica-no-failover` keeps a server from asking for an election by itself. It doesn't keep it from obeying
CLUSTER FAILOVER, so whoever is about to send that asks here first.
"""

from __future__ import annotations

from valkeyctl.agent.resp import Link

SETTING = "cluster-replica-no-failover"


def must_not_take_over(link: Link) -> bool:
    """Whether the server at the other end is told so; an answer that isn't understood is no. Raises as `Link.ask`."""
    reply = link.ask(("CONFIG", "GET", SETTING))[0]
    return isinstance(reply, list) and reply[1:] == [b"yes"]
