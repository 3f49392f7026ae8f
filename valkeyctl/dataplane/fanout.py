"""Do the same for many members at once, bounded in number and in time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


def fan_out(
    keys: Iterable[Key],
    work: Callable[[Key], Result],
    *,
    max_parallel: int,
    timeout_s: float,
    late: Callable[[Key], Result],
) -> Mapping[Key, Result]:
    """`work(key)` for every key, at most `max_parallel` at a time; the results by key, in the order of the keys.

    `work` must not raise. Each key has `timeout_s` from its own start; whoever takes longer is given up and gets the
    result `late(key)`, and its thread is left behind (a daemon, which `late` should help to its end, by closing what it
    waits for), so that one silent server holds up neither the others nor the end of the process.
    """
    wanted = list(keys)
    waiting, started, done = deque(wanted), dict[Key, float](), dict[Key, Result]()
    lock = threading.Condition()

    def worker() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                key = waiting.popleft()
                started[key] = time.monotonic()
            result = work(key)
            with lock:
                if key in done:  # given up meanwhile, and another thread took this one's place
                    return
                done[key] = result
                lock.notify()

    def start() -> None:
        threading.Thread(target=worker, daemon=True).start()

    for _ in range(min(max_parallel, len(wanted))):
        start()
    with lock:
        while len(done) < len(wanted):
            now = time.monotonic()
            running = {key: began for key, began in started.items() if key not in done}
            for key in [key for key, began in running.items() if now - began >= timeout_s]:
                done[key] = late(key)
                del running[key]
                if waiting:
                    start()
            if len(done) < len(wanted):
                lock.wait(max(0.001, min(running.values(), default=now) + timeout_s - now))
    return {key: done[key] for key in wanted}
