"""What a stage's failed tests said, in few lines: whoever reads the end of a long log sees why it failed."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

WIDTH = 240
#: Of a long message its beginning, what speaks of errors, and its end.
FIRST, ERRORS, LAST = 4, 8, 2


def failures(report: Path) -> Iterator[str]:
    """The lines to print for a JUnit report: each failed test, and under it the gist of its message.

    Nothing for a report that isn't there or was cut off: its stage was killed, and says so itself.
    """
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - pytest wrote it a moment ago
    except (OSError, ElementTree.ParseError):
        return
    for case in cases:
        for kind in ("failure", "error"):
            for found in case.iter(kind):
                yield f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')} ({kind})"
                yield from (f"    {line[:WIDTH]}" for line in gist(found.text or found.get("message") or ""))


def gist(text: str) -> list[str]:
    """Of what pytest says of a failure: the message alone, without the source around it, and shortened."""
    lines = [line[1:].strip() for line in text.splitlines() if re.match(r"E\s", line)]
    lines = [line for line in lines or text.splitlines() if line.strip()]
    if len(lines) <= FIRST + ERRORS + LAST:
        return lines
    middle = [line for line in lines[FIRST:-LAST] if re.search(r"error|failed|refused|not Ready", line)]
    return [*lines[:FIRST], "…", *middle[:ERRORS], "…", *lines[-LAST:]]
