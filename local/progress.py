"""Progress lines with times, so that whoever waits sees what for."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

HEARTBEAT_S = 30.0


class Progress:
    """Prints one line per event: the seconds since the start, then what happened. Safe to use from several threads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        with self._lock:
            print(f"{time.monotonic() - self._started:7.1f} s  {text}", file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str) -> Generator[None]:
        """Tell the beginning, a sign of life every half minute, and the end of something that takes long.

        A step that ends with an exception is said to have failed; the exception goes on to the caller.
        """
        began = time.monotonic()
        over = threading.Event()

        def signs_of_life() -> None:
            while not over.wait(HEARTBEAT_S):
                self.say(f"{text}: {time.monotonic() - began:.0f} s so far")

        self.say(f"{text} …")
        heart = threading.Thread(target=signs_of_life, daemon=True)
        heart.start()
        try:
            yield
        except BaseException:
            self._end(over, heart, f"{text}: failed after {time.monotonic() - began:.1f} s")
            raise
        self._end(over, heart, f"{text}: done in {time.monotonic() - began:.1f} s")

    def _end(self, over: threading.Event, heart: threading.Thread, text: str) -> None:
        over.set()
        heart.join()
        self.say(text)
