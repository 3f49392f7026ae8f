"""The stack as the update found it: fetched from the backend by the CLI, which can read every backend."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from .model import Resource

_PATIENCE_S = 60


class UnreadableStateError(Exception):
    """The state can't be told; the message says why. A rule that needs it must not pass."""


class Before:
    """The resources of a stack before the update, by URN. Fetching begins with `begin` and is waited for by a call."""

    def __init__(self, stack: str, command: Sequence[str] = ("pulumi",)) -> None:
        """`stack`: `<organization>/<project>/<stack>`; "" where none is being updated."""
        self._stack, self._command = stack, command
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._known: Mapping[str, Resource] | None = None

    def begin(self) -> None:
        """Start to fetch, beside what goes on. Idempotent."""
        with self._lock:
            if self._process is not None or self._known is not None or not self._stack:
                return
            self._process = subprocess.Popen(
                [*self._command, "stack", "export", "--stack", self._stack, "--non-interactive"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            )

    def __call__(self) -> Mapping[str, Resource]:
        """The resources; none for a stack that has none. Raises UnreadableStateError."""
        try:
            self.begin()
        except OSError as error:
            raise UnreadableStateError(f"the stack's state could not be read: {error}") from error
        with self._lock:
            if self._known is None:
                self._known = self._fetched()
            return self._known

    def _fetched(self) -> Mapping[str, Resource]:
        if self._process is None:
            return {}
        try:
            told, said = self._process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise UnreadableStateError(f"the stack's state could not be read within {_PATIENCE_S} s") from error
        if self._process.returncode:
            raise UnreadableStateError(f"the stack's state could not be read: {said.strip()}")
        return resources_of(json.loads(told))


def resources_of(export: Mapping[str, Any]) -> dict[str, Resource]:
    """The resources in an export of a stack. Those that are only waiting for their deletion are left out. Pure."""
    entries = (export.get("deployment") or {}).get("resources") or []
    return {str(entry["urn"]): _resource(entry) for entry in entries if not entry.get("delete")}


def _resource(entry: Mapping[str, Any]) -> Resource:
    outputs: Mapping[str, Any] = entry.get("outputs") or {}
    planned = {key: outputs[key] for key in ("planned_layout",) if key in outputs}
    return Resource(
        urn=str(entry["urn"]),
        type=str(entry["type"]),
        name=str(entry["urn"]).rpartition("::")[2],
        props={**(entry.get("inputs") or {}), **planned},
        protect=bool(entry.get("protect")),
        retained=bool(entry.get("retainOnDelete")),
    )
