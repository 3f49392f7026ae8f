"""All that a cluster is to be, as plain data; its digest tells whether one that exists is still that."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..cache import key_of
from ..errors import LocalError
from ..images import Image
from ..paths import cache_dir
from ..tools import Tools
from . import addons, control_plane, node
from .layout import CONTROL_PLANE, Layout
from .machine import Service, Spec
from .store import Store

_PROGRAMS = ("init/__main__.py", "init/furnish.py", "init/supervise.py", "volumes.py")
"""Programs of ours that run as long as the cluster does."""


@dataclass(frozen=True)
class Desired:
    """A cluster, ready to be started."""

    layout: Layout
    specs: Mapping[str, Spec]
    services: Mapping[str, tuple[Service, ...]]
    """Of each machine, by name."""
    files: Mapping[Path, str]
    manifests: Sequence[Mapping[str, Any]]
    store: Store

    def digest(self) -> str:
        """Stands for everything that would make another cluster: versions, settings, images, our own programs."""
        content = {
            "specs": {name: asdict(spec) for name, spec in self.specs.items()},
            "services": {name: [asdict(service) for service in entries] for name, entries in self.services.items()},
            "files": {str(path): text for path, text in self.files.items()},
            "manifests": list(self.manifests),
            "store": str(self.store.folder),
        }
        programs = [(Path(__file__).parent / name).read_bytes() for name in _PROGRAMS]
        return key_of([_wherever(json.dumps(content, sort_keys=True)).encode(), *programs])


def _wherever(text: str) -> str:
    """The text without the paths of this checkout and its Python: another checkout uses the same cluster."""
    ours = {Path(__file__).parent, Path(sys.executable).parent, Path(sys.prefix)}
    names = {str(form) for path in ours for form in (path, path.resolve())}
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "")
    return text


def describe(
    layout: Layout, *, tools: Tools, images: Sequence[Image], store: Store, containerd: Path, cni_folder: Path
) -> Desired:
    """What the cluster is to be, with these programs and images."""
    python = sys.executable
    keep = _kept(layout, tools, python)
    sandbox = sandbox_image(images)
    specs = {CONTROL_PLANE: control_plane.spec(layout, keep)}
    services = {CONTROL_PLANE: control_plane.services(layout, tools, python)}
    files = dict(control_plane.files(layout))
    for each in layout.nodes:
        specs[each.name] = node.spec(layout, each, keep, store.mounts())
        services[each.name] = node.services(layout, each, tools, containerd)
        files |= node.files(layout, each, sandbox, cni_folder)
    return Desired(layout, specs, services, files, addons.manifests(layout), store)


def sandbox_image(images: Sequence[Image]) -> str:
    """The image that holds a Pod's namespaces."""
    for image in images:
        for ref in image.refs:
            if "/pause:" in ref:
                return ref
    raise LocalError("none of the images is `pause`, without which no Pod can run")


def _kept(layout: Layout, tools: Tools, python: str) -> tuple[str, ...]:
    """Folders that the machines need although they may lie where the machines have something of their own."""
    programs = {tools.bin, tools.etcd.parent, tools.kubelet.parent, tools.coredns.parent, tools.kube_router.parent}
    ours = {layout.state, cache_dir(), Path(__file__).resolve().parent, Path(python).parent, Path(sys.prefix)}
    return tuple(sorted(str(path.resolve()) for path in programs | ours))
