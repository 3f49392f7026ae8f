"""The language host has tests of its own, in Go; they run with the rest."""

import subprocess

from local.progress import Progress
from local.toolchain import build, golang, recipes


def test_the_language_host_passes_its_tests() -> None:
    go = golang.find(Progress())
    done = subprocess.run(
        [go.command, "test", "-trimpath", "-count=1", "./..."],
        check=False,
        cwd=recipes.LANGUAGE_HOST.folder,
        env=build.environment(recipes.LANGUAGE_HOST),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout
    assert "ok" in done.stdout.split()
