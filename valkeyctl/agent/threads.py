"""The agent's threads: one that fails ends the process, one that hangs is found by the kubelet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from valkeyctl.agent.logs import Log

Beat = Callable[[], None]


class Threads:
    """Starts threads, and keeps when each was last heard of."""

    def __init__(self, log: Log) -> None:
        self.stopping = threading.Event()
        self.failed = False
        self._log = log
        self._threads: dict[str, threading.Thread] = {}
        self._limits: dict[str, float] = {}
        self._beats: dict[str, float] = {}

    def start(self, name: str, limit_s: float, run: Callable[[Beat], None]) -> None:
        """Run `run(beat)` in a thread; it has to call `beat` at least every `limit_s` seconds, from when it starts."""
        self._limits[name] = limit_s
        self.beat(name)
        thread = threading.Thread(target=self._run, args=(name, run), name=name, daemon=True)
        self._threads[name] = thread
        thread.start()

    def beat(self, name: str) -> None:
        """A thread tells that it goes on."""
        self._beats[name] = time.monotonic()

    def alive(self) -> tuple[bool, str]:
        """Whether all go on, and who doesn't."""
        now = time.monotonic()
        late = [name for name, limit_s in self._limits.items() if now - self._beats[name] > limit_s]
        return not late, f"no sign of life from: {', '.join(late)}" if late else "all parts go on"

    def end(self, within_s: float) -> None:
        """Wait for all to end, for `within_s` at most; `stopping` has to be set."""
        deadline = time.monotonic() + within_s
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, name: str, run: Callable[[Beat], None]) -> None:
        try:
            run(lambda: self.beat(name))
            if self.stopping.is_set():
                return
            self._log.error("agent", f"{name} ended by itself")
        except BaseException as error:  # noqa: BLE001 - whatever it was, the process ends and is started again
            self._log.error("agent", f"{name} failed: {type(error).__name__}: {error}", at=_place(error))
        self.failed = True
        self.stopping.set()


def _place(error: BaseException) -> str:
    """Where it was raised: file, line, function. The module `traceback` would be imported for this alone."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "?"
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}"
