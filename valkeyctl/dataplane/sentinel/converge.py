"""Have a set of Sentinels monitor one primary as declared: look, plan, take the steps, look again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from valkeyctl.dataplane import errors, loop
from valkeyctl.dataplane.dial import Credentials, Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.lookout import Lookout
from valkeyctl.dataplane.model import Directory
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S
from valkeyctl.dataplane.progress import Progress
from valkeyctl.dataplane.rounds import Plan
from valkeyctl.dataplane.sentinel.apply import Hands
from valkeyctl.dataplane.sentinel.model import SentinelSpec
from valkeyctl.dataplane.sentinel.observe import sentinels_over, servers_over
from valkeyctl.dataplane.sentinel.plan import plan
from valkeyctl.dataplane.sentinel.steps import Action
from valkeyctl.dataplane.sentinel.view import SentinelsView, SentinelView, ServerView

NOBODY = Credentials()


class SentinelWork:
    """What the loop is about: the Sentinels and the servers of one monitored name, over connections that stay open."""

    def __init__(
        self,
        spec: SentinelSpec,
        sentinels: Directory,
        servers: Directory,
        links: tuple[Links, Links],
        monitor_as: Credentials = NOBODY,
    ) -> None:
        """`links` lead to the Sentinels and to the servers; with `monitor_as` the former sign in at the latter."""
        self.spec = spec
        to_sentinels, to_servers = links
        self._hands = Hands(to_sentinels, to_servers, monitor_as)
        self._sentinels = Lookout[SentinelView](sentinels, lambda at: sentinels_over(to_sentinels, spec, at))
        self._servers = Lookout[ServerView](servers, lambda at: servers_over(to_servers, spec, at))

    @property
    def name(self) -> str:
        """The monitored name."""
        return self.spec.name

    def look(self) -> SentinelsView:
        """One observation of all Sentinels and all servers."""
        return SentinelsView(self._sentinels.look(), self._servers.look())

    def decide(self, view: SentinelsView) -> Plan[Action]:
        """What to do next."""
        return plan(self.spec, view)

    def carry_out(self, todo: Sequence[Action]) -> Mapping[Action, errors.ValkeyctlError]:
        """Take steps; those that failed, and why."""
        return self._hands.carry_out(todo, self._sentinels.endpoints, self._servers.endpoints)

    def summarize(self, view: SentinelsView) -> str:
        """Who answers."""
        return f"{len(view.sentinels)} of {len(view.outcomes)} Sentinels answer"


@contextmanager
def working(
    spec: SentinelSpec,
    sentinels: Directory,
    servers: Directory,
    sentinel_dialer: Dialer,
    server_dialer: Dialer,
    *,
    monitor_as: Credentials = NOBODY,
    timeout_s: float = TIMEOUT_S,
    max_parallel: int = MAX_PARALLEL,
) -> Generator[SentinelWork]:
    """The work of a converge, with its connections, which are closed at the end."""
    with (
        Links(sentinel_dialer, timeout_s=timeout_s, max_parallel=max_parallel) as to_sentinels,
        Links(server_dialer, timeout_s=timeout_s, max_parallel=max_parallel) as to_servers,
    ):
        yield SentinelWork(spec, sentinels, servers, (to_sentinels, to_servers), monitor_as)


def converge(
    spec: SentinelSpec,
    sentinels: Directory,
    servers: Directory,
    sentinel_dialer: Dialer,
    server_dialer: Dialer,
    *,
    deadline_s: float,
    progress: Callable[[Progress], None],
    may_go_on: Callable[[], None],
    monitor_as: Credentials = NOBODY,
    timeout_s: float = TIMEOUT_S,
    max_parallel: int = MAX_PARALLEL,
) -> SentinelsView:
    """Bring the Sentinels into the declared state; returns the observation that shows it.

    `sentinels` (by `model.sentinel`) and `servers` are the Pods that exist now, each kind with a dialer of its own;
    with `monitor_as` the Sentinels sign in at the servers. Idempotent and resumable, and writes nothing when all is
    right already. What it raises, and when the callbacks are called, is as `loop.run` says.
    """
    with working(
        spec,
        sentinels,
        servers,
        sentinel_dialer,
        server_dialer,
        monitor_as=monitor_as,
        timeout_s=timeout_s,
        max_parallel=max_parallel,
    ) as work:
        return loop.run(work, deadline_s=deadline_s, progress=progress, may_go_on=may_go_on)
