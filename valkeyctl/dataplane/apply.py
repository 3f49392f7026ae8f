"""Carry out a step."""

from __future__ import annotations

from collections.abc import Mapping

from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.steps import Step


def apply(step: Step, endpoints: Mapping[Member, Endpoint], dialer: Dialer, *, timeout_s: float = 2.0) -> None:
    """Carry out one step at its member. Repeating a step that took effect already is no error.

    Raises `errors.Unreachable`, `errors.Refused` or `errors.ErrorReply`.
    """
    raise NotImplementedError
