"""Reading in what may be unknown: paths, selectors, quantities, image references, the server's configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any

from .model import UNKNOWN

_SUFFIXES = {
    "": 1,
    **{name: Fraction(1, 1000**power) for power, name in enumerate("mun", start=1)},
    **{name: 1000**power for power, name in enumerate("kMGTPE", start=1)},
    **{f"{name}i": 1024**power for power, name in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(r"\+?(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([a-zA-Z]*))")
_MEMORY = re.compile(r"(\d+)(b|kb?|mb?|gb?)?", re.IGNORECASE)
_MEMORY_UNITS = {"b": 1, "k": 10**3, "kb": 2**10, "m": 10**6, "mb": 2**20, "g": 10**9, "gb": 2**30}
_VARIABLE = re.compile(r"\$\(\w+\)|\$\w+|\$\{[^{}]+\}|\{\{[^{}]+\}\}")
DOCKER_HUB = "docker.io"
_DOCKER_HUBS = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")
_REFERENCE = re.compile(r"(?P<repository>[^@\s]+?)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>\w+:[0-9a-f]{32,}))?")


def at(value: Any, *path: str | int) -> Any:
    """What stands at a path: None where there is nothing, UNKNOWN where it, or something on the way, isn't known."""
    for part in path:
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(part, int):
            value = value[part] if _is_list(value) and part < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def items(value: Any) -> list[Any]:
    """The entries of a list that are known; none where there is no list."""
    return [entry for entry in value if entry is not UNKNOWN] if _is_list(value) else []


def is_vague(value: Any) -> bool:
    """Whether anything in it is unknown, so that what isn't seen in it may be there all the same."""
    if isinstance(value, Mapping):
        return any(is_vague(part) for part in value.values())
    return any(is_vague(part) for part in value) if _is_list(value) else value is UNKNOWN


def mapping(value: Any) -> Mapping[str, Any]:
    """A known mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    """Known text; "" for anything else."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """A known whole number (they travel as floats); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value != int(value):
        return None
    return int(value)


def quantity(value: Any) -> Fraction | None:
    """A Kubernetes quantity; None where it isn't one, or isn't known."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Fraction(value) if isfinite(value) else None
    match = _QUANTITY.fullmatch(text(value).strip())
    if not match:
        return None
    if match[2]:
        return Fraction(match[1]) * Fraction(10) ** int(match[2][1:])
    return Fraction(match[1]) * _SUFFIXES[match[3]] if match[3] in _SUFFIXES else None


def memory_bytes(value: str) -> int | None:
    """The bytes of a memory value of the server's configuration; None where it isn't one."""
    match = _MEMORY.fullmatch(value)
    return int(match[1]) * _MEMORY_UNITS[(match[2] or "b").lower()] if match else None


@dataclass(frozen=True)
class Image:
    """An image reference in its parts; "" for those that it lacks."""

    repository: str
    tag: str
    digest: str

    @property
    def last(self) -> str:
        """The last part of the repository, without host and folders."""
        return self.repository.rpartition("/")[2]

    @property
    def full(self) -> str:
        """The repository with its registry: `valkey/valkey` is `docker.io/valkey/valkey`, and so is what else is
        written for it."""
        host, _, path = self.repository.partition("/")
        if not path or not (set(".:") & set(host) or host == "localhost"):
            host, path = DOCKER_HUB, self.repository
        host = DOCKER_HUB if host.lower() in _DOCKER_HUBS else host.lower()
        return f"{host}/library/{path}" if host == DOCKER_HUB and "/" not in path else f"{host}/{path}"


def image(reference: str) -> Image:
    """Takes a reference apart."""
    match = _REFERENCE.fullmatch(reference)
    if not match:
        return Image(reference, "", "")
    repository, tag = match["repository"], match["tag"] or ""
    if "/" in tag:
        return Image(f"{repository}:{tag}", "", match["digest"] or "")
    return Image(repository, tag, match["digest"] or "")


def selects(selector: Any, labels: Any) -> bool | None:
    """Whether a label selector takes what has these labels; None where that isn't known yet.

    An empty selector takes all. Expressions are judged as Kubernetes does.
    """
    if is_vague(selector) or is_vague(labels):
        return None
    stated, wanted = mapping(labels), mapping(at(selector, "matchLabels"))
    if any(stated.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(expression, stated) for expression in items(at(selector, "matchExpressions")))


def _holds(expression: Any, labels: Mapping[str, Any]) -> bool:
    key, values = text(at(expression, "key")), items(at(expression, "values"))
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }.get(text(at(expression, "operator")), True)


@lru_cache(maxsize=256)
def directives(content: str) -> tuple[tuple[str, list[str]], ...]:
    """The lines of a server's configuration as (name in small letters, words). No comments."""
    return tuple(_lines(content))


def _lines(content: str) -> Iterator[tuple[str, list[str]]]:
    for line in content.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError:
            words = line.split()
        if words:
            yield words[0].lower(), words[1:]


def arguments(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The settings on a server's command line (`--maxmemory 100mb`), as `directives` gives those of a file."""
    name, values = "", list[str]()
    for word in _apart(words):
        if word.startswith("--") and len(word) > 2:
            if name:
                yield name, values
            name, values = word[2:].lower(), []
        elif name:
            values.append(word)
    if name:
        yield name, values


def _apart(words: Sequence[str]) -> Iterator[str]:
    """The words one by one, where one of them is a shell's script, or several settings as the server takes them too."""
    for word in words:
        if "--" not in word or not re.search(r"\s", word):
            yield word
            continue
        # What follows an operator of the shell belongs to another command.
        for part in re.split(r"([;&|\n])", word.replace("\\\n", " ")):
            if part in (";", "&", "|", "\n"):
                yield "--" + part
                continue
            try:
                yield from shlex.split(part)
            except ValueError:
                yield from part.split()


def is_reference(word: str) -> bool:
    """Whether it only names a variable of the environment, as Kubernetes, shells and templates write them."""
    return bool(_VARIABLE.fullmatch(word.strip("\"'")))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
