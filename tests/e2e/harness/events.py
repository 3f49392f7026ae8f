"""What pulumi tells of its work while it works: the event log (`--event-log`), one JSON object a line.

A *mark* names a moment of an update in words that are the same in every run, so that a test can ask for it again:
`start create StatefulSet sessions-s0`, `end create StatefulSet sessions-s0`, `failed …`, `say Topology sessions: …`.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class Mark:
    """`seconds` since the log was opened by the reader."""

    text: str
    seconds: float


@dataclass
class EventLog:
    """Reads a log that may still be written; each event is seen once, in order, with the time when it was seen."""

    path: Path
    opened: float = field(default_factory=time.monotonic)
    events: list[Event] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    _position: int = 0

    def read(self) -> list[Mark]:
        """Take in what was written since the last call; returns the new marks."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._position += whole
        new: list[Mark] = []
        for line in data[:whole].splitlines():
            event: Event = json.loads(line)
            self.events.append(event)
            new += [Mark(text, time.monotonic() - self.opened) for text in marks_of(event)]
        self.marks += new
        return new

    def at(self, text: str) -> float:
        """When a mark was first seen, in seconds since the log was opened."""
        return next(mark.seconds for mark in self.marks if mark.text == text)

    def operations(self) -> dict[str, str]:
        """What the update did or would do to each resource: `{"StatefulSet sessions-s0": "create", …}`."""
        told: dict[str, str] = {}
        for event in self.events:
            metadata = event.get("resourcePreEvent", {}).get("metadata")
            if metadata and metadata["op"] not in ("refresh", "read"):
                told[label(metadata["urn"])] = metadata["op"]
        return told

    def refreshed(self) -> set[str]:
        """The resources that a refresh found changed or gone."""
        ended = [event["resOutputsEvent"]["metadata"] for event in self.events if "resOutputsEvent" in event]
        return {label(metadata["urn"]) for metadata in ended if metadata["op"] in ("update", "delete")}

    def diagnostics(self) -> str:
        """Everything said about resources, without colours."""
        return "\n".join(event["diagnosticEvent"]["message"] for event in self.events if "diagnosticEvent" in event)


def marks_of(event: Event) -> Iterator[str]:
    """The marks of one event, mostly none or one."""
    for key, word in (("resourcePreEvent", "start"), ("resOutputsEvent", "end"), ("resOpFailedEvent", "failed")):
        if key in event:
            metadata = event[key]["metadata"]
            yield f"{word} {metadata['op']} {label(metadata['urn'])}"
    said = event.get("diagnosticEvent")
    if said and said.get("urn"):
        yield f"say {label(said['urn'])}: {said['message'].strip()}"


def label(urn: str) -> str:
    """`StatefulSet sessions-s0` from a URN."""
    kind, name = urn.split("::")[-2:]
    return f"{kind.split('$')[-1].split(':')[-1]} {name}"
