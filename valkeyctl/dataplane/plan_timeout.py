"""A short node timeout for the moment in which an empty node gets its first slots.

A primary that was in a minority waits for the node timeout (at most 5 s) before it serves, and one without slots
counts as in a minority of none. With the default timeout a new cluster is down for 5 s after all else is done. The
only thing that shortens it is the timeout itself, which is set back in the round after the node serves, or by the
next run.
"""

from __future__ import annotations

from valkeyctl.dataplane.findings import Findings
from valkeyctl.dataplane.knowledge import Knowledge
from valkeyctl.dataplane.steps import SetNodeTimeout
from valkeyctl.dataplane.view import NodeView, Role

SHORT_MS = 500


def hasten(k: Knowledge, primary: NodeView, found: Findings) -> None:
    """Shorten the timeout of an empty node that is about to get its first slots, while all members answer."""
    declared = k.spec.node_timeout_ms
    if declared is not None and declared > SHORT_MS and not k.view.missing and primary.node_timeout_ms == declared:
        found.do(SetNodeTimeout(primary.member, SHORT_MS))


def restore_node_timeouts(k: Knowledge, found: Findings) -> None:
    """Set the declared timeout again, on every node that doesn't wait to serve its first slots any more."""
    declared = k.spec.node_timeout_ms
    if declared is None:
        return
    for node in k.nodes.values():
        waits_to_serve = node.role is Role.PRIMARY and not node.state_ok and not k.view.missing and not found.problems
        if node.node_timeout_ms != declared and not (waits_to_serve and node.node_timeout_ms == SHORT_MS):
            found.do(SetNodeTimeout(node.member, declared))
