"""Something that goes on beside a test, in a thread of its own, until the block is over."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Background:
    """A context manager; what it does is `_run`, which looks at `_ending`."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError
