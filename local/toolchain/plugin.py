"""Pulumi's Kubernetes provider, where Pulumi looks for its plugins.

It isn't put on PATH: Pulumi takes a plugin on PATH for one under development, whatever its version, and warns of it in
each preview and update. Nor can a provider be asked for its version from outside; the name of a plugin's folder tells.
"""

import os
import subprocess
from pathlib import Path

from ..errors import BuildError
from ..progress import Progress
from .recipes import PROVIDER, PROVIDER_VERSION

_NAME = "kubernetes"
_INSTALL_TIMEOUT_S = 120


def installed() -> Path | None:
    """The provider of the right version among the user's plugins, or None."""
    folder = _home() / "plugins" / f"resource-{_NAME}-v{PROVIDER_VERSION}"
    program = folder / PROVIDER.name
    # Pulumi leaves this file beside a folder that it hasn't filled yet.
    half_made = folder.with_name(f"{folder.name}.partial").exists()
    return program if program.exists() and not half_made else None


def install(pulumi: Path, provider: Path, progress: Progress) -> Path:
    """Put a provider that was built here among the user's plugins, by Pulumi's own command. Idempotent."""
    if there := installed():
        return there
    command = [pulumi, "plugin", "install", "resource", _NAME, PROVIDER_VERSION, "--file", provider]
    with progress.step(f"Installing the plugin {_NAME} {PROVIDER_VERSION}"):
        try:
            done = subprocess.run(
                command,
                check=False,
                cwd="/",
                env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_INSTALL_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"pulumi plugin install took more than {_INSTALL_TIMEOUT_S} s") from error
    there = installed()
    if done.returncode != 0 or there is None:
        raise BuildError(f"pulumi plugin install failed:\n{done.stdout.strip()}")
    return there


def _home() -> Path:
    return Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi").expanduser()
