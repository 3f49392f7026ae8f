"""Tools that the machine already has: on PATH, and in a version that goes with the rest."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..paths import cache_dir
from .recipes import KUBERNETES_VERSION

Version = tuple[int, ...]
_PROBE_TIMEOUT_S = 20
_KUBE_MINOR = int(KUBERNETES_VERSION.split(".")[1])


@dataclass(frozen=True)
class Wanted:
    """A program, how to ask for its version, and which versions will do: from `least` on, and before `below`."""

    program: str
    arguments: tuple[str, ...]
    least: Version
    below: Version

    def accepts(self, version: Version | None) -> bool:
        return version is not None and self.least <= version < self.below


def _kube(program: str) -> Wanted:
    # A kubelet may be older than the API server but not newer: one minor version for all of them.
    return Wanted(program, ("--version",), (1, _KUBE_MINOR), (1, _KUBE_MINOR + 1))


PULUMI = Wanted("pulumi", ("version",), (3, 260), (4,))
LANGUAGE_HOST = "pulumi-language-python"
# kubectl supports API servers one minor version older and newer than itself.
KUBECTL = Wanted("kubectl", ("version", "--client"), (1, _KUBE_MINOR - 1), (1, _KUBE_MINOR + 2))
KUBERNETES = tuple(
    _kube(f"kube{name}") for name in ("-apiserver", "-controller-manager", "-scheduler", "let", "-proxy")
)
ETCD = Wanted("etcd", ("--version",), (3, 6), (3, 7))
COREDNS = Wanted("coredns", ("-version",), (1, 11), (2,))
KUBE_ROUTER = Wanted("kube-router", ("--version",), (2, 1), (3,))


def find(wanted: Wanted) -> Path | None:
    """The program on PATH if its version will do. What this cache put on PATH before doesn't count as found."""
    path = program_on_path(wanted.program)
    return path if path is not None and wanted.accepts(_version(path, wanted)) else None


def find_all(wanted: Iterable[Wanted]) -> dict[str, Path] | None:
    """All of these programs by name, or None if any one of them is missing."""
    found: dict[str, Path] = {}
    for item in wanted:
        path = find(item)
        if path is None:
            return None
        found[item.program] = path
    return found


def program_on_path(name: str) -> Path | None:
    """Like shutil.which, without the folders of our own cache."""
    ours = str(cache_dir())
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if not folder.startswith(ours)]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return Path(found).absolute() if found else None


def version_in(text: str) -> Version | None:
    """The first version of at least two numbers in a text: v3.276.0, CoreDNS-1.14.7, etcd Version: 3.6.16."""
    found = re.search(r"(?<![\w.])(?:[A-Za-z]+-)?v?(\d+(?:\.\d+)+)", text)
    return tuple(int(number) for number in found.group(1).split(".")) if found else None


def _version(path: Path, wanted: Wanted) -> Version | None:
    """Asked once for each state of the file: some programs take a second to tell."""
    status = path.stat()
    question = f"{path} {status.st_size} {status.st_mtime_ns} {' '.join(wanted.arguments)}"
    store = cache_dir() / "versions.json"
    answers = _read(store)
    if question not in answers:
        answer = _ask(path, wanted)
        if not answer:
            return None
        answers[question] = answer
        store.parent.mkdir(parents=True, exist_ok=True)
        fresh = store.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(answers, indent=1))
        fresh.rename(store)
    return version_in(answers[question])


def _ask(path: Path, wanted: Wanted) -> str:
    try:
        told = subprocess.run(
            [path, *wanted.arguments],
            check=False,
            cwd="/",
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout if told.returncode == 0 else ""


def _read(store: Path) -> dict[str, str]:
    try:
        content = json.loads(store.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
