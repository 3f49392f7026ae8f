"""Handing the primary's role over before its server stops, where Sentinels decide who has it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from valkeyctl.agent.dataset.handover import in_sync
from valkeyctl.agent.dataset.known import Known
from valkeyctl.agent.dataset.state import of_dataset
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.watch import Watch
from valkeyctl.dataplane.errors import Interrupted, ValkeyctlError
from valkeyctl.dataplane.model import Endpoint, Member

if TYPE_CHECKING:
    from valkeyctl.agent.dataset.heal_sentinels import Watchers

LEAST_S = 1.0
"""Less time than this is none to begin another try in."""


@dataclass(frozen=True)
class SentinelHandOver:
    """Has the Sentinels and the servers hand the role over, with the very plan that `up` uses."""

    environment: Environment
    watch: Watch
    known: Known
    addresses: Callable[[], Mapping[Member, str]]
    named: Callable[[], Member | None]
    watchers: Callable[[], Watchers]
    log: Log

    def __call__(self, deadline: float) -> str:
        """Hand over to the best replica, one after the other; what became of it. `deadline` is of the monotonic clock.

        Never raises.
        """
        tried: set[Member] = set()
        while (state := self.watch.look_again(1.0)).serving:
            if state.is_replica:
                return "handed over: the server is a replica now" if tried else "the server is a replica"
            best = next((one for one in in_sync(state, self.known.member_at) if one not in tried), None)
            if best is None or time.monotonic() > deadline - LEAST_S:
                return "no replica took over" if tried else "there is no replica in sync to hand over to"
            tried.add(best)
            self._to(best, deadline)
        return f"the server is {state.phase}"

    def _to(self, best: Member, deadline: float) -> None:
        declared = self.known.declared
        if declared is None:
            return
        try:
            self.watchers().hand_over(
                declared,
                self._places,
                best,
                deadline_s=deadline - time.monotonic(),
                may_go_on=lambda: self._until_done(best),
            )
        except Interrupted:
            pass
        except (ValkeyctlError, OSError) as error:
            self.log.warning("handover", f"the role couldn't be handed over to {best}: {error}")

    def _until_done(self, best: Member) -> None:
        live = of_dataset(self.watch.look_again(0.2))
        if live is None or (live.is_replica and self.named() == best):
            raise Interrupted("the role was handed over")

    def _places(self) -> dict[Member, Endpoint]:
        place = self.environment
        known = {**self.addresses(), place.member: place.address}
        return {
            member: Endpoint(member, f"{place.instance}-{member}", place.host_of(member), address, place.client_port)
            for member, address in known.items()
            if member in self.known.members
        }
