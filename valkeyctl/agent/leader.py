"""The part of the agent that heals: it judges the own server's view, and where something stays off, it tries to lead.

At rest it asks nobody: no request to the API server, no Lease. What is heavy is imported when there is something to do.
An API server that doesn't answer keeps it from healing, and nothing else: servers serve on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from valkeyctl.agent.judge import Judgement, Patience, judge
from valkeyctl.agent.role_label import RoleLabel
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.state import ServerState
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.model import Member

if TYPE_CHECKING:
    from valkeyctl.agent.turns import Turn, Turns
    from valkeyctl.kube.access import Api

SOURCE = "leader"
LOOK_S = 0.5
HELD_S = 2.0
"""How long a Lease that somebody else holds is left alone before it is looked at again."""
ADDRESSES_S, ADDRESSES_LONGEST_S = 1.0, 30.0
"""How often the addresses of agents that don't answer are asked for: seldom, the longer they stay away."""


class Leader:
    """See the module; `run` is its thread."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        api: Callable[[], Api] | None = None,
    ) -> None:
        """`api` makes the connection to the API server, when it is first needed."""
        self._runtime = runtime
        self._make_api = api or _in_cluster
        self._made_api: Api | None = None
        self._made_turns: Turns | None = None
        self._patience = Patience()
        self._label = RoleLabel(runtime.environment)
        self._missing_since: dict[Member, float] = {}
        self._addresses_at, self._addresses_pause_s = float("-inf"), ADDRESSES_S
        self._told = ""

    def run(self) -> None:
        """Work until the agent is asked to end."""
        number = -1
        while not self._runtime.stopping.is_set():
            state = self._runtime.server.wait(after=number, timeout_s=LOOK_S)
            number = state.number
            self._runtime.beat(SOURCE)
            self.look(state)

    def look(self, state: ServerState) -> None:
        """Judge one look at the own server, and do what is due."""
        judgement = judge(self._runtime.environment, state, self._declared())
        self._note_the_missing(judgement, state)
        now = time.monotonic()
        if self._patience.due(judgement, self._runtime.environment.member, now):
            self._lead(judgement)
        self._learn_addresses(judgement)
        role = self._label.wanted(judgement, time.monotonic())
        if role is not None:
            try:
                self._label.write(self._api(), role)
                self._runtime.log.info(SOURCE, f"this Pod is labelled {role}")
            except ValkeyctlError as error:
                self._label.failed(time.monotonic())
                self._runtime.log.warning(SOURCE, f"the role label could not be written: {error}")

    def _declared(self) -> tuple[Member, ...]:
        state = self._made_turns.declared if self._made_turns is not None else None
        return () if state is None else state.spec.members

    def _note_the_missing(self, judgement: Judgement, state: ServerState) -> None:
        """Since when each member has been silent to the own server, without a break; unknown while that is silent."""
        if not state.serving:
            self._missing_since.clear()
            return
        self._missing_since = {
            member: self._missing_since.get(member, state.at)
            for member in self._declared()
            if member not in judgement.alive
        }

    def _lead(self, judgement: Judgement) -> None:
        if judgement.troubles:
            self._say(f"something is off: {'; '.join(judgement.troubles[:5])}")
        try:
            # A new trouble is everybody's; what is only to be told, somebody else may have told.
            after_others = self._patience.fresh and bool(judgement.troubles)
            turn = self._turns().take(after_others=after_others, missing_since=dict(self._missing_since))
        except ValkeyctlError as error:
            self._patience.tried(time.monotonic(), well=False)
            self._say(f"nothing can be healed now: {error}")
            return
        self._after(turn)

    def _after(self, turn: Turn) -> None:
        from valkeyctl.agent.turns import End  # noqa: PLC0415 - imported by now

        now = time.monotonic()
        if turn.end is End.HELD:
            self._patience.postpone(now, HELD_S)
            return
        # Who was before, or will be after, has told what there is to tell.
        self._patience.tried(now, well=turn.end.settled)
        why = f": {turn.why}" if turn.why else ""
        if turn.end in (End.RIGHT, End.HEALED):
            self._told = ""
            self._runtime.log.info(SOURCE, f"{turn.end.value}{why}")
        else:
            self._say(f"{turn.end.value}{why}")

    def _learn_addresses(self, judgement: Judgement) -> None:
        """Ask the API server where agents are that don't answer, while that matters: a Pod that came back has another
        address, and a server that waits for what they tell can't wait for its own node table.
        """
        missing, now = self._runtime.peers.missing, time.monotonic()
        if not missing or (judgement.role is not None and not judgement.troubles):
            self._addresses_pause_s = ADDRESSES_S
            return
        if now - self._addresses_at < self._addresses_pause_s:
            return
        self._addresses_at = now
        self._addresses_pause_s = min(ADDRESSES_LONGEST_S, 1.5 * self._addresses_pause_s)
        try:
            from valkeyctl.kube.named_directory import NamedDirectory  # noqa: PLC0415 - imported when it is needed

            place = self._runtime.environment
            found = NamedDirectory(self._api(), place.namespace, place.instance, sorted(missing), place.client_port)()
        except ValkeyctlError as error:
            self._say(f"addresses can't be asked for: {error}")
            return
        self._runtime.peers.learn({member: endpoint.address for member, endpoint in found.items()})

    def _say(self, text: str) -> None:
        """Warn, once for each text: what stays as it is isn't told over and over."""
        if text != self._told:
            self._told = text
            self._runtime.log.warning(SOURCE, text)

    def _api(self) -> Api:
        if self._made_api is None:
            self._made_api = self._make_api()
        return self._made_api

    def _turns(self) -> Turns:
        if self._made_turns is None:
            from valkeyctl.agent.turns import Turns  # noqa: PLC0415 - imported when it is needed

            self._made_turns = Turns(self._runtime, self._api())
        return self._made_turns


def _in_cluster() -> Api:
    from valkeyctl.kube.access import Api  # noqa: PLC0415 - imported when it is needed
    from valkeyctl.kube.kubeconfig import in_cluster  # noqa: PLC0415

    return Api(in_cluster())
