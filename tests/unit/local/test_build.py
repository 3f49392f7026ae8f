"""Building a tool for real: the smallest one, with the Go that is there."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from local.errors import BuildError
from local.progress import Progress
from local.toolchain import build, golang, recipes
from local.toolchain.golang import Go, parse


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    """A Go, found before the cache of this test takes the place of the user's."""
    found = golang.find(Progress())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GOCACHE", str(Path(os.environ.get("GOCACHE") or Path.home() / ".cache" / "go-build")))
    return found


def test_versions_of_go_compare_as_numbers() -> None:
    assert parse("go1.26.10") > parse("go1.26.6") > parse("go1.9")
    assert parse("go1.27rc1") == (1, 27)
    assert parse("devel") == ()


def test_a_go_that_is_too_old_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go1.19.8\n")
    old.chmod(0o755)
    monkeypatch.setattr(golang, "_USUAL_PLACES", ())
    monkeypatch.setattr(golang, "_fetch", _no_network)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BuildError, match="no network"):
        golang.find(Progress())


def _no_network(target: Path) -> None:
    raise BuildError(f"no network for {target.name}")


def test_a_build_is_complete_and_done_once(go: Go, capfd: pytest.CaptureFixture[str]) -> None:
    folder = build.ensure(recipes.PAUSE, go, Progress(), label="[1/1] Building pause")
    assert [path.name for path in folder.iterdir()] == ["pause"]
    assert os.access(folder / "pause", os.X_OK)
    told = capfd.readouterr().err
    assert "[1/1] Building pause …" in told
    assert "[1/1] Building pause: done in " in told
    assert build.ensure(recipes.PAUSE, go, Progress(), label="again") == folder
    assert capfd.readouterr().err == ""


def test_a_program_of_many_names_is_there_under_each(go: Go) -> None:
    recipe = replace(recipes.PAUSE, links=("first", "second"))
    folder = build.ensure(recipe, go, Progress(), label="x")
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    assert (folder / "first").samefile(folder / "second")


def test_a_build_that_fails_says_why_and_leaves_nothing(
    go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recipes.TOOLS / "pause", tmp_path / "tools" / "pause")
    with (tmp_path / "tools" / "pause" / "main.go").open("a") as source:
        source.write("\nfunc broken() { return undefinedName }\n")
    monkeypatch.setattr(recipes, "TOOLS", tmp_path / "tools")
    with pytest.raises(BuildError, match="undefinedName") as failure:
        build.ensure(recipes.PAUSE, go, Progress(), label="x")
    log = tmp_path / "cache" / "valkey-local" / "logs" / "build-pause.log"
    assert str(log) in str(failure.value)
    assert "undefinedName" in log.read_text()
    assert not build.entry_of(recipes.PAUSE).exists()


def test_pause_ends_when_it_is_told_to(go: Go) -> None:
    program = build.ensure(recipes.PAUSE, go, Progress(), label="x") / "pause"
    with subprocess.Popen([program]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        process.terminate()
        assert process.wait(timeout=5) == 0
