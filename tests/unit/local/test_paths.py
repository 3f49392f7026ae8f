"""Where the local platform keeps things: the XDG base directories, which a user may move."""

from pathlib import Path

import pytest

from local import paths


def test_variables_move_cache_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere/state")
    assert paths.cache_dir() == Path("/somewhere/cache/valkey-local")
    assert paths.kubeconfig() == Path("/somewhere/state/valkey-local/kubeconfig")
    assert paths.bin_dir("abc") == Path("/somewhere/cache/valkey-local/bin-abc")


@pytest.mark.parametrize("value", ["", "relative/path"])
def test_without_a_usable_variable_the_home_folder_serves(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert paths.cache_dir() == Path("/home/somebody/.cache/valkey-local")
    assert paths.state_dir() == Path("/home/somebody/.local/state/valkey-local")
