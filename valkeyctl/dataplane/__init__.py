"""Valkey itself: observe, plan (pure), apply, converge, report. Standard library and valkey-py only.

The names below are imported when they are first used: the agent needs the model before the server starts, and must not
pay for valkey-py then (ADR 0051).
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from valkeyctl.dataplane import errors
    from valkeyctl.dataplane.apply import COMMANDS_NEEDED, COMMANDS_NEEDED_SINCE_9, apply
    from valkeyctl.dataplane.converge import converge
    from valkeyctl.dataplane.dial import Credentials, Dialer, DirectDialer, client_over
    from valkeyctl.dataplane.model import Directory, Endpoint, Member, Migration, Spec, member_of_host, pod_name
    from valkeyctl.dataplane.observe import observe
    from valkeyctl.dataplane.plan import Blocked, Done, Plan, Steps, plan
    from valkeyctl.dataplane.progress import Progress
    from valkeyctl.dataplane.report import Condition, MemberReport, Phase, Report, Status, report
    from valkeyctl.dataplane.slots import SLOTS, Layout, SlotSet, describe_layout, parse_layout, planned_layout
    from valkeyctl.dataplane.steps import Step
    from valkeyctl.dataplane.view import Absent, NodeView, Role, Unreachable, View, Why

__all__ = [
    "COMMANDS_NEEDED",
    "COMMANDS_NEEDED_SINCE_9",
    "SLOTS",
    "Absent",
    "Blocked",
    "Condition",
    "Credentials",
    "Dialer",
    "DirectDialer",
    "Directory",
    "Done",
    "Endpoint",
    "Layout",
    "Member",
    "MemberReport",
    "Migration",
    "NodeView",
    "Phase",
    "Plan",
    "Progress",
    "Report",
    "Role",
    "SlotSet",
    "Spec",
    "Status",
    "Step",
    "Steps",
    "Unreachable",
    "View",
    "Why",
    "apply",
    "client_over",
    "converge",
    "describe_layout",
    "errors",
    "member_of_host",
    "observe",
    "parse_layout",
    "plan",
    "planned_layout",
    "pod_name",
    "report",
]

_MODULES = {
    "apply": "COMMANDS_NEEDED COMMANDS_NEEDED_SINCE_9 apply",
    "converge": "converge",
    "dial": "Credentials Dialer DirectDialer client_over",
    "model": "Directory Endpoint Member Migration Spec member_of_host pod_name",
    "observe": "observe",
    "plan": "Blocked Done Plan Steps plan",
    "progress": "Progress",
    "report": "Condition MemberReport Phase Report Status report",
    "slots": "SLOTS Layout SlotSet describe_layout parse_layout planned_layout",
    "steps": "Step",
    "view": "Absent NodeView Role Unreachable View Why",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """A public name, from the module that defines it (PEP 562)."""
    if name == "errors":
        return import_module("valkeyctl.dataplane.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"valkeyctl.dataplane.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


class _Package(ModuleType):
    """This package: `plan` is its function, also when the import system binds the module of that name to it."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _HOMES:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
