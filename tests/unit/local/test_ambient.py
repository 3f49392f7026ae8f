"""Tools on PATH: which will do, and which are ours."""

from pathlib import Path

import pytest

from local.toolchain import ambient
from local.toolchain.ambient import Wanted, version_in


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH but for the system's; the cache is elsewhere."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def program(path: Path, says: str, *, exit_code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho asked >> {path.parent}/{path.name}.asked\necho '{says}'\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v3.276.0", (3, 276, 0)),
        ("Kubernetes v1.34.4", (1, 34, 4)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", (1, 32, 4)),
        ("etcd Version: 3.6.16\nGit SHA: GitNotFound", (3, 6, 16)),
        ("CoreDNS-1.14.7\nlinux/amd64, go1.26.8,", (1, 14, 7)),
        ("Running /usr/local/bin/kube-router version v2.1.0, built on , go1.26.8", (2, 1, 0)),
        ("no version at all", None),
        ("", None),
    ],
)
def test_versions_are_found_in_what_programs_say(text: str, version: tuple[int, ...] | None) -> None:
    assert version_in(text) == version


@pytest.mark.parametrize(
    ("wanted", "version", "accepted"),
    [
        (ambient.PULUMI, (3, 259, 9), False),
        (ambient.PULUMI, (3, 260, 0), True),
        (ambient.PULUMI, (4, 0, 0), False),
        (ambient.KUBECTL, (1, 32, 4), False),
        (ambient.KUBECTL, (1, 33, 0), True),
        (ambient.KUBECTL, (1, 35, 9), True),
        (ambient.KUBECTL, (1, 36, 0), False),
        (ambient.KUBERNETES[0], (1, 33, 9), False),
        (ambient.KUBERNETES[0], (1, 34, 0), True),
        (ambient.KUBERNETES[0], (1, 35, 0), False),
        (ambient.PULUMI, None, False),
    ],
)
def test_which_versions_will_do(wanted: Wanted, version: tuple[int, ...] | None, accepted: bool) -> None:  # noqa: FBT001
    assert wanted.accepts(version) is accepted


def test_a_program_of_the_right_version_is_found_and_asked_once(folder: Path) -> None:
    there = program(folder / "pulumi", "v3.270.1")
    assert [ambient.find(ambient.PULUMI) for _ in range(3)] == [there] * 3
    assert (folder / "pulumi.asked").read_text() == "asked\n"


def test_a_program_that_changed_is_asked_again(folder: Path) -> None:
    program(folder / "pulumi", "v3.100.0")
    assert ambient.find(ambient.PULUMI) is None
    there = program(folder / "pulumi", "v3.270.10")
    assert ambient.find(ambient.PULUMI) == there


def test_a_program_that_fails_is_not_found(folder: Path) -> None:
    program(folder / "pulumi", "v3.270.1", exit_code=1)
    assert ambient.find(ambient.PULUMI) is None


def test_what_the_cache_put_on_path_does_not_count(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "cache" / "valkey-local" / "bin-0123"
    program(ours / "pulumi", "v3.276.0")
    monkeypatch.setenv("PATH", f"{ours}:{folder}:/usr/bin:/bin")
    assert ambient.find(ambient.PULUMI) is None
    there = program(folder / "pulumi", "v3.270.1")
    assert ambient.find(ambient.PULUMI) == there


def test_of_programs_that_belong_together_all_are_found_or_none(folder: Path) -> None:
    names = [wanted.program for wanted in ambient.KUBERNETES]
    for name in names[:-1]:
        program(folder / name, "Kubernetes v1.34.2")
    assert ambient.find_all(ambient.KUBERNETES) is None
    program(folder / names[-1], "Kubernetes v1.34.2")
    assert ambient.find_all(ambient.KUBERNETES) == {name: folder / name for name in names}
