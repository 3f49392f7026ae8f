"""Ask every member of one dataset what it is, all at once, in one round trip each."""

from __future__ import annotations

from collections.abc import Mapping

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S, outcome_of
from valkeyctl.dataplane.replication import wire
from valkeyctl.dataplane.replication.model import ReplicationSpec
from valkeyctl.dataplane.replication.view import Outcome, ReplicationView, ServerView
from valkeyctl.dataplane.session import Session
from valkeyctl.dataplane.translate import where


def observe(
    spec: ReplicationSpec,
    endpoints: Mapping[Member, Endpoint],
    dialer: Dialer,
    *,
    timeout_s: float = TIMEOUT_S,
) -> ReplicationView:
    """What every declared member, and every one that is leaving, says of itself now. Only reads.

    A member without an endpoint is Absent, one that doesn't answer within `timeout_s`, or answers with an error, is
    Unreachable with the reason; neither raises.
    """
    with Links(dialer, timeout_s=timeout_s, max_parallel=MAX_PARALLEL) as links:
        return ReplicationView(spec.instance, ask(links, spec, endpoints))


def ask(links: Links, spec: ReplicationSpec, endpoints: Mapping[Member, Endpoint]) -> Mapping[Member, Outcome]:
    """As `observe`, over connections that stay open: an outcome for every member."""
    wanted = {member: endpoints[member] for member in spec.everybody if member in endpoints}
    told = links.each(wanted, _ask)
    return {member: outcome_of(member, wanted, told) for member in spec.everybody}


def _ask(session: Session) -> ServerView:
    info, announced = session.ask(wire.OBSERVATION)
    for reply in (info, announced):
        if isinstance(reply, errors.ValkeyctlError):
            raise reply
    try:
        return wire.server_view(session.endpoint, info, announced)
    except wire.StillLoading as e:
        raise errors.Loading("the server still reads its dataset", where=where(session.endpoint)) from e
    except (ValueError, LookupError) as e:
        raise errors.NotUnderstood(
            "what answers there doesn't speak like a Valkey server", where=where(session.endpoint)
        ) from e
