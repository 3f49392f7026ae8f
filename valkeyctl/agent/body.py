"""What the agents of all architectures have in common: the server watched, probes answered, heavy parts started late.

What is imported here is light, since the server waits for it; what needs the API server follows once the server runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from valkeyctl.agent import http, resp
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.leftovers import Leftovers
from valkeyctl.agent.logs import Log
from valkeyctl.agent.runtime import Part, Peers, Runtime
from valkeyctl.agent.state import Phase
from valkeyctl.agent.threads import Threads
from valkeyctl.agent.watch import CLUSTER_LOOK, Look, Watch
from valkeyctl.agent.web import Web, probe

HELD_S = 1.0
"""A start that is held for so long needs addresses from the API server: then its libraries are imported too."""
UNDECLARED_S = 20.0
"""An instance that is being made has nothing declared yet: `up` forms it, and needs the processor's time meanwhile."""
SETTINGS_LATER_S = 10.0
"""The settings that the server starts with are fresh; who heals comes first."""
PART_BEAT_S = 120.0
ANSWER_S = 2.0


class Held(Protocol):
    """What keeps the own server from starting: a gate."""

    @property
    def holding_since(self) -> float | None:
        """Since when a start is held, None while none is."""
        ...

    @property
    def waits_for(self) -> str:
        """Why a start that is asked for isn't permitted yet; "" when none is."""
        ...


class Body:
    """One agent but for what its architecture makes of it: that sets `holds` and `others` before it starts."""

    holds: Held
    others: Peers

    def __init__(self, environment: Environment, log: Log, look: Look = CLUSTER_LOOK) -> None:
        self.environment = environment
        self.log = log
        self.since = time.monotonic()
        self.threads = Threads(log)
        self.files = Leftovers(environment)
        self.watch = Watch(environment.address, environment.client_port, self.files.passwords, log, look)

    def open(self, paths: dict[str, Callable[[http.Message], bytes]]) -> Web:
        """Listen on the agent's port: for probes, and for what else is asked under these paths. Raises OSError."""
        probes = {
            "/started": probe(self._started),
            "/ready": probe(self._ready),
            "/alive": probe(self.threads.alive),
        }
        return Web(self.environment.address, self.environment.agent_port, {**probes, **paths}, self.log)

    def start(self) -> None:
        """Start all that the server needs."""
        raise NotImplementedError

    def make_leader(self, runtime: Runtime) -> Part:
        """What heals; imports what is heavy."""
        raise NotImplementedError

    def start_parts(self) -> None:
        """Import what is heavy, and start what needs it; takes its time."""
        runtime = Runtime(
            environment=self.environment,
            log=self.log,
            stopping=self.threads.stopping,
            server=self.watch,
            peers=self.others,
            password=lambda: self.files.passwords()[0],
            beat=self.threads.beat,
        )
        leader = self.make_leader(runtime)
        self.threads.start("leader", PART_BEAT_S, lambda _beat: leader.run())
        if self.threads.stopping.wait(SETTINGS_LATER_S):
            return
        from valkeyctl.agent.config_sync import ConfigSync  # noqa: PLC0415 - imported last

        settings: Part = ConfigSync(runtime)
        self.threads.start("config", PART_BEAT_S, lambda _beat: settings.run())

    def parts_are_due(self) -> bool:
        """Whether the server doesn't have to wait for what is heavy any more, or waits for what only that can do."""
        since, now = self.holds.holding_since, time.monotonic()
        return are_due(
            serving=self.watch.state.serving,
            held_s=0.0 if since is None else now - since,
            declared=self.environment.declared.exists(),
            up_s=now - self.since,
        )

    def own_server(self) -> resp.Link:
        """A signed-in connection to the own server. Raises OSError."""
        return self.server_at(self.environment.address, self.environment.client_port)

    def server_at(self, address: str, port: int) -> resp.Link:
        """A signed-in connection to a server of the instance. Raises OSError."""
        return resp.connected(address, port, self.files.passwords(), ANSWER_S)

    def _started(self) -> tuple[bool, str]:
        state = self.watch.state
        if state.phase in (Phase.SERVING, Phase.LOADING, Phase.REFUSING):
            return True, f"the server is {state.phase}"
        return False, self.holds.waits_for or f"the server is {state.phase}"

    def _ready(self) -> tuple[bool, str]:
        why_not = self.watch.state.not_ready
        return not why_not, why_not or "serves"


def are_due(*, serving: bool, held_s: float, declared: bool, up_s: float) -> bool:
    """Whether to import what is heavy: at once where a start is held, else when the server serves and an agent may have
    something to do. `held_s` since when a start is held, `up_s` since when the agent runs, both in seconds.
    """
    return held_s > HELD_S or (serving and (declared or up_s > UNDECLARED_S))
