"""One layer of an image from a folder: the same bytes for the same content, without what no container reads."""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

# Documentation, translations, caches, and the init system's files. Licences stay.
_LEFT_OUT = (
    "boot",
    "etc/init.d",
    "usr/lib/systemd",
    "usr/share/bash-completion",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/zsh",
    "var/backups",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg",
    "var/log",
)
_DOCUMENTATION = "usr/share/doc/"
# Conversions between character sets, 8 MB of them; Python brings its own.
_CONVERSIONS = "/gconv/"


def epoch() -> int:
    """The one time of all files: $SOURCE_DATE_EPOCH, or the beginning of 2026."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(given) if given.isdigit() else 1767225600


def wanted(path: str) -> bool:
    """Whether a path (relative, with slashes) belongs into a layer."""
    if any(path == left_out or path.startswith(f"{left_out}/") for left_out in _LEFT_OUT):
        return False
    if path.startswith(_DOCUMENTATION):
        return "/" not in path.removeprefix(_DOCUMENTATION) or path.endswith("/copyright")
    return _CONVERSIONS not in f"{path}/"


def write(root: Path, target: Path) -> str:
    """Write the layer as a tar file; its digest, in hexadecimal digits."""
    with target.open("wb") as file:
        hashed = _Hashed(file)
        with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.GNU_FORMAT, bufsize=1 << 20) as tar:
            _fill(tar, root)
        return hashed.digest.hexdigest()


def _fill(tar: tarfile.TarFile, root: Path) -> None:
    seen: dict[int, str] = {}
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        info = tar.gettarinfo(path, arcname=name)
        _normalise(info)
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 and status.st_ino in seen:
            info.type, info.linkname, info.size = tarfile.LNKTYPE, seen[status.st_ino], 0
        elif stat.S_ISREG(status.st_mode):
            # gettarinfo takes note of inodes itself, by an order of its own; this order is the sorted one.
            info.type, info.linkname, info.size = tarfile.REGTYPE, "", status.st_size
            seen[status.st_ino] = name
        if info.isreg():
            with path.open("rb") as content:
                tar.addfile(info, content)
        else:
            tar.addfile(info)


def _walk(root: Path, folder: Path | None = None) -> Iterator[Path]:
    """All that belongs into the layer, folders before what is in them, by name. Devices are the runtime's to make."""
    for entry in sorted((folder or root).iterdir()):
        mode = entry.lstat().st_mode
        plain = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        if not plain or not wanted(entry.relative_to(root).as_posix()):
            continue
        yield entry
        if stat.S_ISDIR(mode):
            yield from _walk(root, entry)


def _normalise(info: tarfile.TarInfo) -> None:
    info.mtime = epoch()
    info.uname = info.gname = ""
    # No program in these images has a reason to gain rights.
    info.mode &= ~(stat.S_ISUID | stat.S_ISGID)


class _Hashed(io.RawIOBase):
    """A file that is hashed as it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.digest.update(data)
        return self._file.write(data)
