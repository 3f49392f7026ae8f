"""The agent's code, `agent.pyz`: what runs in each Pod beside the server, on a stock Python image.

Made anew by every run of the program, on whatever machine that is, and part of what is deployed: so the same sources
have to give the same bytes everywhere, or every change of machines would roll every Pod. Hence no times, no modes, no
paths of the machine, everything sorted, and the zip's entries stored: there are several zlibs, each with other bytes.
What is large is compressed inside by bzip2, of which there is one; `bundle_main` says why it is in parts.
"""

from __future__ import annotations

import base64
import bz2
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from valkeyctl.lifecycle.bundle_main import PARTS, unpack

#: The file's name in the ConfigMap, and where it is mounted.
BUNDLE_FILE = "agent.pyz"
#: Most bytes of it, in base64 as it lies in the ConfigMap. The API server takes 1 MiB for a whole ConfigMap.
MOST_BYTES = 900 * 1024

#: Of `valkeyctl`, what the agent is made of. The rest needs Pulumi, or is for people.
_OWN = ("agent", "dataplane", "kube")
#: Parts of the libraries that nothing of ours imports: commands of server modules, other ways to make connections.
_LEFT_OUT = (
    "urllib3/contrib/emscripten/",
    "urllib3/contrib/pyopenssl.py",
    "urllib3/contrib/socks.py",
    "urllib3/http2/connection.py",
    "valkey/commands/bf/",
    "valkey/commands/graph/",
    "valkey/commands/json/",
    "valkey/commands/search/",
    "valkey/commands/timeseries/",
    "valkey/ocsp.py",
)
#: The earliest time that a zip can hold.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_MADE_ON_UNIX = 3


@dataclass(frozen=True)
class Bundle:
    """All that is in `agent.pyz`: the loader, and path → source of each part."""

    loader: bytes
    parts: Mapping[str, Mapping[str, bytes]] = field(repr=False)

    @cached_property
    def content(self) -> bytes:
        """The file's bytes. Compressed at the first use, in a sixth of a second."""
        packed = {part: bz2.compress(pack(sources), 9) for part, sources in self.parts.items()}
        return _zip({"__main__.py": self.loader, **packed})

    @cached_property
    def base64(self) -> str:
        """As a ConfigMap's `binaryData` holds it."""
        return base64.b64encode(self.content).decode()

    @cached_property
    def digest(self) -> str:
        """Changes when the code does. Of what is in it, since every preview needs it and not one byte of the rest."""
        whole = sha256(self.loader)
        for part, sources in sorted(self.parts.items()):
            whole.update(f"\0{part}\0".encode())
            whole.update(pack(sources))
        return whole.hexdigest()[:16]


@cache
def agent_bundle() -> Bundle:
    """The bundle of the sources that are installed. Read once in a process."""
    return build({name: _folder_of(name) for packages in PARTS.values() for name in packages})


def build(roots: Mapping[str, Path]) -> Bundle:
    """The bundle of these packages: name → folder. `valkeyctl` and the libraries have to be among them."""
    return Bundle(
        _text(Path(__file__).with_name("bundle_main.py")),
        {
            part: {path: text for name in packages for path, text in _sources(name, roots[name])}
            for part, packages in PARTS.items()
        },
    )


def opened(content: bytes) -> Bundle | None:
    """What is in the bytes of a bundle; None where they are none of this version's form."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {part: dict(unpack(bz2.decompress(archive.read(part)))) for part in PARTS}
            return Bundle(archive.read("__main__.py"), parts)
    except (zipfile.BadZipFile, KeyError, OSError, ValueError):
        return None


def pack(sources: Mapping[str, bytes]) -> bytes:
    """Path → source, in the form that `bundle_main.unpack` reads."""
    return b"".join(b"%s\n%d\n%s" % (path.encode(), len(text), text) for path, text in sorted(sources.items()))


def _sources(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """(path, source) of the modules of one package that belong into the bundle; paths start with the package."""
    for file in folder.rglob("*.py"):
        parts = file.relative_to(folder).parts
        path = "/".join((name, *parts))
        if name == "valkeyctl" and parts[0] not in (*_OWN, "__init__.py"):
            continue
        if not path.startswith(_LEFT_OUT):
            yield path, _text(file)


def _text(file: Path) -> bytes:
    """A source, with the same line ends whatever the checkout made of them."""
    return file.read_bytes().replace(b"\r\n", b"\n")


def _folder_of(package: str) -> Path:
    """Where a package is installed, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the agent's bundle needs the package {package}, which isn't installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _zip(entries: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.create_system = _MADE_ON_UNIX
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_STORED)
    return target.getvalue()
