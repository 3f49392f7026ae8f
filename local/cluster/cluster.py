"""One local cluster: its layout, its machines, and what it was made from."""

import json
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path

from .. import paths
from .api import Api
from .cgroups import CgroupTree
from .layout import CONTROL_PLANE, Layout, Node
from .machine import Machine
from .network import api_side


@dataclass(frozen=True)
class Record:
    """What stands in the state folder of a cluster about how it was made."""

    digest: str
    host_link: IPv4Network
    complete: bool
    """Whether it was ever seen to be in order; before that, nothing in it is worth keeping."""


@dataclass(frozen=True)
class Cluster:
    """The cluster whose state is in one folder, whether it exists or not."""

    layout: Layout

    @cached_property
    def cgroups(self) -> CgroupTree:
        return CgroupTree(self.layout.id)

    @cached_property
    def control_plane(self) -> Machine:
        return self.machine(CONTROL_PLANE)

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        return (self.control_plane, *(self.machine(node.name) for node in self.layout.nodes))

    def machine(self, name: str) -> Machine:
        return Machine(name, self.layout.machine_folder(name), self.cgroups)

    def machine_of(self, node: Node) -> Machine:
        return self.machine(node.name)

    def record(self) -> Record | None:
        """None where there is no cluster, or one that isn't known to be of any use."""
        try:
            written = json.loads(self.layout.record.read_text())
            return Record(written["digest"], IPv4Network(written["host_link"]), bool(written["complete"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write_record(self, record: Record) -> None:
        content = {"digest": record.digest, "host_link": str(record.host_link), "complete": record.complete}
        write_if_changed(self.layout.record, json.dumps(content))

    def api(self, record: Record) -> Api:
        return Api(str(api_side(record.host_link).ip), self.layout.pki)


def current() -> Cluster:
    """The cluster of this user and environment."""
    return Cluster(Layout(paths.state_dir()))


def write_if_changed(path: Path, text: str, mode: int = 0o600) -> None:
    """Whole or not at all, and not at all where it stands already."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=mode)
    new.write_text(text)
    new.replace(path)
