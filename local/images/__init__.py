"""The container images of the local platform: pulled where a registry answers, else built here."""

from dataclasses import dataclass
from pathlib import Path

from ..progress import Progress


@dataclass(frozen=True)
class Image:
    """An image in the cache, ready for `ctr images import`."""

    name: str
    """Short, for people: valkey-9.1."""
    refs: tuple[str, ...]
    """All names under which it is imported, fully qualified: docker.io/valkey/valkey:9.1.2."""
    archive_path: Path
    """A docker archive that carries these names."""


def ensure(progress: Progress) -> list[Image]:
    """Pull or build every image. Idempotent; milliseconds when all are there.

    Raises LocalError where an image can be neither pulled nor built.
    """
    raise NotImplementedError
