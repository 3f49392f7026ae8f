"""Container images for the nodes: unpacked once into the cache, and from there on shared by all nodes of all clusters.

Importing an image takes seconds, and each node has its own containerd. So one that serves for this alone imports all
images once; a new node gets copies of its two small databases and hard links to its blobs, and sees the unpacked layers
through read-only mounts. Nothing can change them there, and the page cache holds them once.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cache import key_of, make_once
from ..errors import LocalError
from ..images import Image
from ..paths import cache_dir
from ..progress import Progress
from .cgroups import CgroupTree
from .machine import Machine, Spec
from .node import CONTAINERD_ROOT, CONTAINERD_SOCKET, containerd_service

_FORMAT = b"1"
_SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
_CONTENT = "io.containerd.content.v1.content"
_METADATA = "io.containerd.metadata.v1.bolt"
_IMPORT_TIMEOUT_S = 180


@dataclass(frozen=True)
class Store:
    """All images, as containerd keeps them."""

    folder: Path

    def seed(self, root: Path) -> None:
        """Give a new containerd, which will have this folder as its root, all images. Leaves one that exists alone."""
        if root.exists():
            return
        new = root.with_name(f".{root.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        for database in (f"{_METADATA}/meta.db", f"{_SNAPSHOTTER}/metadata.db"):
            (new / database).parent.mkdir(parents=True)
            shutil.copyfile(self.folder / database, new / database)
        blobs = Path(_CONTENT, "blobs", "sha256")
        (new / blobs).mkdir(parents=True)
        (new / _CONTENT / "ingest").mkdir()
        for blob in (self.folder / blobs).iterdir():
            _link(blob, new / blobs / blob.name)
        (new / _SNAPSHOTTER / "snapshots").mkdir()
        new.rename(root)

    def mounts(self) -> Mapping[str, str]:
        """Folder in a node → folder of the store to be seen there, read-only."""
        snapshots = self.folder / _SNAPSHOTTER / "snapshots"
        target = f"{CONTAINERD_ROOT}/{_SNAPSHOTTER}/snapshots"
        return {f"{target}/{path.name}": str(path) for path in sorted(snapshots.iterdir())}


def ensure(images: Sequence[Image], containerd: Path, cgroups: CgroupTree, progress: Progress) -> Store:
    """The store of exactly these images; made if it isn't in the cache. Raises LocalError when an import fails."""
    version = subprocess.run([containerd, "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
    archives = sorted(str(image.archive_path) for image in images)
    entry = cache_dir() / "stores" / key_of([_FORMAT, version.encode(), *(path.encode() for path in archives)])

    def make(workplace: Path) -> None:
        with progress.step(f"Unpacking {len(images)} images"):
            _import_all(images, containerd, cgroups, workplace)
            (workplace / "var/lib/containerd").rename(workplace / entry.name)

    make_once(entry, make, waiting=lambda: progress.say("Another run is unpacking the images; waiting for it"))
    return Store(entry)


def _import_all(images: Sequence[Image], containerd: Path, cgroups: CgroupTree, workplace: Path) -> None:
    machine = Machine("store", workplace / "machine", cgroups)
    config = workplace / "containerd.toml"
    config.write_text(
        f'version = 2\nroot = "{CONTAINERD_ROOT}"\nstate = "/run/containerd"\noom_score = 0\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]\n'
        f'[grpc]\naddress = "{CONTAINERD_SOCKET}"\n'
    )
    keep = (str(workplace),)
    spec = Spec("store", covers={"/var": str(workplace / "var")}, keep=keep, folders=("/run/containerd", "/run/tmp"))
    machine.start(spec, [containerd_service(containerd, config)])
    try:
        socket = machine.path(CONTAINERD_SOCKET)
        for image in images:
            _import(image, socket)
        machine.shut_down()
    finally:
        machine.kill()


def _import(image: Image, socket: Path) -> None:
    # A freshly started containerd takes a moment to listen; ctr itself waits for it.
    ctr = ["ctr", "--address", str(socket), "--connect-timeout", "20s", "--namespace", "k8s.io"]
    try:
        done = subprocess.run(
            [*ctr, "images", "import", str(image.archive_path)],
            capture_output=True,
            text=True,
            timeout=_IMPORT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"importing the image {image.name} took more than {_IMPORT_TIMEOUT_S} s") from error
    if done.returncode:
        raise LocalError(f"the image {image.name} ({image.archive_path}) can't be imported: {done.stderr.strip()}")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # The state is kept on another disk than the cache.
        shutil.copyfile(source, target)
