"""A server of an older release line can't read what one of a newer line has written: versions only go up. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from valkeyctl.dataplane import NodeView, Role

_LINE = re.compile(r"(\d+)\.(\d+)")


def line_of(version: str) -> str:
    """The release line of a version: "9.1" of "9.1.2"; "" where it tells none."""
    match = _LINE.match(version)
    return match[0] if match else ""


def numbers_of(version: str) -> tuple[int, int] | None:
    """The release line as numbers, (9, 1), which can be compared; None where the version tells none."""
    match = _LINE.match(version)
    return (int(match[1]), int(match[2])) if match else None


def downgrades(persistent: bool, nodes: Iterable[NodeView], declared: tuple[int, int] | None) -> list[NodeView]:  # noqa: FBT001
    """The nodes whose data a server of the declared line couldn't read.

    Primaries of a newer line, whose replicas take a copy; and with volumes replicas too, which find their own files
    again. A replica without a volume comes back empty, so an upgrade that went no further can still be taken back.
    """
    if declared is None:
        return []
    newer = [node for node in nodes if (numbers_of(node.version) or declared) > declared]
    return [node for node in newer if persistent or node.role is Role.PRIMARY]
