"""The servers' `replica-priority`: what is declared, except for the moment in which one of them is to be chosen.

The others are made worse then, never the one better: Sentinels don't learn the priority of a server that is primary
already. None is made 0, so that whatever happens meanwhile, there is somebody to fail over to.
"""

from __future__ import annotations

from dataclasses import dataclass

from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.rounds import Gathered
from valkeyctl.dataplane.sentinel.knowledge import Knowledge
from valkeyctl.dataplane.sentinel.steps import Action, SetPriority
from valkeyctl.dataplane.view import Role


@dataclass(frozen=True)
class Favour:
    """Whom Sentinels are to choose, and with which priority they know it."""

    member: Member
    priority: int


def set_priorities(k: Knowledge, found: Gathered[Action], favour: Favour | None) -> None:
    """Set what differs. A run that died leaves priorities that only say whom to prefer; this mends them too."""
    for server in k.servers.values():
        wanted = k.spec.priority(server.member)
        is_rival = favour is not None and server.role is Role.REPLICA and server.member != favour.member
        if favour is not None and is_rival and 0 < wanted <= favour.priority:
            wanted = favour.priority + 1
        if server.priority != wanted:
            found.do(SetPriority(server.member, wanted))
