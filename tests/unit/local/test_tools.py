"""Which tools are taken from the machine, which are built, and how they come together in one folder."""

from pathlib import Path

import pytest

from local import tools
from local.progress import Progress
from local.toolchain import build, recipes


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing but a system on PATH, and a folder there for more."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("PULUMI_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The system's own folders may hold a kubectl: only the shell's is left.
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path / 'system'}")
    return folder


def program(folder: Path, name: str, says: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)
    return folder / name


def needed() -> set[str]:
    return {recipe.name for recipe in tools._needed(tools._found())}


def built(recipe: recipes.Recipe) -> None:
    """As if this had been built before."""
    for name in recipe.programs:
        program(build.entry_of(recipe), name, says=f"built {name}")


def test_on_an_empty_machine_all_is_built_and_the_longest_build_comes_first(machine: Path) -> None:
    del machine
    order = tools._needed(tools._found())
    assert {recipe.name for recipe in order} == {recipe.name for recipe in recipes.TOOLS_TO_RUN}
    assert order[0] is recipes.PROVIDER


def test_the_official_pulumi_brings_its_language_host(machine: Path) -> None:
    program(machine, "pulumi", "v3.270.0")
    assert "pulumi" not in needed()
    assert "pulumi-language-python" in needed()
    program(machine, "pulumi-language-python")
    assert "pulumi-language-python" not in needed()


def test_a_language_host_beside_a_linked_pulumi_counts(machine: Path, tmp_path: Path) -> None:
    (machine / "pulumi").symlink_to(program(tmp_path / "opt", "pulumi", "v3.270.0"))
    program(tmp_path / "opt", "pulumi-language-python")
    assert {"pulumi", "pulumi-language-python"}.isdisjoint(needed())


def test_the_official_language_host_is_taken_even_with_a_pulumi_that_is_too_old(machine: Path) -> None:
    program(machine, "pulumi", "v3.1.0")
    program(machine, "pulumi-language-python")
    assert "pulumi" in needed()
    assert "pulumi-language-python" not in needed()


def test_a_kubectl_is_taken_but_saves_no_build_of_the_others(machine: Path) -> None:
    own = program(machine, "kubectl", "Client Version: v1.34.1")
    assert tools._found()["kubectl"] == own
    assert "kubernetes" in needed()


def test_everything_comes_together(machine: Path) -> None:
    own = program(machine, "kubectl", "Client Version: v1.34.1")
    for recipe in recipes.TOOLS_TO_RUN:
        built(recipe)
    found = tools.ensure(Progress())
    assert found == tools.ensure(Progress())
    assert found.kubectl == own
    assert found.pulumi == found.bin / "pulumi"
    assert found.kubelet.read_text() == "#!/bin/sh\necho 'built kubelet'\n"
    assert found.provider == build.entry_of(recipes.PROVIDER) / "pulumi-resource-kubernetes"
    names = {path.name for path in found.bin.iterdir()}
    assert "pulumi-resource-kubernetes" not in names
    assert {"pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python"} <= names
