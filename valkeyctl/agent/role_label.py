"""The role label on the own Pod: for people, and for selectors of theirs. Nothing of ours relies on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valkeyctl.agent.environment import Environment
from valkeyctl.agent.judge import Judgement

if TYPE_CHECKING:
    from valkeyctl.dataplane.view import Role
    from valkeyctl.kube.access import Api

CALM_S = 3.0
"""The first label waits for a quiet moment: while an instance starts, its processor time is better spent otherwise."""
LATEST_S = 30.0
SHORTEST_S, LONGEST_S = 5.0, 300.0


class RoleLabel:
    """Knows what the label says, and when to write it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._written: Role | None = None
        self._began: float | None = None
        self._quiet_since: float | None = None
        self._not_before = 0.0
        self._pause_s = SHORTEST_S

    def wanted(self, judgement: Judgement, now: float) -> Role | None:
        """The role to write now; None while there is nothing to write, or not yet."""
        if judgement.role is None:
            return None
        self._began = now if self._began is None else self._began
        if judgement.troubles:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        if judgement.role is self._written or now < self._not_before:
            return None
        turn_s = 0.5 * judgement.rank(self._environment.member)
        quiet = self._quiet_since is not None and now - self._quiet_since >= CALM_S + turn_s
        changed = self._written is not None
        return judgement.role if changed or quiet or now - self._began >= LATEST_S else None

    def write(self, api: Api, role: Role) -> None:
        """Write it. Idempotent. Errors: those of the API."""
        from valkeyctl.kube.access import path_of  # noqa: PLC0415 - imported when there is something to write
        from valkeyctl.kube.labels import ROLE_LABEL  # noqa: PLC0415

        place = self._environment
        path = path_of("v1", "pods", place.namespace, place.pod)
        api.merge(path, {"metadata": {"labels": {ROLE_LABEL: str(role)}}})
        self._written, self._pause_s = role, SHORTEST_S

    def failed(self, now: float) -> None:
        """It couldn't be written: not again at once."""
        self._not_before = now + self._pause_s
        self._pause_s = min(LONGEST_S, 2 * self._pause_s)
