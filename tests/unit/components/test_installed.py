"""The components as another program has them: installed by pip, under their own name, beside its own `components`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]

PROGRAM = """
import pulumi
from pulumi.runtime import mocks


class Engine(mocks.Mocks):
    def new_resource(self, args):
        return args.name, dict(args.inputs)

    def call(self, args):
        return {}


mocks.set_mocks(Engine())

import components  # this program's own
from valkey_components import ClusterArgs, ValkeyCluster
from valkey_components.cluster import config_data

assert components.MINE
cluster = ValkeyCluster("sessions", ClusterArgs(shards=1, allow_few_shards=True, namespace="data"))
print(cluster._type)
print(sorted(config_data(ClusterArgs())))
print(ClusterArgs.__module__, ValkeyCluster.__module__)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("program")
    source = folder / "source"
    source.mkdir()
    # A copy, since building leaves files beside the sources.
    for name in ("components", "valkeyctl"):
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(CHECKOUT / name, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, *offline, "--target", str(folder / "site"), str(source)], check=True, timeout=180)
    shutil.rmtree(source)
    (folder / "components").mkdir()
    (folder / "components" / "__init__.py").write_text("MINE = True\n")
    (folder / "program.py").write_text(PROGRAM)
    yield folder
    shutil.rmtree(folder)


def test_another_program_uses_the_component(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=program,
        env={**os.environ, "PYTHONPATH": str(program / "site")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kind, files, modules = done.stdout.splitlines()
    assert kind == "valkey:index:Cluster"
    assert files == "['cli.sh', 'defaults.json', 'handover.sh', 'live.conf', 'probe.sh', 'start.sh', 'valkey.conf']"
    assert modules == "valkey_components.args valkey_components.cluster"


def test_what_is_installed(program: Path) -> None:
    site = program / "site"
    installed = {path.name for path in site.iterdir() if path.is_dir() and not path.name.endswith(".dist-info")}
    assert installed == {"valkey_components", "valkeyctl"}
    for name, package in (("components", "valkey_components"), ("valkeyctl", "valkeyctl")):
        sources = {
            path.relative_to(CHECKOUT / name)
            for path in (CHECKOUT / name).rglob("*")
            if path.suffix in {".py", ".sh", ".typed"} and "__pycache__" not in path.parts
        }
        missing = {str(path) for path in sources if not (site / package / path).exists()}
        assert missing == set()
