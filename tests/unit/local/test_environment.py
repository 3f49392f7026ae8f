"""The exports for a shell, read as a shell reads them."""

import os
import subprocess
from pathlib import Path

import pytest

from local import environment
from local.tools import Tools


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    names = [name for name in Tools.__dataclass_fields__ if name != "bin"]
    return Tools(bin=program.parent, **dict.fromkeys(names, program))


def _in_shell(text: str) -> dict[str, str]:
    shown = subprocess.run(["bash", "-ceu", f"{text}\nenv -0"], capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in shown.split("\0") if line)


def test_a_shell_reads_them(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "another")
    variables = _in_shell(environment.as_shell(environment.exports(tools, "198.18.0.2")))
    state = tmp_path / "a state" / "valkey-local"
    assert variables["KUBECONFIG"] == str(state / "kubeconfig")
    assert variables["PULUMI_BACKEND_URL"] == f"file://{state}/pulumi?metadata=skip"
    assert variables["PATH"].split(":")[0] == str(tools.bin)
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in variables
    assert (state / "pulumi").is_dir()


def test_path_does_not_grow(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    first = environment.exports(tools, "198.18.0.2")
    monkeypatch.setenv("PATH", first["PATH"])
    assert environment.exports(tools, "198.18.0.2")["PATH"] == first["PATH"]


def test_a_proxy_is_not_asked_for_the_cluster(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "NO_PROXY" not in environment.exports(tools, "198.18.0.2")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.example")
    assert environment.exports(tools, "198.18.0.2")["NO_PROXY"] == "198.18.0.2,localhost,.example"


def test_a_child_gets_this_processs_variables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_PROCESS", "1")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "another")
    merged = environment.merged({"KUBECONFIG": "/some/file"})
    assert merged["KUBECONFIG"] == "/some/file"
    assert merged["OF_THIS_PROCESS"] == "1"
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in merged
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" in os.environ
