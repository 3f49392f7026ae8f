"""Have the Sentinels monitor a dataset as declared, and have them hand its primary's role over, as an agent may.

Heavy: imported only when there is something to do.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from valkeyctl.agent.attending import Attending
from valkeyctl.agent.environment import Environment
from valkeyctl.dataplane import Credentials, DirectDialer, Progress
from valkeyctl.dataplane.errors import ValkeyctlError
from valkeyctl.dataplane.model import Address, Endpoint, Member
from valkeyctl.dataplane.sentinel.converge import converge as bring_about
from valkeyctl.dataplane.sentinel.model import Parameters, SentinelSpec, sentinel
from valkeyctl.dataplane.sentinel.observe import observe
from valkeyctl.dataplane.sentinel.report import SentinelReport, report
from valkeyctl.dataplane.sentinel.rights import OPERATOR, SENTINEL
from valkeyctl.kube.declared_dataset import DeclaredDataset, DeclaredSentinels


class NoSentinels(ValkeyctlError):  # noqa: N818  (what it is)
    """Nothing is known of the Sentinels, so that they can't be told anything."""


@dataclass(frozen=True)
class Watchers:
    """The Sentinels of a dataset, as one of its agents reaches them. `password` reads that of its servers.

    `primary` is who is the primary as far as is known, `servers` where the members are now.
    """

    environment: Environment
    password: Callable[[], bytes]
    primary: Callable[[], Member | None]

    def look(self, state: DeclaredDataset, attending: Attending) -> SentinelReport:
        """What was found. See `heal.Besides`."""
        watched = _watched(state)
        at = self._spec(state, watched)
        view = observe(at, _places(watched), attending.directory(), self._to_sentinels(), self._to_servers())
        return report(at, view)

    def heal(
        self, state: DeclaredDataset, attending: Attending, primary: Member | None, deadline_s: float
    ) -> SentinelReport:
        """See `heal.Besides`."""
        return self.converge(
            state,
            attending.directory,
            primary=primary,
            deadline_s=deadline_s,
            progress=attending.progress,
            may_go_on=attending.may_go_on,
        )

    def hand_over(
        self,
        state: DeclaredDataset,
        servers: Callable[[], Mapping[Member, Endpoint]],
        to: Member,
        *,
        deadline_s: float,
        may_go_on: Callable[[], None],
    ) -> None:
        """Have the role go to a member. Raises what `may_go_on` does when that finds it done, or as `converge`."""
        self.converge(state, servers, wanted=to, deadline_s=deadline_s, progress=lambda _now: None, may_go_on=may_go_on)

    def converge(
        self,
        state: DeclaredDataset,
        servers: Callable[[], Mapping[Member, Endpoint]],
        *,
        deadline_s: float,
        progress: Callable[[Progress], None],
        may_go_on: Callable[[], None],
        primary: Member | None = None,
        wanted: Member | None = None,
    ) -> SentinelReport:
        """Bring the Sentinels into the declared state, with the role at `wanted`; what was found in the end. `primary`
        is who has it where they don't say. Raises as the data plane's `converge`.
        """
        watched = _watched(state)
        spec = self._spec(state, watched, primary, wanted)
        view = bring_about(
            spec,
            lambda: _places(watched),
            servers,
            self._to_sentinels(),
            self._to_servers(),
            deadline_s=deadline_s,
            progress=progress,
            may_go_on=may_go_on,
            monitor_as=Credentials(user=SENTINEL, password=self._key()),
        )
        return report(spec, view)

    def _spec(
        self,
        state: DeclaredDataset,
        watched: DeclaredSentinels,
        primary: Member | None = None,
        wanted: Member | None = None,
    ) -> SentinelSpec:
        primary = self.primary() or primary
        return SentinelSpec(
            watched.name,
            {member: Address(self.environment.host_of(member), state.port) for member in state.members},
            len(watched.sentinels),
            watched.quorum,
            primary=primary if primary in state.members else None,
            parameters=Parameters(watched.down_after_ms, watched.failover_timeout_ms, watched.parallel_syncs),
            user=SENTINEL,
            authenticated=True,
            # What was declared was accepted by `up`, by whose plan people have seen it.
            any_quorum=True,
            wanted=wanted,
        )

    def _key(self) -> str:
        return self.environment.sentinel_secret.read_bytes().decode()

    def _to_sentinels(self) -> DirectDialer:
        return DirectDialer(Credentials(user=OPERATOR, password=self._key()))

    def _to_servers(self) -> DirectDialer:
        return DirectDialer(Credentials(password=self.password().decode()))


def _watched(state: DeclaredDataset) -> DeclaredSentinels:
    if state.sentinels is None:
        raise NoSentinels("no Sentinels are declared", remedy="Run `pulumi up`.")
    return state.sentinels


def _places(watched: DeclaredSentinels) -> dict[Member, Endpoint]:
    """Where the Sentinels are now, by their names; those that aren't found are left out."""
    found: dict[Member, Endpoint] = {}
    for ordinal, at in enumerate(watched.sentinels):
        try:
            address = str(socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)[0][4][0])
        except OSError:
            continue
        one = sentinel(ordinal)
        found[one] = Endpoint(one, at.host.partition(".")[0], at.host, address, at.port)
    return found
