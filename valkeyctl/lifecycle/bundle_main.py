"""What Python runs of the agent's bundle: as `__main__` in `agent.pyz` (see `bundle`), it lets the rest be imported.

The container's root is read-only, so nothing is unpacked to disk: modules are compiled from memory. The file is read
once, whole: the mounted one is exchanged under a running agent when a new version is deployed, and an import that
comes later must not find the new version's modules. The libraries are only decompressed when one of them is imported.

As little as possible is imported here. Stock Python images have no bytecode of the standard library, so whatever is
imported is compiled at each start, in every Pod, before its server may start.
"""

from __future__ import annotations

import bz2
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # `typing` alone takes a tenth of a second to compile
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, ModuleType
    from typing import Any

#: Each part in the bundle, and the top-level packages in it.
PARTS = {"own.bz2": ("valkeyctl",), "libraries.bz2": ("urllib3", "valkey")}


class Part:
    """The sources of some packages, decompressed at the first import of one of them."""

    def __init__(self, packed: bytes, origin: str) -> None:
        self._packed = packed
        self._origin = origin
        self._sources: dict[str, bytes] | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The import system asks for a module of these packages; None where there is none of that name."""
        del path, target  # names alone decide
        folder = fullname.replace(".", "/")
        for file, is_package in ((f"{folder}/__init__.py", True), (f"{folder}.py", False)):
            if file in self.sources():
                # importlib.abc.Loader would be the base class; importing it costs more than all of this module.
                loader: Any = self
                spec = ModuleSpec(fullname, loader, origin=f"{self._origin}/{file}", is_package=is_package)
                spec.has_location = True
                return spec
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """The import system's own kind of module does."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's source in it."""
        spec = module.__spec__
        assert spec is not None  # noqa: S101 - the import system calls this with the specs of find_spec alone
        code = self.get_code(spec.name)
        exec(code, module.__dict__)  # noqa: S102 - what importing is

    def get_code(self, fullname: str) -> CodeType:
        """A module's code. `python -m` and runpy ask for it too."""
        file = self._file(fullname)
        return compile(self.sources()[file], f"{self._origin}/{file}", "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:
        """A module's text: tracebacks show its lines."""
        return self.sources()[self._file(fullname)].decode()

    def is_package(self, fullname: str) -> bool:
        """Whether a module is a package."""
        return self._file(fullname).endswith("/__init__.py")

    def sources(self) -> dict[str, bytes]:
        """Path → source, of all modules of the part."""
        if self._sources is None:
            self._sources = dict(unpack(bz2.decompress(self._packed)))
            self._packed = b""
        return self._sources

    def _file(self, fullname: str) -> str:
        folder = fullname.replace(".", "/")
        package = f"{folder}/__init__.py"
        return package if package in self.sources() else f"{folder}.py"


class Finder:
    """Sends the import system to the part that has a package."""

    def __init__(self, parts: dict[str, Part]) -> None:
        self._parts = parts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As `Part.find_spec`, for all parts."""
        part = self._parts.get(fullname.partition(".")[0])
        return None if part is None else part.find_spec(fullname, path, target)


def unpack(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(path, source) of each file in a part: a line with the path, one with the length in bytes, and the source."""
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        path, at = data[at:end].decode(), end + 1
        end = data.index(b"\n", at)
        size, at = int(data[at:end]), end + 1
        yield path, data[at : at + size]
        at += size


def install() -> None:
    """Make the bundle's packages importable. They win over others of their names."""
    archive = sys.path[0]
    read = __loader__.get_data  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue, reportOptionalMemberAccess]
    parts: dict[str, Part] = {}
    for name, packages in PARTS.items():
        part = Part(read(f"{archive}/{name}"), archive)
        parts.update(dict.fromkeys(packages, part))
    sys.meta_path.insert(0, Finder(parts))


if __name__ == "__main__":
    install()
    from valkeyctl.agent.main import main

    main()
