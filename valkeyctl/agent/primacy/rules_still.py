"""What an arbiter does where agents aren't to fail over any more: somebody else decides now, and it is in nobody's way.

Others may not know of that yet. So the holder goes on renewing the Lease, as the only one that may take it, which needs
no end; and where its role is moved without it, it gives the Lease to whoever has that.
"""

from __future__ import annotations

from valkeyctl.agent.primacy.fence import ALONE
from valkeyctl.agent.primacy.rules_primary import keep
from valkeyctl.agent.primacy.situation import Action, Ask, Expect, Give, Idle, Situation


def stand_still(s: Situation) -> Action:
    """The next thing to do."""
    if s.own.is_primary:
        if s.holds or s.lease is None:
            return keep(s)
        return Expect(ALONE) if s.until is not None and s.until < ALONE else Idle()
    if not s.holds or s.busy or s.upstream is None or not s.own.is_settled_replica:
        return Idle()
    if s.words is None:
        return Ask()
    above = s.words.get(s.upstream)
    if above is None or not above.is_primary:
        return Idle()
    return Give(above.seat, yielding=False, why=f"{above.member} has been made the primary")
