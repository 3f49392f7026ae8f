"""A wrong instance in a stack config, and what a person is told about it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bad:
    """`instance` is the config of the instance `sessions`, whose path stands before each of the `lines`."""

    instance: Any
    lines: tuple[str, ...]


def bad(instance: Any, *lines: str) -> Bad:
    return Bad(instance, lines)
