"""Pulumi's Kubernetes provider becomes a plugin of the home where the local stack is run from."""

from pathlib import Path

import pytest

from local.toolchain import plugin
from local.toolchain.recipes import PROVIDER, PROVIDER_VERSION

FOLDER = f"resource-kubernetes-v{PROVIDER_VERSION}"


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    path = tmp_path / "builds" / PROVIDER.name
    path.parent.mkdir()
    path.write_text("a provider")
    path.chmod(0o755)
    return path


def test_a_provider_is_provided_once_and_takes_no_space(tmp_path: Path, provider: Path) -> None:
    home = tmp_path / "home"
    there = plugin.provide(provider, home)
    assert there == home / "plugins" / FOLDER / PROVIDER.name
    assert there.samefile(provider)
    assert plugin.provide(provider, home) == there


def test_another_build_takes_the_place_of_the_first(tmp_path: Path, provider: Path) -> None:
    home = tmp_path / "home"
    plugin.provide(provider, home)
    other = tmp_path / "other" / PROVIDER.name
    other.parent.mkdir()
    other.write_text("a provider from another recipe")
    assert plugin.provide(other, home).read_text() == "a provider from another recipe"
    assert [path.name for path in (home / "plugins" / FOLDER).iterdir()] == [PROVIDER.name]


def test_what_an_interrupted_attempt_left_is_replaced(tmp_path: Path, provider: Path) -> None:
    (tmp_path / "home" / "plugins" / FOLDER).mkdir(parents=True)
    assert plugin.provide(provider, tmp_path / "home").samefile(provider)


def test_the_users_own_plugin_serves(tmp_path: Path, provider: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert plugin.installed() is None
    there = plugin.provide(provider, tmp_path / "home")
    assert plugin.installed() == there
    (tmp_path / "home" / "plugins" / f"{FOLDER}.partial").touch()
    assert plugin.installed() is None


def test_what_the_platform_itself_provided_is_not_the_users(
    tmp_path: Path, provider: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "state" / "valkey-local" / "pulumi-home"
    monkeypatch.setenv("PULUMI_HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plugin.provide(provider, home)
    assert plugin.installed() is None
