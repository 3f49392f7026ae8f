"""What an arbiter does next: a pure function of what it knows. ADR 0120 says why it is safe.

Whoever wants to have its server take writes needs, in this order: the Lease in its own name by a write that went well,
the fence armed for less than others will wait from then on, no promise that it gave, and the word of nobody who has
more data. Whoever isn't sure of the Lease any more stops its server in time, without asking anybody.
"""

from __future__ import annotations

from valkeyctl.agent.primacy.rules_primary import as_primary
from valkeyctl.agent.primacy.rules_replica import as_holder, as_other
from valkeyctl.agent.primacy.rules_still import stand_still
from valkeyctl.agent.primacy.situation import Action, Idle, Situation


def decide(s: Situation) -> Action:
    """The next thing to do."""
    if s.stands_still:
        return stand_still(s)
    if s.own.is_primary:
        return as_primary(s)
    if s.spec is None or s.me.member not in s.spec.everybody:
        return Idle("nothing is declared for this member")
    if s.lease is None:
        return Idle("the Lease hasn't been read yet")
    return (as_holder if s.holds else as_other)(s, s.lease, s.spec)
