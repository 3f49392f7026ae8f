"""What the agent says: one line an event, for people, or as JSON for a log store."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TextIO


class Log:
    """Writes events. Safe from several threads; a line is written as a whole."""

    def __init__(self, *, as_json: bool = False, to: TextIO | None = None) -> None:
        """`to` is standard output where it isn't given."""
        self._json = as_json
        self._to = to or sys.stdout
        self._lock = threading.Lock()

    def info(self, source: str, text: str, **facts: object) -> None:
        """Something happened as it should. `source` is the part that tells, `facts` are for programs too."""
        self._write("info", source, text, facts)

    def warning(self, source: str, text: str, **facts: object) -> None:
        """Something a person wants to know: a fault, or a step that is only right because of one."""
        self._write("warning", source, text, facts)

    def error(self, source: str, text: str, **facts: object) -> None:
        """The agent itself can't do its work."""
        self._write("error", source, text, facts)

    def _write(self, level: str, source: str, text: str, facts: dict[str, object]) -> None:
        now = time.time()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
        if self._json:
            told = {"time": at, "level": level, "source": source, "text": text}
            # A fact never hides what every line has.
            line = json.dumps({**facts, **told}, default=str, ensure_ascii=False)
        else:
            mark = "" if level == "info" else f"{level.upper()} "
            line = f"{at} {mark}{source}: {_one_line(text)}"
            if facts:
                line += " [" + " ".join(f"{name}={_one_line(str(value))}" for name, value in facts.items()) + "]"
        with self._lock:
            self._to.write(line + "\n")
            self._to.flush()


def _one_line(text: str) -> str:
    """No text of others breaks out of its line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
