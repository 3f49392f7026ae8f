"""Ask every member what it is, all at once."""

from __future__ import annotations

from collections.abc import Mapping

from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.model import Endpoint, Member, Spec
from valkeyctl.dataplane.view import View


def observe(
    spec: Spec, endpoints: Mapping[Member, Endpoint], dialer: Dialer, *, timeout_s: float = 2.0, max_parallel: int = 32
) -> View:
    """What every declared member says of itself now. Only reads.

    A member without an endpoint is Absent, one that doesn't answer within `timeout_s`, or answers with an error, is
    Unreachable with the reason; neither raises. At most `max_parallel` members are asked at a time, one round trip
    each.
    """
    raise NotImplementedError
