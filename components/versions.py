"""Which versions of the server there are, which image runs each, and what an image's tag tells of its version."""

from __future__ import annotations

import re

from .server_settings import DEFAULTS, SETTINGS, START_ONLY

REPOSITORY = "valkey/valkey"
#: Version line → the release that is run when the line is asked for. The newest line is the default.
RELEASES = {"8.1": "8.1.8", "9.1": "9.1.2"}
DEFAULT_LINE = "9.1"
#: The oldest line whose protocol and settings this project speaks.
OLDEST = (8, 0)

_TAG = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:-[\w.-]+)?")
_REFERENCE = re.compile(
    r"(?:[a-z0-9]+(?:[.-][a-z0-9]+)*(?::\d+)?/)?"  # host, with or without a port
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?P<tag>:\w[\w.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


def reference_problem(image: str, like: str) -> str:
    """Why `image` names no image for good; "" when it does. `like`: an example, with a tag."""
    match = _REFERENCE.fullmatch(image)
    if not match:
        return f"not an image reference; written like {like}"
    if not match["tag"] and not match["digest"]:
        tag = like.rpartition(":")[2]
        return f"names no tag and no digest, so it would mean another version tomorrow; write {image}:{tag}"
    return ""


def image_problem(image: str) -> str:
    """Why `image` can't be used; "" when it can, as far as a reference tells."""
    if problem := reference_problem(image, f"{REPOSITORY}:{RELEASES[DEFAULT_LINE]}"):
        return problem
    version = version_of(image)
    if version and version < OLDEST:
        return f"Valkey before {OLDEST[0]}.{OLDEST[1]} isn't supported; the versions are {_lines()}"
    return ""


def version_problem(version: str) -> str:
    """Why `version` can't be asked for; "" when it can: a line ("9.1"), or the release of a line ("9.1.2")."""
    if version in RELEASES or version in RELEASES.values():
        return ""
    return f"not a version that is known here: {_lines()} (another one can be named by its image)"


def image_of(version: str) -> str:
    """The image of a version that `version_problem` accepts."""
    return f"{REPOSITORY}:{RELEASES.get(version, version)}"


def version_of(image: str) -> tuple[int, int] | None:
    """Major and minor version as the image's tag tells them; None where it tells none (a digest, a name)."""
    match = _REFERENCE.fullmatch(image)
    tag = _TAG.fullmatch((match["tag"] or "").lstrip(":")) if match else None
    return (int(tag[1]), int(tag[2])) if tag else None


def settings_of(image: str) -> dict[str, str]:
    """The settings, name → kind, that the image's server has.

    Where its version is not one that was asked, those of all known lines together: refusing what a server may well have
    would be worse than finding out when it starts.
    """
    return _of_line(SETTINGS, image)


def start_only_of(image: str) -> frozenset[str]:
    """The settings that the image's server refuses while it runs.

    Where its version is not one that was asked, those of all known lines: a Pod that is replaced without need is better
    than a setting that is never in effect.
    """
    line = _line_of(image)
    return START_ONLY[line] if line in START_ONLY else frozenset[str]().union(*START_ONLY.values())


def defaults_of(image: str) -> dict[str, str]:
    """Name → default of the settings that can be changed while the image's server runs; see `settings_of`."""
    return _of_line(DEFAULTS, image)


def version_is_known(image: str) -> bool:
    """Whether the image's tag tells a version line whose server was asked."""
    return _line_of(image) in SETTINGS


def version_label(image: str) -> str | None:
    """The value of the label `app.kubernetes.io/version`; None where the image's tag tells no version."""
    match = _REFERENCE.fullmatch(image)
    tag = _TAG.fullmatch((match["tag"] or "").lstrip(":")) if match else None
    return ".".join(part for part in tag.groups() if part) if tag else None


def _line_of(image: str) -> str:
    version = version_of(image)
    return f"{version[0]}.{version[1]}" if version else ""


def _of_line(tables: dict[str, dict[str, str]], image: str) -> dict[str, str]:
    line = _line_of(image)
    if line in tables:
        return tables[line]
    together: dict[str, str] = {}
    for known in sorted(tables, key=_numbers):
        together |= tables[known]
    return together


def _numbers(line: str) -> tuple[int, ...]:
    return tuple(int(part) for part in line.split("."))


def _lines() -> str:
    return ", ".join(f"{line} ({RELEASES[line]})" for line in sorted(RELEASES, key=_numbers, reverse=True))
