"""Reading files that belong together from a mounted Secret or ConfigMap while the kubelet may swap its contents.

It swaps the whole folder at once, by a symbolic link; but who reads one file after the other may get the first of the
old contents and the second of the new, or find one missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

PATIENCE_S = 0.1
"""How long a swap is waited for, which is over within a fraction of that."""
AGAIN_S = 0.01


class Swapped(OSError):  # noqa: N818  (what happened)
    """The files were changed while they were read."""


def read_together(paths: Iterable[Path], *, patience_s: float = PATIENCE_S) -> dict[Path, bytes]:
    """The contents of files as they were together at one moment. Only reads, and tries again for `patience_s` seconds.

    Raises OSError (FileNotFoundError with the file's name) where one can't be read, Swapped where they keep changing.
    """
    wanted, deadline = tuple(paths), time.monotonic() + patience_s
    while True:
        try:
            before = [_mark(path) for path in wanted]
            contents = {path: path.read_bytes() for path in wanted}
            if [_mark(path) for path in wanted] == before:
                return contents
            raise Swapped("files that belong together were changed while they were read")
        except OSError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN_S)


def _mark(path: Path) -> tuple[int, ...]:
    """Differs for another file at the same path, and for one that was written to."""
    seen = os.stat(path)  # noqa: PTH116 - beside the other fields of the same answer
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
