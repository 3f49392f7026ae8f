"""What a tool is built from: the key that names it, and what its go.mod says."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from local.toolchain import recipes
from local.toolchain.recipes import Recipe, compact_json, go_directive, module_files, pinned, required_go


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder of the smallest tool, to change at will."""
    shutil.copytree(recipes.TOOLS / "pause", tmp_path / "pause")
    monkeypatch.setattr(recipes, "TOOLS", tmp_path)
    return tmp_path


def test_the_key_stays_while_nothing_changes(tools: Path) -> None:
    before = Recipe("pause").key()
    (tools / "pause" / "main_test.go").write_text("package main\n")
    (tools / "pause" / "notes.txt").write_text("not part of the build\n")
    assert Recipe("pause").key() == before
    assert re.fullmatch(r"[0-9a-f]{16}", before)


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_the_key_follows_each_file_of_the_build(tools: Path, name: str) -> None:
    before = Recipe("pause").key()
    with (tools / "pause" / name).open("a") as file:
        file.write("\n// changed\n")
    assert Recipe("pause").key() != before


def test_the_key_follows_the_recipe_but_not_its_estimate() -> None:
    base = recipes.PAUSE
    assert replace(base, ldflags="").key() != base.key()
    assert replace(base, static=False).key() != base.key()
    assert replace(base, cost_s=base.cost_s + 1).key() == base.key()


@pytest.mark.parametrize("recipe", recipes.ALL, ids=lambda recipe: recipe.name)
def test_every_tool_is_pinned(recipe: Recipe) -> None:
    assert all(path.is_file() for path in module_files(recipe.folder))
    content = (recipe.folder / "go.mod").read_text()
    assert go_directive(content) >= (1, 24)
    if recipe.package == ".":
        assert (recipe.folder / "main.go").is_file()
    else:
        assert f"tool {recipe.package}" in content


def test_the_kubernetes_programs_tell_the_version_that_they_are_built_from() -> None:
    assert pinned("kubernetes", "k8s.io/kubernetes") == f"v{recipes.KUBERNETES_VERSION}"
    assert f"gitVersion=v{recipes.KUBERNETES_VERSION} " in recipes.KUBERNETES.ldflags
    staging = recipes.KUBERNETES_VERSION.replace("1.", "0.", 1)
    replaced = (recipes.KUBERNETES.folder / "go.mod").read_text()
    assert f"k8s.io/client-go => k8s.io/client-go v{staging}" in replaced


def test_pulumi_and_its_language_host_are_of_one_version() -> None:
    sdk = "github.com/pulumi/pulumi/sdk/v3"
    assert pinned("pulumi", sdk) == pinned("pulumi-language-python", sdk)


def test_the_provider_goes_with_the_python_package() -> None:
    constraints = (recipes.TOOLS.parent.parent / "constraints.txt").read_text()
    assert f"pulumi-kubernetes=={recipes.PROVIDER_VERSION}" in constraints


def test_a_module_that_is_not_pinned_is_an_error() -> None:
    with pytest.raises(ValueError, match="doesn't pin example"):
        pinned("pause", "example.org/none")


def test_the_go_directive() -> None:
    assert go_directive("module x\n\ngo 1.26.6\n\nrequire y v1.0.0\n") == (1, 26, 6)
    with pytest.raises(ValueError, match="no go line"):
        go_directive("module x\n")


def test_the_newest_directive_decides() -> None:
    assert required_go([recipes.PAUSE]) < required_go(recipes.ALL)
    assert required_go(recipes.ALL) == required_go([recipes.PULUMI])


def test_json_is_made_compact_and_versioned() -> None:
    assert compact_json(b'{ "name": "x",\n  "version": "" }', "4.25.0") == b'{"name":"x","version":"4.25.0"}'
    assert json.loads(compact_json('{"ü": [1, 2]}'.encode(), None)) == {"ü": [1, 2]}
