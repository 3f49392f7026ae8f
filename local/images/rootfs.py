"""The root filesystem of an image, laid out in a folder."""

import os
import shutil
import subprocess
from collections import deque
from pathlib import Path

from ..errors import BuildError
from ..packages import SYSTEM_PATH
from ..paths import cache_dir
from .recipes import Debian, File, Recipe, version_in

_TIMEOUT_S = 600
_ASK_TIMEOUT_S = 30
# The main archive, not the ones beside it that only amend a release.
_AMENDING = ("-security", "-updates", "-backports", "-proposed-updates")


def unpack(source: Debian, target: Path, *, log_name: str) -> None:
    """Unpack packages and all that they depend on, without running any of their scripts: what comes out depends on
    the packages alone. Raises BuildError with the end of the log.
    """
    log = cache_dir() / "logs" / f"image-{log_name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        "mmdebstrap",
        "--mode=root",
        "--variant=extract",
        "--format=directory",
        f"--include={','.join(source.packages)}",
        # A mirror may be older than what its files say is allowed; their signatures still hold.
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=Acquire::Languages "none"',
        source.suite,
        str(target),
        mirror(),
    ]
    with log.open("w") as output:
        try:
            done = subprocess.run(
                command,
                check=False,
                env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"image {log_name}: mmdebstrap took more than {_TIMEOUT_S} s; see {log}") from error
    if done.returncode != 0:
        with log.open(errors="replace") as lines:
            last = "".join(deque(lines, maxlen=15)).rstrip()
        raise BuildError(f"image {log_name}: mmdebstrap failed (log: {log}):\n{last}")


def mirror() -> str:
    """The archive of packages that this machine itself uses. Raises BuildError where it uses none of Debian's."""
    form = "$(REPO_URI) $(RELEASE)"
    if shutil.which("apt-get") is None:
        raise BuildError("images are built from Debian's packages, and this machine has no apt-get; use a registry")
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", form], check=True, capture_output=True, text=True, timeout=60
    )
    return main_archive(told.stdout)


def main_archive(targets: str) -> str:
    """Of lines `<address> <release>`, the first address of a release itself."""
    for line in targets.splitlines():
        address, _, release = line.strip().partition(" ")
        if release and not release.endswith(_AMENDING):
            return address
    raise BuildError("this machine's apt knows no archive of Debian's (see /etc/apt/sources.list.d)")


def add(files: tuple[File, ...], root: Path) -> None:
    """Write what no package brings. What is there is replaced."""
    for file in files:
        path = root / file.path
        _make_folder(path.parent, root)
        if file.folder:
            path.mkdir(exist_ok=True)
        else:
            path.unlink(missing_ok=True)
            if file.target is not None:
                path.symlink_to(file.target)
                continue
            path.write_text(file.content)
        path.chmod(file.mode)
        os.chown(path, file.owner, file.owner)


def _make_folder(folder: Path, root: Path) -> None:
    """A folder that everybody may enter, whatever the umask of this process."""
    if folder == root or folder.exists():
        return
    _make_folder(folder.parent, root)
    folder.mkdir()
    folder.chmod(0o755)


def version(recipe: Recipe, root: Path) -> str:
    """What the program in the image says of itself. Raises BuildError if it doesn't run, or doesn't tell."""
    try:
        told = subprocess.run(
            ["chroot", root, *recipe.ask_version],
            check=True,
            env={"PATH": SYSTEM_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_ASK_TIMEOUT_S,
        )
        return version_in(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BuildError(
            f"image {recipe.name}: {' '.join(recipe.ask_version)} didn't tell a version: {error}"
        ) from error
