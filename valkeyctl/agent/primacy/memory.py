"""What an agent must not forget as long as its Pod lives: its seat's token, whom it promised what, who may take over.

It is on the memory volume that agent and server share. A Pod that is made anew has none of it: it has another seat, and
so it waits for a whole Lease before it takes anything, which is longer than any promise of its forerunner.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from valkeyctl.agent.kept import replace_file
from valkeyctl.dataplane.model import Member

FILE = "primacy.json"


class Memory:
    """Reads the file once, and writes it before what changes is acted on. For one thread, or under its user's lock."""

    def __init__(self, run: Path) -> None:
        """Raises OSError where the volume can't be used."""
        self._path = run / FILE
        told = _read(self._path)
        self.token = str(told.get("token") or "") or os.urandom(6).hex()
        self.promised_until = float(told.get("promised_until") or 0.0)
        self.candidates = frozenset(Member(0, int(one)) for one in told.get("candidates") or ())
        self.kept = str(told.get("kept") or "")
        self._write()

    def promise(self, until: float) -> None:
        """Note until when nothing is taken and nobody promoted here, as `boot_time` counts."""
        self.promised_until = max(self.promised_until, until)
        self._write()

    def note_candidates(self, candidates: Iterable[Member]) -> None:
        """Note who may take the Lease that is held here."""
        if self.candidates != frozenset(candidates):
            self.candidates = frozenset(candidates)
            self._write()

    def keep(self, run_id: str) -> None:
        """Note the server process whose data is known to be of this life: it was the primary, or followed one."""
        if self.kept != run_id:
            self.kept = run_id
            self._write()

    def _write(self) -> None:
        told: dict[str, object] = {
            "token": self.token,
            "promised_until": self.promised_until,
            "candidates": sorted(one.ordinal for one in self.candidates),
            "kept": self.kept,
        }
        replace_file(self._path, json.dumps(told).encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
