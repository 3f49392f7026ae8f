"""Pulumi's Kubernetes provider, where Pulumi looks for its plugins.

It isn't put on PATH: Pulumi takes a plugin on PATH for one under development, whatever its version, and warns of it in
each preview and update. Nor can a provider be asked for its version from outside; the name of a plugin's folder tells.
"""

import filecmp
import os
import shutil
from pathlib import Path

from ..cache import exclusive, make_once
from ..paths import state_dir
from .recipes import PROVIDER, PROVIDER_VERSION

_FOLDER = f"resource-kubernetes-v{PROVIDER_VERSION}"


def installed() -> Path | None:
    """The provider of the right version among the user's own plugins, or None."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi").expanduser()
    if home.is_relative_to(state_dir()):
        return None  # In a shell of the local platform: what is there was provided by us.
    folder = home / "plugins" / _FOLDER
    # Pulumi leaves this file beside a folder that it hasn't filled yet.
    half_made = folder.with_name(f"{folder.name}.partial").exists()
    return folder / PROVIDER.name if (folder / PROVIDER.name).exists() and not half_made else None


def provide(provider: Path, home: Path) -> Path:
    """Make the provider a plugin of this Pulumi home ($PULUMI_HOME); the program there. Idempotent.

    It takes no space where both are on one filesystem.
    """
    folder = home / "plugins" / _FOLDER
    there = folder / PROVIDER.name
    if there.exists() and filecmp.cmp(provider, there):
        return there

    def make(workplace: Path) -> None:
        made = workplace / folder.name
        made.mkdir()
        try:
            os.link(provider, made / PROVIDER.name)
        except OSError:  # Another filesystem, or one without links.
            shutil.copy2(provider, made / PROVIDER.name)

    with exclusive(home / "plugins" / f".{folder.name}.replacing"):
        if folder.exists() and not (there.exists() and filecmp.cmp(provider, there)):
            shutil.rmtree(folder)  # Built from another recipe.
        make_once(folder, make)
    return there
