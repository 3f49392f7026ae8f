"""Entries of the cache: complete or absent, made once.

An entry is a file or a folder whose name carries a key of everything that went into it. It is made beside its place
and renamed to it at the end, so that no other process ever sees half of it, whenever the maker is killed; a lock for
each entry lets two processes that want the same wait for one another instead of making it twice.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

KEY_DIGITS = 16


def key_of(parts: Iterable[bytes]) -> str:
    """A key for what was made of these parts, in this order. Parts can't run into one another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:KEY_DIGITS]


def make_once(entry: Path, make: Callable[[Path], None], *, waiting: Callable[[], None] = lambda: None) -> bool:
    """Make the entry unless it is there; tell whether it was made by this call.

    `make` gets a folder of its own that is gone afterwards, and creates what will be the entry in it, under the
    entry's name. `waiting` is called once if another process is making the same entry now.
    """
    if entry.exists():
        return False
    entry.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(entry.parent / f".{entry.name}.lock", waiting=waiting):
        if entry.exists():
            return False
        prefix = f".making-{entry.name}-"
        for leftover in entry.parent.glob(f"{prefix}*"):  # Of a maker that was killed: we hold its lock.
            shutil.rmtree(leftover, ignore_errors=True)
        workplace = Path(tempfile.mkdtemp(prefix=prefix, dir=entry.parent))
        try:
            make(workplace)
            _flush(workplace / entry.name)
            (workplace / entry.name).rename(entry)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
    return True


@contextmanager
def exclusive(lock: Path, *, waiting: Callable[[], None] = lambda: None) -> Generator[None]:
    """Hold the lock of this file while the block runs. The kernel drops it when the process ends, however it ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _flush(made: Path) -> None:
    """Bring it to the disk before its name says that it is complete: a machine may lose power as well."""
    for path in (made, *made.rglob("*")) if made.is_dir() else (made,):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())
