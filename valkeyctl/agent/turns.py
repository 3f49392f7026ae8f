"""Whose turn it is: the agent's way to the instance's Lease, and back.

Light but for what speaks to the API server: what heals is imported once the Lease is held. So an instance that is just
being made, whose agents all see that something is off while `up` is at it, costs them next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from valkeyctl.agent.runtime import Runtime
from valkeyctl.dataplane.errors import Interrupted
from valkeyctl.dataplane.model import Member
from valkeyctl.kube.access import Api
from valkeyctl.kube.declared import DeclaredState, read_declared
from valkeyctl.kube.lease import AgentTurn

if TYPE_CHECKING:
    from valkeyctl.dataplane import Dialer

API_PATIENCE_S = 2.0


class End(Enum):
    """How a turn ended."""

    RIGHT = "all is as declared"
    HEALED = "all is as declared again"
    HELD = "somebody else holds the Lease"
    ATTENDED = "another one has attended to it"
    NOT_DECLARED = "nothing is declared"
    SWITCHED_OFF = "healing is switched off; the next `pulumi up` heals"
    PAUSED = "the instance is paused, or about to be; the next `pulumi up` says more"
    STOPPED = "it was stopped"
    LEAVING = "this member isn't declared any more"
    NOT_HEALED = "it could not be healed"

    @property
    def settled(self) -> bool:
        """Whether there is nothing more to tell: all is well, or it is for others to say what is not."""
        return self not in (End.HELD, End.STOPPED, End.NOT_HEALED)


@dataclass(frozen=True)
class Turn:
    """How a turn ended, and why in a sentence ("" where the end says it all)."""

    end: End
    why: str = ""


def why_not(state: DeclaredState | None) -> End:
    """How a turn ends at once where agents may not heal."""
    if state is None:
        return End.NOT_DECLARED
    return End.PAUSED if state.paused else End.SWITCHED_OFF


class Turns:
    """Takes turns; knows from one to the next what it has seen of the Lease and what is declared."""

    def __init__(self, runtime: Runtime, api: Api, *, dialer: Dialer | None = None) -> None:
        """`dialer` as for `heal`."""
        self._runtime = runtime
        place = runtime.environment
        self._api = api.patient(API_PATIENCE_S)
        self._lease = AgentTurn(api, place.namespace, place.instance, pod=place.pod)
        self._dialer = dialer
        self.declared: DeclaredState | None = None
        """What was declared when that was read last."""

    def take(self, *, after_others: bool, missing_since: Mapping[Member, float]) -> Turn:
        """Take the Lease if it is free, heal, tell, and give it back. Never waits for a holder.

        `after_others` as for the Lease, `missing_since` as for `converge`. Errors: those of the API, where nothing
        could be begun.
        """
        # Before the Lease: an instance that isn't declared yet, or any more, is left alone without a write.
        state = self._read_declared()
        if state is None or not state.may_heal:
            return Turn(why_not(state))
        if self._runtime.environment.member not in state.spec.members:
            # Its shard is new and not declared yet, or leaving: what becomes of it is for `up`, or for the others.
            return Turn(End.LEAVING)
        lease = self._lease.take(after_others=after_others)
        if lease is None:
            return Turn(End.HELD if self._lease.held_by_others else End.ATTENDED)
        try:
            from valkeyctl.agent.heal import heal  # noqa: PLC0415 - heavy, see above

            return heal(
                self._runtime,
                self._api,
                lease,
                declared=self._read_declared,
                missing_since=missing_since,
                dialer=self._dialer,
            )
        except Interrupted as error:
            return Turn(End.STOPPED, error.what)
        finally:
            lease.release()

    def _read_declared(self) -> DeclaredState | None:
        place = self._runtime.environment
        self.declared = read_declared(self._api, place.namespace, place.instance)
        return self.declared
