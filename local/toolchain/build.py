"""Building one tool from its recipe into the cache."""

import os
import shutil
import subprocess
from collections import deque
from pathlib import Path

from ..cache import make_once
from ..errors import BuildError
from ..paths import builds_dir, cache_dir
from ..progress import Progress
from .golang import Go
from .recipes import ModuleFile, Recipe, compact_json, module_files

#: On two idle cores the longest build takes ten minutes; beside other work it has taken half an hour.
_BUILD_TIMEOUT_S = 3600
_DOWNLOAD_TIMEOUT_S = 600


def entry_of(recipe: Recipe) -> Path:
    """The folder in the cache that holds, or will hold, what the recipe makes."""
    return builds_dir() / f"{recipe.name}-{recipe.key()}"


def ensure(recipe: Recipe, go: Go, progress: Progress, *, label: str) -> Path:
    """Build the tool unless the cache has it; its folder. `label` begins each progress line: [3/8] Building etcd.

    Raises BuildError with the end of the log and the log's path.
    """
    entry = entry_of(recipe)

    def make(workplace: Path) -> None:
        with progress.step(label):
            source = workplace / "source"
            _lay_out(recipe, go, source)
            made = workplace / entry.name
            made.mkdir()
            _compile(recipe, go, source, made)

    make_once(entry, make, waiting=lambda: progress.say(f"{label}: waiting for another build of the same"))
    return entry


def _lay_out(recipe: Recipe, go: Go, source: Path) -> None:
    """A copy of the tool's folder with the generated files of its modules: a checkout may be read-only, and shared."""
    for path in module_files(recipe.folder):
        copy = source / path.relative_to(recipe.folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    for file in recipe.sources:
        (source / file.name).write_bytes(_content(file, go, source, recipe))


def _compile(recipe: Recipe, go: Go, source: Path, made: Path) -> None:
    program = made / recipe.name
    command = ["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", recipe.ldflags]
    _go([*command, "-o", str(program), recipe.package], go, source, recipe, timeout_s=_BUILD_TIMEOUT_S)
    for link in recipe.links:
        os.link(program, made / link)
    if recipe.links:
        program.unlink()
    for script in recipe.scripts:
        target = made / script.name
        target.write_bytes(_content(script, go, source, recipe))
        target.chmod(0o755)


def _content(file: ModuleFile, go: Go, source: Path, recipe: Recipe) -> bytes:
    _go(["mod", "download", file.module], go, source, recipe, timeout_s=_DOWNLOAD_TIMEOUT_S)
    folder = _go(["list", "-m", "-f", "{{.Dir}}", file.module], go, source, recipe, timeout_s=_DOWNLOAD_TIMEOUT_S)
    content = Path(folder, file.path).read_bytes()
    return compact_json(content, file.version) if file.name.endswith(".json") else content


def _go(arguments: list[str], go: Go, source: Path, recipe: Recipe, *, timeout_s: int) -> str:
    """Run a Go command; its standard output. Standard error goes to the tool's log."""
    log = cache_dir() / "logs" / f"build-{recipe.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        try:
            done = subprocess.run(
                [go.command, *arguments],
                check=False,
                cwd=source,
                env=environment(recipe),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"{recipe.name}: go {arguments[0]} took more than {timeout_s} s; see {log}. What it has compiled is "
                "kept: run it again to go on from there"
            ) from error
    if done.returncode != 0:
        with log.open() as lines:
            last = "".join(deque(lines, maxlen=15)).rstrip()
        raise BuildError(f"{recipe.name}: go {arguments[0]} failed (log: {log}):\n{last}")
    return done.stdout.strip()


def environment(recipe: Recipe) -> dict[str, str]:
    """For a Go command: the user's own, so that proxies and caches are found, without what would change the result."""
    variables = {**os.environ, "GO111MODULE": "on", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    if recipe.static:
        variables["CGO_ENABLED"] = "0"
    return variables
