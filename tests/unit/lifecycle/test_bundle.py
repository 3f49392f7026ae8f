"""The agent's bundle: the same bytes on every machine, small, and importable from memory by Python alone."""

import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from valkeyctl.lifecycle import bundle, bundle_main
from valkeyctl.lifecycle.bundle import Bundle, agent_bundle, build, opened, pack

PACKAGES = ("valkeyctl", "valkey", "urllib3")

#: Imports every module of the bundle, after the bundle's file was exchanged, and says where modules came from.
IMPORTS_ALL = """
def main():
    import pathlib, sys
    archive = sys.path[0]
    assert "valkey" not in sys.modules and "urllib3" not in sys.modules
    names = []
    finder = sys.meta_path[0]
    for part in dict.fromkeys(finder._parts.values()):
        names += [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in part.sources()]
    pathlib.Path(archive).write_bytes(b"another version")
    for name in sorted(names):
        __import__(name)
    for name, module in sorted(sys.modules.items()):
        print(name, getattr(module, "__file__", None) or "-")
"""


def roots(folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in PACKAGES}


@pytest.fixture
def sources(tmp_path: Path) -> Callable[..., Path]:
    """Copies of the three packages in a folder of that name: of those installed, or of another copy."""

    def copy(name: str, of: Path | None = None) -> Path:
        folder = tmp_path / name
        for package in PACKAGES:
            found = of / package if of else Path(str(sys.modules[package].__file__)).parent
            shutil.copytree(found, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        return folder

    return copy


def entries(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def modules(content: bytes) -> dict[str, bytes]:
    unpacked = entries(content)
    return {
        path: source
        for part in bundle_main.PARTS
        for path, source in bundle_main.unpack(bundle.bz2.decompress(unpacked[part]))
    }


def run(content: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    """As the container does."""
    (folder / "agent.pyz").write_bytes(content)
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "agent.pyz"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_same_sources_give_the_same_bytes_wherever_they_lie(sources: Callable[..., Path], tmp_path: Path) -> None:
    one = sources("one")
    other = sources("a/folder/elsewhere", one)
    for file in other.rglob("*.py"):
        os.utime(file, (1, 1))
        file.chmod(0o600)
    (other / "valkey" / "__pycache__").mkdir()
    (other / "valkey" / "__pycache__" / "client.cpython-399.pyc").write_bytes(b"x")
    file = other / "valkeyctl" / "dataplane" / "model.py"
    # As a checkout on another system has it.
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert build(roots(one)).content == build(roots(other)).content
    # And as the program of a test has its packages: by a link.
    linked = {name: tmp_path / name for name in PACKAGES}
    for name, path in linked.items():
        path.symlink_to(one / name)
    assert build(linked).digest == build(roots(one)).digest


def test_another_source_gives_other_bytes(sources: Callable[..., Path]) -> None:
    folder = sources("one")
    (folder / "valkeyctl" / "kube" / "lease.py").write_text("CHANGED = True\n")
    assert build(roots(folder)).digest != agent_bundle().digest


def test_the_form_depends_on_no_version_of_python_or_zlib() -> None:
    with zipfile.ZipFile(io.BytesIO(agent_bundle().content)) as archive:
        for entry in archive.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert (entry.flag_bits, entry.extra, entry.comment) == (0, b"", b"")
        assert archive.namelist() == ["__main__.py", "libraries.bz2", "own.bz2"]
    # Every Python has to write these very bytes.
    packed = bundle.bz2.compress(pack({"b.py": b"2\n", "a/__init__.py": b""}), 9)
    told = sha256(bundle._zip({"b": packed, "a": b"1"})).hexdigest()
    assert told == "d14611555939b21861f00855c797aae2fa576bafbb684d44fee9a789ab2e5c52"


def test_fits_into_a_config_map() -> None:
    made = agent_bundle()
    assert len(made.base64) < bundle.MOST_BYTES
    # A request and what etcd stores have their bounds too, and the state of the stack carries it twice.
    assert len(made.content) < 600 * 1024


def test_what_is_in_it() -> None:
    found = modules(agent_bundle().content)
    assert {path.split("/")[0] for path in found} == set(PACKAGES)
    ours = {"/".join(path.split("/")[:2]) for path in found if path.startswith("valkeyctl/")}
    assert ours == {"valkeyctl/__init__.py", "valkeyctl/agent", "valkeyctl/dataplane", "valkeyctl/kube"}
    for path in ("valkeyctl/dataplane/plan.py", "valkeyctl/kube/access.py", "valkey/client.py", "urllib3/response.py"):
        assert found[path]
    assert not [path for path in found if "test" in path or not path.endswith(".py")]


def test_packed_sources_come_out_as_they_went_in() -> None:
    sources = {"a/__init__.py": b"", "a/b.py": "x = 'é\\n'\n12\n".encode(), "c.py": b"no line end"}
    assert dict(bundle_main.unpack(pack(sources))) == sources


def test_every_module_is_imported_by_python_alone(sources: Callable[..., Path], tmp_path: Path) -> None:
    folder = sources("one")
    agent = folder / "valkeyctl" / "agent"
    agent.mkdir(exist_ok=True)
    (agent / "main.py").write_text(IMPORTS_ALL)
    (agent / "__main__.py").unlink(missing_ok=True)
    done = run(build(roots(folder)).content, tmp_path)
    assert done.returncode == 0, done.stderr
    came_from = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for name in PACKAGES:
        assert "agent.pyz/" in came_from[name]
    for name in ("valkeyctl.dataplane.converge", "valkeyctl.kube.access", "valkeyctl.agent.main", "valkey.cluster"):
        assert came_from[name].endswith(f"agent.pyz/{name.replace('.', '/')}.py")
    # What isn't in a stock image: everything that pip installs.
    assert not [name for name, file in came_from.items() if "site-packages" in file]


def test_a_fault_is_shown_with_its_place(sources: Callable[..., Path], tmp_path: Path) -> None:
    folder = sources("one")
    (folder / "valkeyctl" / "agent" / "main.py").write_text("def main():\n    raise RuntimeError('broken')\n")
    done = run(build(roots(folder)).content, tmp_path)
    assert done.returncode == 1
    assert 'agent.pyz/valkeyctl/agent/main.py", line 2, in main' in done.stderr
    assert done.stderr.endswith("RuntimeError: broken\n")


def test_a_module_that_is_not_there_is_missed_as_ever(sources: Callable[..., Path], tmp_path: Path) -> None:
    folder = sources("one")
    text = "def main():\n    import valkeyctl.lifecycle\n"
    (folder / "valkeyctl" / "agent" / "main.py").write_text(text)
    done = run(build(roots(folder)).content, tmp_path)
    assert "ModuleNotFoundError: No module named 'valkeyctl.lifecycle'" in done.stderr


def test_it_is_made_once_in_a_process() -> None:
    assert agent_bundle() is agent_bundle()


def test_a_digest_stands_for_the_loader_and_every_part() -> None:
    different = [
        Bundle(b"1", {}),
        Bundle(b"2", {}),
        Bundle(b"1", {"a": {}}),
        Bundle(b"1", {"a": {"b.py": b""}}),
        Bundle(b"1", {"a": {"c.py": b""}}),
        Bundle(b"1", {"a": {"b.py": b"x"}}),
        Bundle(b"1", {"a": {}, "b": {"b.py": b"x"}}),
    ]
    assert len({made.digest for made in different}) == len(different)


def test_what_is_deployed_is_known_by_its_digest() -> None:
    made = agent_bundle()
    found = opened(made.content)
    assert found is not None
    assert found.digest == made.digest


def test_what_is_no_bundle_is_none() -> None:
    whole = agent_bundle().content
    other = bundle._zip({"__main__.py": b"1", **dict.fromkeys(bundle_main.PARTS, b"no bzip2")})
    for broken in (b"", b"PK", whole[: len(whole) // 2], other, bundle._zip({"a": b"1"})):
        assert opened(broken) is None
