"""Ask every Sentinel what it monitors, and every server what it is, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from valkeyctl.dataplane import errors
from valkeyctl.dataplane.dial import Dialer
from valkeyctl.dataplane.links import Links
from valkeyctl.dataplane.model import Endpoint, Member
from valkeyctl.dataplane.observe import MAX_PARALLEL, TIMEOUT_S, outcome_of
from valkeyctl.dataplane.sentinel import wire
from valkeyctl.dataplane.sentinel.model import SentinelSpec
from valkeyctl.dataplane.sentinel.view import SentinelOutcome, SentinelsView, ServerOutcome
from valkeyctl.dataplane.session import Reply, Session
from valkeyctl.dataplane.translate import where
from valkeyctl.dataplane.view import Unreachable, Why

Seen = TypeVar("Seen")


def observe(
    spec: SentinelSpec,
    sentinels: Mapping[Member, Endpoint],
    servers: Mapping[Member, Endpoint],
    sentinel_dialer: Dialer,
    server_dialer: Dialer,
    *,
    timeout_s: float = TIMEOUT_S,
    max_parallel: int = MAX_PARALLEL,
) -> SentinelsView:
    """What every Sentinel, declared or leaving, and every declared server says now. Only reads.

    Who has no endpoint is Absent, who doesn't answer within `timeout_s`, or answers with an error, is Unreachable with
    the reason; neither raises. Servers and Sentinels are signed in to by dialers of their own.
    """
    with (
        Links(sentinel_dialer, timeout_s=timeout_s, max_parallel=max_parallel) as to_sentinels,
        Links(server_dialer, timeout_s=timeout_s, max_parallel=max_parallel) as to_servers,
    ):
        return SentinelsView(
            sentinels_over(to_sentinels, spec, sentinels),
            servers_over(to_servers, spec, servers),
        )


def sentinels_over(
    links: Links, spec: SentinelSpec, endpoints: Mapping[Member, Endpoint]
) -> Mapping[Member, SentinelOutcome]:
    """Ask the Sentinels, over connections that stay open: one round trip each."""
    asked: dict[Member, Endpoint] = {member: endpoints[member] for member in spec.everybody if member in endpoints}

    def talk(session: Session) -> SentinelOutcome:
        refusals: dict[int, str] = {}
        replies = session.ask(wire.questions(spec.name))
        for index, reply in enumerate(replies):
            if isinstance(reply, errors.ValkeyctlError):
                if not (isinstance(reply, errors.ErrorReply) and wire.may_be_refused(index, reply.what)):
                    raise reply
                refusals[index] = reply.what
        return _understood(session, lambda: wire.sentinel_view(session.endpoint, replies, refusals))

    told = links.each(asked, talk)
    return {member: outcome_of(member, asked, told) for member in spec.everybody}


def servers_over(
    links: Links, spec: SentinelSpec, endpoints: Mapping[Member, Endpoint]
) -> Mapping[Member, ServerOutcome]:
    """Ask the servers, over connections that stay open: one round trip each."""
    asked = {member: endpoints[member] for member in spec.servers if member in endpoints}

    def talk(session: Session) -> ServerOutcome:
        replies = _without_errors(session.ask(wire.SERVER_QUESTIONS))
        seen = _understood(session, lambda: wire.server_view(session.endpoint, replies))
        if seen is None:
            detail = f"{where(session.endpoint)}: the server still reads its dataset"
            return Unreachable(session.endpoint, Why.LOADING, detail)
        return seen

    told = links.each(asked, talk)
    return {member: outcome_of(member, asked, told) for member in spec.servers}


def _without_errors(replies: Sequence[Reply]) -> Sequence[Reply]:
    for reply in replies:
        if isinstance(reply, errors.ValkeyctlError):
            raise reply
    return replies


def _understood(session: Session, read: Callable[[], Seen]) -> Seen:
    try:
        return read()
    except (ValueError, LookupError) as e:
        raise errors.NotUnderstood(
            "what answers there doesn't speak like a Sentinel or like a server", where=where(session.endpoint)
        ) from e
