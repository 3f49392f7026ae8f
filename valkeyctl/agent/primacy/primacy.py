"""The arbiter's threads: see, decide, carry out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from valkeyctl.agent import http
from valkeyctl.agent.environment import Environment
from valkeyctl.agent.logs import Log
from valkeyctl.agent.resp import Link
from valkeyctl.agent.runtime import Server
from valkeyctl.agent.threads import Threads
from valkeyctl.dataplane.model import Address, Member
from valkeyctl.dataplane.replication.model import ReplicationSpec

if TYPE_CHECKING:
    from valkeyctl.kube.access import Api


class Primacy:
    """Holds, gives and takes the Lease for one member, and has its server take writes only while it holds it.

    The one part of the agents that promotes a server where `VALKEY_AUTOMATIC_FAILOVER` is set: whoever heals beside it
    says `decided_elsewhere` and `last_primary=holder`, and neither promotes nor hands over.
    """

    def __init__(
        self,
        environment: Environment,
        log: Log,
        *,
        duration_s: int,
        watch: Server,
        held: Callable[[], bool],
        connect: Callable[[], Link],
        passwords: Callable[[], tuple[bytes, ...]],
        addresses: Callable[[], Mapping[Member, str]],
        server_of: Callable[[Member], Address],
        declared: Callable[[], ReplicationSpec | None],
        api: Callable[[], Api],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`watch` is the own server, watched; `held` the gate's word that no server runs and none may start.

        `connect` gives a signed-in connection to the own server or raises OSError, `passwords` are the instance's.
        `addresses` are where the other agents are, `server_of` what a server is told to follow a member as. `declared`
        is what is declared of the dataset, as far as is known (None: not yet). `api` makes the connection to the API
        server when it is first needed; it may raise a KubeError. `on_change` is called when `holder` or `is_primary`
        has changed: to write the endpoints and the label. It must be quick.

        Makes the file that the loop in start.sh watches, where there is none.
        """

    def start(self, threads: Threads) -> None:
        """Start all threads of this part. They ask the API server only when the own server runs, or after a second."""

    @property
    def paths(self) -> Mapping[str, Callable[[http.Message], bytes]]:
        """What the agent's port answers for this part, by path."""
        raise NotImplementedError

    @property
    def holder(self) -> Member | None:
        """Who holds the Lease, as last seen, however old that is; None where nobody does, or it isn't known."""
        raise NotImplementedError

    @property
    def is_primary(self) -> bool:
        """Whether the own server is the primary by right now: it says so, and the Lease, or the promises, last."""
        raise NotImplementedError

    @property
    def primary(self) -> Member | None:
        """The holder while its Lease hasn't run out as far as this member sees; itself only as `is_primary`."""
        raise NotImplementedError

    def start_as(self) -> Address | None:
        """Whom the own server is to follow when it starts now; None for nobody. To be asked by the gate right before
        it permits a start: it notes that whatever server was before has ended, and takes no writes.
        """
        raise NotImplementedError

    def hand_over(self, within_s: float) -> str:
        """Hand the role over before the server stops; what became of it, for people. Waits until it is done.

        From any thread. Where the server isn't the primary it returns at once.
        """
        raise NotImplementedError
