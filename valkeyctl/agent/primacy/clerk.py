"""Reads and writes the Lease, in threads that may wait for the API server as long as that takes.

Nothing else of the arbiter waits for it: what is to be done in time is done whether it answers or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from valkeyctl.agent.logs import Log
from valkeyctl.agent.primacy.fence import Clock
from valkeyctl.agent.primacy.situation import Seen
from valkeyctl.agent.primacy.timing import Timing
from valkeyctl.kube.labels import primary_lease_name
from valkeyctl.kube.primary_lease import PrimaryLease, Seat, parse_primacy, path_of_primacy

if TYPE_CHECKING:
    from valkeyctl.kube.access import Api, Object
    from valkeyctl.kube.errors import KubeError

ANSWER_S = 2.0
"""How long the API server may take for one answer."""
POLL_S = 0.5
"""Between two looks at a Lease whose holder should have renewed it by now."""
REST_S = 5.0
"""Between two looks at one that nobody renews."""
SOURCE = "primacy"


@dataclass(frozen=True)
class Place:
    """Whose Lease it is, and for whom it is written."""

    namespace: str
    instance: str
    me: Seat

    @property
    def lease(self) -> str:
        """The Lease's path."""
        return path_of_primacy(self.namespace, self.instance)


@dataclass(frozen=True)
class Job:
    """Write `body`, made of the Lease as it was when that was decided; if somebody else wrote meanwhile, it is refused.

    `done` is called with when it was sent and what was written.
    """

    body: Object
    done: Callable[[float, PrimaryLease], None]


class Clerk:
    """`run` and `follow` are its threads; everything else is for any thread and returns at once."""

    def __init__(
        self,
        place: Place,
        timing: Timing,
        *,
        api: Callable[[], Api],
        clock: Clock,
        log: Log,
        news: Callable[[], None],
    ) -> None:
        """`api` makes the connection, in one of the threads, and may raise a KubeError; `news` is told of changes."""
        self._place = place
        self._now = clock
        self._timing = timing
        self._make_api = api
        self._api: Api | None = None
        self._log = log
        self._news = news
        self._lock = threading.RLock()
        self._work = threading.Event()
        self._job: Job | None = None
        self._told = ""
        self.busy = False
        self.seen: Seen | None = None
        self.handed_since: float | None = None
        self.heard_at = self.renewed_at = self.tried_at = float("-inf")
        self._asked_at = float("-inf")

    @property
    def in_touch(self) -> bool:
        """Whether the API server was heard of lately."""
        return self._now() - self.heard_at < self._timing.renew_s + ANSWER_S + POLL_S

    def submit(self, job: Job) -> bool:
        """Have the Lease written; False where another request is under way."""
        with self._lock:
            if self.busy:
                return False
            self.busy, self._job, self.tried_at = True, job, self._now()
        self._work.set()
        return True

    def run(self, stopping: threading.Event) -> None:
        """Write what is submitted, and look where nobody tells."""
        while not stopping.is_set():
            self.step()
            self._work.wait(max(0.01, min(POLL_S, self._look_at() - self._now())))
            self._work.clear()

    def step(self) -> None:
        """Write what was submitted, or look where that is due; waits for the API server."""
        with self._lock:
            job = self._job
        if job is not None:
            try:
                self._write(job)
            finally:
                with self._lock:
                    self._job, self.busy = None, False
                self._news()
        elif self._now() >= self._look_at():
            self._look()

    def follow(self, stopping: threading.Event) -> None:
        """Be told of every change at once."""
        from valkeyctl.kube.watch import Follow  # noqa: PLC0415 - imported when the server runs

        while (api := self._connected()) is None:
            if stopping.wait(POLL_S):
                return
        place = self._place
        watch = Follow(
            api,
            path_of_primacy(place.namespace),
            primary_lease_name(place.instance),
            seen=lambda known: None if known is None else self.note(known),
            failed=self._failed,
            pause_s=(POLL_S, REST_S),
        )
        thread = threading.Thread(target=watch.run, name="primacy-watch", daemon=True)
        thread.start()
        while not stopping.wait(1.0):
            if not thread.is_alive():
                raise RuntimeError("the watch of the Lease ended")
        watch.stop()

    # --- within ------------------------------------------------------------------------------------------------------

    def _look_at(self) -> float:
        """When to look by oneself: the watch tells of each renewal, so only when one is missing."""
        pause_s = POLL_S
        seen = self.seen
        if seen is not None and (seen.lease.holder is None or self._now() - seen.since > 4 * self._timing.take_s):
            pause_s = REST_S
        quiet_until = float("-inf") if seen is None else seen.since + 1.5 * self._timing.renew_s
        return max(self._asked_at + pause_s, quiet_until)

    def _look(self) -> None:
        from valkeyctl.kube.errors import ApiNotFound, KubeError  # noqa: PLC0415

        api = self._connected()
        self._asked_at = self._now()
        if api is None:
            return
        try:
            self.note(api.get(self._place.lease))
        except ApiNotFound as error:
            self.heard_at = self._now()
            self._say(f"there is no Lease: {error}")
        except KubeError as error:
            self._failed(error)
        else:
            self._told = ""

    def _write(self, job: Job) -> None:
        from valkeyctl.kube.errors import ApiConflict, KubeError  # noqa: PLC0415

        api = self._connected()
        if api is None:
            return
        sent_at = self.tried_at = self._now()
        try:
            known = api.replace(self._place.lease, job.body)
        except ApiConflict:
            # Somebody else wrote: a wish, or that it is theirs.
            self._look()
        except KubeError as error:
            self._failed(error)
        else:
            self.note(known)
            job.done(sent_at, parse_primacy(known, self._place.instance))

    def note(self, known: Object) -> None:
        """Take in what was read. What is told late, after something newer, isn't taken for news."""
        now, lease = self._now(), parse_primacy(known, self._place.instance)
        with self._lock:
            self.heard_at = now
            if self.seen is not None and not _is_newer(lease.version, self.seen.lease.version):
                return
            handed = lease.holder == self._place.me and lease.yielding is not None
            same = self.seen is not None and self.seen.lease.yielding == lease.yielding
            self.handed_since = (self.handed_since if same and self.handed_since else now) if handed else None
            self.seen = Seen(lease, now)
        self._news()

    def _connected(self) -> Api | None:
        from valkeyctl.kube.errors import KubeError  # noqa: PLC0415

        if self._api is None:
            try:
                self._api = self._make_api().hasty(ANSWER_S)
            except KubeError as error:
                self._failed(error)
        return self._api

    def _failed(self, error: KubeError) -> None:
        self._say(f"the Lease can't be read or written: {error}")

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._log.warning(SOURCE, text)


def _is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion comes after another: what a watch tells may be older than what was read meanwhile.

    Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions (they grow as numbers).
    """
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than
