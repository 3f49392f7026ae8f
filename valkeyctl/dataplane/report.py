"""What an observation means: the phase and the conditions of an instance, for outputs, Events and status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from valkeyctl.dataplane.model import Member, Spec
from valkeyctl.dataplane.slots import Layout
from valkeyctl.dataplane.view import View


class Phase(StrEnum):
    """Where an instance stands, in one word."""

    INITIALIZING = "Initializing"
    REBALANCING = "Rebalancing"
    READY = "Ready"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    PAUSED = "Paused"
    UNREACHABLE = "Unreachable"


class Status(StrEnum):
    """The status of a condition, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Condition:
    """One aspect of the state. `reason` is one word in CamelCase, `message` a sentence for a person ("" when True)."""

    type: str
    status: Status
    reason: str
    message: str = ""


@dataclass(frozen=True)
class MemberReport:
    """One member: `state` is "primary", "replica" or why it isn't known; the rest is empty where it isn't known."""

    member: Member
    pod: str
    state: str
    node_id: str = ""
    slots: str = ""
    keys: int = 0
    in_sync: bool = False
    version: str = ""


@dataclass(frozen=True)
class Report:
    """What an observation means.

    `primaries` names each shard's primary ("s0" → Pod), shards without a live one left out. `layout` gives the slots
    that each shard owns now. `server_version` is "" when nobody answered, and "8.1.8, 9.1.2" when they differ.
    """

    phase: Phase
    conditions: tuple[Condition, ...]
    primaries: Mapping[str, str]
    layout: Layout
    server_version: str
    members: tuple[MemberReport, ...]


def report(spec: Spec, view: View) -> Report:
    """What the observation means. Pure; Ready exactly when `plan` says Done."""
    raise NotImplementedError
