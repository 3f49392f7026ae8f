"""Let primaries serve as soon as it is safe, instead of after the node timeout.

A primary that was in a minority waits for the node timeout (at most 5 s) before it calls the cluster's state ok, so
that the others can tell it if it isn't a primary any more; one without slots counts as in a minority of none. With
the default timeout a new cluster therefore is down for 5 s after all else is done. Here every node has been asked,
and all agree who owns which slots, so there is nothing left to wait for. The only thing that ends the wait is a
shorter timeout; it is set for the fraction of a second that the servers need to notice, and set back in the next
round, or by the next run.
"""

from __future__ import annotations

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.steps import SetNodeTimeout
from valkeyctl.dataplane.view import Role

SHORT_MS = 500
"""The server waits no less, whatever the timeout is."""


def end_the_wait(k: Knowledge, found: Findings, *, settled: bool) -> None:
    """Shorten the timeout of primaries that only wait, and set it back on all others.

    `settled` says that every member answers, knows every other, and agrees on all slots. It is never done under any
    other circumstances: while nodes are still being introduced, a short timeout makes them call each other failed.
    """
    declared = k.spec.node_timeout_ms
    if declared is None or declared <= SHORT_MS:
        return
    quiet = settled and not found.actions and not found.waits and not found.problems
    for node in k.nodes.values():
        wanted = SHORT_MS if quiet and node.role is Role.PRIMARY and not node.state_ok else declared
        if node.node_timeout_ms != wanted:
            found.do(SetNodeTimeout(node.member, wanted))
