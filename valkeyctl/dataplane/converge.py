"""The loop: observe → plan → step → observe again, until the declared state is reached or nothing can be done."""

from __future__ import annotations

from collections.abc import Callable

from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.model import Directory, Spec
from valkeyctl.dataplane.progress import Progress
from valkeyctl.dataplane.view import View


def converge(
    spec: Spec,
    directory: Directory,
    dialer: Dialer,
    *,
    deadline_s: float,
    progress: Callable[[Progress], None],
    may_go_on: Callable[[], None],
    timeout_s: float = 2.0,
) -> View:
    """Bring the instance into the declared state; returns the observation that shows it.

    Idempotent and resumable: killed at any point, the next run finishes. Writes nothing when all is right already.
    `may_go_on` is called before every observation and every step, and raises to stop there. `directory` is asked before
    every observation (briefly cached at most). Raises `errors.Blocked`, `errors.DeadlineExceeded` after `deadline_s`
    seconds, or what `may_go_on` raises; all that could be done was done before.
    """
    raise NotImplementedError
