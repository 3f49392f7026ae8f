"""Valkey itself: observe, plan (pure), apply, converge, report. Standard library and valkey-py only."""

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.apply import COMMANDS_NEEDED, apply
from valkeyctl.dataplane.converge import converge
from valkeyctl.dataplane.dial import Credentials, Dialer, DirectDialer, client_over
from valkeyctl.dataplane.model import Directory, Endpoint, Member, Spec, member_of_host, pod_name
from valkeyctl.dataplane.observe import observe
from valkeyctl.dataplane.plan import Blocked, Done, Plan, Steps, plan
from valkeyctl.dataplane.progress import Progress
from valkeyctl.dataplane.report import Condition, MemberReport, Phase, Report, Status, report
from valkeyctl.dataplane.slots import SLOTS, Layout, SlotSet, describe_layout, parse_layout, planned_layout
from valkeyctl.dataplane.steps import Step
from valkeyctl.dataplane.view import Absent, NodeView, Role, Unreachable, View, Why

__all__ = [
    "COMMANDS_NEEDED",
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
