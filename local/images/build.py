"""Making one image: pulled, or built from its recipe."""

import shutil
from pathlib import Path

from ..cache import key_of
from ..paths import images_dir
from ..progress import Progress
from ..toolchain import build as tool_build
from ..toolchain import golang
from . import archive, layer, registry, rootfs
from .recipes import Debian, Recipe, version_in

_HOW = (archive, layer, rootfs)
"""Modules that decide what comes out: a change of one makes every image anew."""


def entry_of(recipe: Recipe) -> Path:
    """The archive in the cache, whether it is there or not."""
    parts = [repr(recipe).encode(), *(Path(str(module.__file__)).read_bytes() for module in _HOW)]
    if not isinstance(recipe.source, Debian):
        parts.append(recipe.source.tool.key().encode())
    return images_dir() / f"{recipe.name}-{key_of(parts)}.tar"


def make(recipe: Recipe, target: Path, progress: Progress) -> None:
    """Write the image's archive to `target`; folders beside it are used on the way. Raises LocalError."""
    if registry.answers(registry.host_of(recipe.repository)):
        try:
            registry.pull(recipe.public_ref, _pulled_refs(recipe), target)
        except registry.PullError as error:
            progress.say(f"{recipe.public_ref} couldn't be pulled and is built instead: {error}")
            target.unlink(missing_ok=True)
        else:
            return
    root = target.parent / "root"
    if isinstance(recipe.source, Debian):
        rootfs.unpack(recipe.source, root, log_name=recipe.name)
    else:
        go = golang.find(progress)
        tool = recipe.source.tool
        folder = tool_build.ensure(tool, go, progress, label=f"Building {tool.name} for its image")
        root.mkdir()
        shutil.copy2(folder / tool.name, root / tool.name)
    rootfs.add(recipe.files, root)
    version = rootfs.version(recipe, root) if recipe.ask_version else recipe.tag
    refs = recipe.refs_of(version)
    if recipe.ask_version and recipe.public_ref != refs[0]:
        progress.say(f"{recipe.public_ref} can't be had here: Debian's {version} stands in for it")
    layer_file = target.parent / "layer.tar"
    digest = layer.write(root, layer_file)
    archive.write(target, refs, recipe.config, layer_file, digest)


def _pulled_refs(recipe: Recipe) -> tuple[str, ...]:
    """A public image's other names: what its tag itself says of the version."""
    try:
        return recipe.refs_of(version_in(recipe.tag))
    except ValueError:
        return (recipe.public_ref,)
