"""The container images of the local platform: pulled where a registry answers, else built here."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..cache import make_once
from ..errors import LocalError
from ..progress import Progress
from . import archive, build, recipes

PAUSE_REF = "registry.k8s.io/pause:3.10"
"""The image of every Pod's first process (`sandbox_image` of containerd)."""

_AT_ONCE = 2


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
    """Pull or build every image. Idempotent; milliseconds when all are there, about a minute from nothing.

    Needs the packages (`packages.ensure`) where something is to be made. Raises LocalError where an image can be
    neither pulled nor built.
    """
    missing = [recipe for recipe in recipes.ALL if not build.entry_of(recipe).exists()]
    if missing and os.geteuid() != 0:
        raise LocalError("container images are made of root's files, and this process isn't root; run it as root")
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as executor:
        made = [
            executor.submit(_make, recipe, progress, f"[{number}/{len(missing)}] Image {recipe.name}")
            for number, recipe in enumerate(missing, start=1)
        ]
        for result in made:
            result.result()
    return [_image(recipe) for recipe in recipes.ALL]


def _make(recipe: recipes.Recipe, progress: Progress, label: str) -> None:
    entry = build.entry_of(recipe)

    def make(workplace: Path) -> None:
        with progress.step(label):
            build.make(recipe, workplace / entry.name, progress)

    make_once(entry, make, waiting=lambda: progress.say(f"{label}: waiting for another process that makes it"))


def _image(recipe: recipes.Recipe) -> Image:
    path = build.entry_of(recipe)
    return Image(name=recipe.name, refs=archive.refs(path), archive_path=path)
