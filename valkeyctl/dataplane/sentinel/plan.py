"""What Sentinels are to be told next: a pure function of what is declared and what was seen."""

from __future__ import annotations

from valkeyctl.dataplane.rounds import Gathered, Plan
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.model import SentinelSpec
from valkeyctl.dataplane.sentinel.plan_handover import hand_over
from valkeyctl.dataplane.sentinel.plan_monitor import follow_moved_role, monitor_primary
from valkeyctl.dataplane.sentinel.plan_presence import await_acquaintance, await_sentinels, check_ids, refuse_unknown
from valkeyctl.dataplane.sentinel.plan_priorities import set_priorities
from valkeyctl.dataplane.sentinel.plan_prune import prune, release_leaving
from valkeyctl.dataplane.sentinel.plan_tune import tune
from valkeyctl.dataplane.sentinel.steps import Action
from valkeyctl.dataplane.sentinel.view import SentinelsView


def plan(spec: SentinelSpec, view: SentinelsView) -> Plan[Action]:
    """What to do next to have all Sentinels monitor the one living primary as declared. Pure and deterministic.

    Done at the goal. While somebody fails over, or is about to, there is nothing to do but wait: who is the primary is
    decided by the Sentinels then. Any part of a round may be carried out and the rest left; the caller looks and plans
    again after it. Blocked only when nothing else is left to do or to wait for. Names that others have these Sentinels
    monitor are never touched.
    """
    k = Knowledge(spec, view)
    found = Gathered[Action]()
    await_sentinels(k, found)
    check_ids(k, found)
    if k.failing_over:
        for member in k.failing_over:
            found.wait(member, f"the failover of {spec.name} is over")
        return found.plan()
    if k.live is None:
        refuse_unknown(k, found)
        return found.plan()
    favour = follow_moved_role(k, found)
    monitor_primary(k, found)
    tune(k, found)
    release_leaving(k, found)
    prune(k, found)
    favour = hand_over(k, found) or favour
    set_priorities(k, found, favour)
    await_acquaintance(k, found)
    return found.plan()
